"""The records of the layout topic: each counts for the connector that its key names, and nonsense for nobody."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.model.copying import PipelineSpec
from bridge.model.partition_states import PartitionState, PartitionStatus
from bridge.model.state_records.claims import Claim
from bridge.model.values import LogRecord, TopicPartition
from bridge.pipeline.layouts.records import (
    MOST_SLOTS,
    LayoutRecord,
    SliceReport,
    layout_key,
    read_layouts,
    read_partitions,
    report_key,
    unreadable,
    unversioned_layout_key,
)
from tests.unit.pipeline.values import spec

ONE, TWO = spec(name="one"), spec(name="two")


def topic(*pairs: tuple[bytes | None, bytes | None]) -> list[LogRecord]:
    return [LogRecord(offset, 0, *pair) for offset, pair in enumerate(pairs)]


def claim(connector: str, target: str = "A.t") -> tuple[bytes, bytes]:
    made = Claim("t", target, connector)
    return made.key(), made.value()


def test_records_read_back() -> None:
    newest = LayoutRecord(7, 2, stop=True, copied=True, rates=(5, 1 << 40))
    assert LayoutRecord.decode(newest.value()) == newest
    report = SliceReport(7, 1, error="away", failure="", moved=[TopicPartition("orders", 3)], left=True)
    assert SliceReport.decode(report.value()) == report
    waiting = PartitionStatus("orders", 3, PartitionState.WAITING, 5, "no leader")
    with_one = report._replace(partitions=(waiting,))
    assert SliceReport.decode(with_one.value()) == with_one
    assert SliceReport.decode(with_one.value().replace(b"waiting", b"dancing")) is None
    made = Claim("t", "A.t", "one")
    assert Claim.decode(made.key()) == made
    assert Claim.decode(made.key(), made.value()) == made
    for changed in (made._replace(settled=False), made._replace(starting=True)):
        assert Claim.decode(changed.key(), changed.value()) == changed


NESTED = b'{"layout":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"not JSON",
        b"[]",
        b'{"layout": "7"}',
        b"\xff",
        NESTED,
        b'{"layout": 1, "slots": 1000000000, "slot": 1000000000}',
        b'{"layout": -1, "slots": 1, "slot": 1}',
        b'{"layout": true, "slots": 1, "slot": 1}',
        b'{"layout": 1e3, "slots": 1, "slot": 1}',
        b'{"layout": 1' + b"0" * 40 + b', "slots": 1, "slot": 1}',
    ],
)
def test_what_is_no_record_of_ours_is_none(value: bytes | None) -> None:
    assert LayoutRecord.decode(value) is None
    assert SliceReport.decode(value) is None
    assert Claim.decode(value) is None


@pytest.mark.parametrize(
    "given",
    [
        {"moved": 5},
        {"moved": [5]},
        {"moved": [["orders"]]},
        {"moved": [["orders", "0"]]},
        {"moved": [["orders", -1]]},
        {"moved": [["orders", 1 << 31]]},
        {"moved": None},
        {"error": 5},
        {"failure": ["it broke"]},
        {"ended": None},
        {"error": "\ud800"},
        {"moved": [["\ud800", 0]]},
    ],
)
def test_a_report_with_a_field_of_another_type_is_none(given: dict[str, object]) -> None:
    assert SliceReport.decode(json.dumps({"layout": 1, "slot": 0, **given}).encode()) is None


@pytest.mark.parametrize(
    "given",
    [
        *({"stop": 1}, {"stop": None}, {"copied": "true"}, {"copied": None}),
        *({"rates": 5}, {"rates": [0]}, {"rates": [True]}, {"rates": ["5"]}, {"rates": [1.5]}),
    ],
)
def test_a_layout_with_a_field_of_another_type_is_none(given: dict[str, object]) -> None:
    assert LayoutRecord.decode(json.dumps({"layout": 1, "slots": 1, **given}).encode()) is None


def test_a_report_is_no_layout_and_a_layout_is_no_claim() -> None:
    assert LayoutRecord.decode(SliceReport(3, 0).value()) is None
    assert Claim.decode(layout_key(ONE)) is None
    assert Claim.decode(report_key(ONE, 3)) is None


def test_a_layout_counts_for_the_connector_that_its_key_names() -> None:
    records = topic(
        (layout_key(ONE), LayoutRecord(3, 2).value()),
        (layout_key(TWO), LayoutRecord(9, 4).value()),
        (report_key(ONE, 0), LayoutRecord(11, 4).value()),
        (layout_key(spec(name="one/0")), LayoutRecord(12, 4).value()),
    )
    assert read_layouts(records, ONE).before == LayoutRecord(3, 2)
    assert read_layouts(records, TWO).before == LayoutRecord(9, 4)
    assert read_layouts(records, spec(name="three")).before == LayoutRecord(0, 0)


@pytest.mark.parametrize("poison", [b"nonsense", b'{"layout": 1, "slots": 1000000000}', NESTED])
def test_a_layout_that_nobody_can_read_is_followed_by_a_newer_one_that_fences_all_slots(
    poison: bytes,
) -> None:
    """It has replaced the true one, whose number was at most 7: each layout has a record."""
    records = topic(
        *[(layout_key(ONE), LayoutRecord(number, 8).value()) for number in range(1, 8)],
        (layout_key(ONE), poison),
    )
    before = read_layouts(records[-1:], ONE).before
    assert before.layout > 7
    assert before.slots == MOST_SLOTS


def test_a_layout_of_version_0_is_fenced_too() -> None:
    old = (unversioned_layout_key(ONE), LayoutRecord(7, 6).value())
    layouts = read_layouts(topic(old), ONE)
    assert (layouts.unversioned, layouts.before) == (LayoutRecord(7, 6), LayoutRecord(7, 6))
    both = read_layouts(topic(old, (layout_key(ONE), LayoutRecord(8, 2).value())), ONE)
    assert both.before == LayoutRecord(8, 6)
    dropped = read_layouts(topic(old, (layout_key(ONE), LayoutRecord(8, 2).value()), (old[0], None)), ONE)
    assert (dropped.unversioned, dropped.before) == (None, LayoutRecord(8, 2))


def test_the_first_claim_in_the_log_holds() -> None:
    layouts = read_layouts(topic(claim("two"), claim("one"), claim("one", "t")), ONE)
    assert (layouts.owner(("t", "A.t")), layouts.owner(("t", "t")), layouts.owner(("u", "A.u"))) == (
        "two",
        "one",
        None,
    )


def test_a_claim_that_is_withdrawn_leaves_the_copy_to_the_next() -> None:
    layouts = read_layouts(topic(claim("two"), claim("one"), (claim("two")[0], None)), ONE)
    assert layouts.owner(("t", "A.t")) == "one"


def test_a_claim_that_comes_again_stands_behind_those_before_it() -> None:
    layouts = read_layouts(topic(claim("two"), claim("one"), (claim("two")[0], None), claim("two")), ONE)
    assert layouts.owner(("t", "A.t")) == "one"


@given(
    st.lists(st.tuples(st.none() | st.binary(max_size=40), st.none() | st.binary(max_size=40)), max_size=8)
)
def test_nonsense_is_passed_over(pairs: list[tuple[bytes | None, bytes | None]]) -> None:
    good = (layout_key(ONE), LayoutRecord(3, 2).value()), claim("one")
    assert read_layouts(topic(*pairs, *good), ONE) == read_layouts(
        topic(*[(None, None)] * len(pairs), *good), ONE
    )


def test_what_is_written_is_none_of_what_cant_be_read() -> None:
    written = [
        (layout_key(ONE), LayoutRecord(3, 4).value()),
        (report_key(ONE, 2), SliceReport(3, 2, "error").value()),
        (Claim("orders", "A.orders", "mirror").key(), Claim("orders", "A.orders", "mirror").value()),
        (b"mirror", LayoutRecord(3, 4).value()),
        (b"mirror/2", SliceReport(3, 2).value()),
        (b"anything", None),
    ]
    assert [unreadable(*each) for each in written] == [None] * len(written)


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (layout_key(ONE), b"junk", "its key is of a layout"),
        (layout_key(ONE), LayoutRecord(3, 10**9).value(), "its key is of a layout"),
        (report_key(ONE, 2), b'{"layout": 1, "slot": 2, "moved": 5}', "its key is of a slice"),
        (report_key(ONE, 2), b"[" * 100_000, "its key is of a slice"),
        (b'{"source": 1, "target": "t", "connector": "c"}', b"{}", "its key is of no record"),
        (b'{"later": 1}', b"{}", "its key is of no record"),
        (b"junk", b"junk", "it is no layout"),
        (None, b"junk", "it is no layout"),
        (b"[" * 100_000, b"{}", "it is no layout"),
    ],
)
def test_what_cant_be_read_has_a_reason(key: bytes | None, value: bytes, why: str) -> None:
    assert str(unreadable(key, value)).startswith(why)


def test_what_slices_have_reported_of_partitions_is_of_this_layout_and_the_one_before() -> None:
    def reported(layout: int, slot: int, *partitions: int, to: PipelineSpec = ONE) -> LogRecord:
        statuses = tuple(
            PartitionStatus("orders", each, PartitionState.WAITING, layout, "no leader")
            for each in partitions
        )
        report = SliceReport(layout, slot, partitions=statuses)
        return LogRecord(0, 0, report_key(to, slot), report.value())

    records = [
        reported(5, 0, 1),
        reported(7, 1, 2),
        reported(8, 2, 3, 4),
        reported(7, 3, 5),
        reported(8, 3),
        reported(8, 0, 9, to=replace(ONE, name="another")),
        LogRecord(0, 0, report_key(ONE, 4), b"nonsense"),
    ]
    read = read_partitions(records, ONE, 8)
    assert [(each.partition, each.since_ms) for each in read] == [(2, 7), (3, 8), (4, 8)]
