"""Where copying goes on, and what is missing there: promise R7, decided before anything is committed."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.pipeline.gaps import Resume, agreement, ledger_entry, read_ledger, resume
from bridge.translation.copying import Copied, Gap, GapKind
from bridge.translation.fields import SchemaError
from bridge.translation.model import Bounds, TopicPartition
from bridge.translation.runs import OffsetRun
from tests.pipeline.values import copied

NOW = 1_700_000_000_000
WHOLE = Bounds(0, 1000)


def run(
    position: int = 500, *, downstream: int = 500, ids: tuple[str, str] = ("source-id", "target-id")
) -> OffsetRun:
    """Everything from 0 to `position` was copied to the same offsets, up to `downstream`."""
    place = TopicPartition("orders", 0)
    return OffsetRun(
        place, ids[0], "A.orders", ids[1], 0, 0, downstream - position, position, 0, 0, 3, position, 1
    )


def resumed(
    last: OffsetRun | None,
    source: Bounds,
    target: Bounds = WHOLE,
    *,
    latest: bool = False,
    of: Copied | None = None,
) -> Resume:
    return resume(of or copied(), last, source, target, from_latest=latest, now_ms=NOW)


@pytest.mark.parametrize(
    ("latest", "start", "offset"),
    [(False, None, 40), (True, None, 90), (False, 60, 60), (True, 60, 60), (False, 90, 90)],
)
def test_without_a_run_copying_begins_where_it_is_told_to(
    latest: bool, start: int | None, offset: int
) -> None:
    found = resumed(None, Bounds(40, 90), Bounds(0, 0), latest=latest, of=copied(start=start))
    assert found == Resume(offset)


def test_with_a_run_copying_goes_on_at_its_position_whatever_it_is_told() -> None:
    assert resumed(run(), WHOLE, of=copied(start=7), latest=True) == Resume(500)


@pytest.mark.parametrize("source", [Bounds(0, 500), Bounds(500, 500), Bounds(500, 900)])
def test_a_log_that_has_the_position_as_its_start_or_end_has_no_gap(source: Bounds) -> None:
    assert resumed(run(), source) == Resume(500)


@pytest.mark.parametrize(
    ("last", "of"), [(run(), copied()), (None, copied(start=500))], ids=["our own", "taken over from stock"]
)
def test_what_retention_took_before_it_was_copied_is_a_gap(last: OffsetRun | None, of: Copied) -> None:
    found = resumed(last, Bounds(620, 1000), of=of)
    assert found.offset == 620
    (gap,) = found.gaps
    assert (gap.kind, gap.upstream_from, gap.upstream_to) == (GapKind.TRUNCATED, 500, 620)


@pytest.mark.parametrize("handed_back", [False, True], ids=["never ours", "ours before"])
def test_a_log_that_ends_before_stocks_position_is_copied_from_its_start(handed_back: bool) -> None:
    """Nobody knows whether the topic was made again; stock keeps no topic ids."""
    last = run()._replace(handed_back=True) if handed_back else None
    found = resumed(last, Bounds(3, 620), of=copied(start=700))
    assert found.offset == 3
    (gap,) = found.gaps
    assert (gap.kind, gap.upstream_from, gap.upstream_to) == (GapKind.CUT_BACK, 620, 700)


@pytest.mark.parametrize("start", [400, 500, 800])
def test_what_was_handed_back_goes_on_where_stock_has_come_to(start: int) -> None:
    last = run()._replace(handed_back=True)
    assert resumed(last, WHOLE, of=copied(start=start)) == Resume(start)
    assert resumed(run(), WHOLE, of=copied(start=start)) == Resume(500)


def test_what_was_handed_back_and_never_begun_by_stock_goes_on_as_it_was() -> None:
    assert resumed(run()._replace(handed_back=True), WHOLE, latest=True) == Resume(500)


def test_a_source_made_again_while_stock_copied_is_told_of() -> None:
    last = run(ids=("older-id", "target-id"))._replace(handed_back=True)
    found = resumed(last, WHOLE, of=copied(start=20))
    assert found.offset == 20
    assert [gap.kind for gap in found.gaps] == [GapKind.SOURCE_RECREATED]


def test_a_source_that_was_cut_back_is_copied_again_from_there() -> None:
    found = resumed(run(), Bounds(0, 450))
    assert found.offset == 450
    (gap,) = found.gaps
    assert (gap.kind, gap.upstream_from, gap.upstream_to) == (GapKind.CUT_BACK, 450, 500)


@pytest.mark.parametrize("end", [10, 500, 5000], ids=["shorter", "as long", "overtaken"])
def test_a_source_topic_that_was_made_again_is_copied_from_its_start(end: int) -> None:
    found = resumed(run(ids=("older-id", "target-id")), Bounds(3, end))
    assert found.offset == 3
    (gap,) = found.gaps
    assert (gap.kind, gap.topic_id, gap.upstream_from, gap.upstream_to) == (
        GapKind.SOURCE_RECREATED,
        "older-id",
        500,
        -1,
    )


@pytest.mark.parametrize(
    ("last", "target"),
    [
        (run(ids=("source-id", "older-id")), Bounds(0, 0)),
        (run(ids=("source-id", "older-id")), Bounds(0, 9000)),
        (run(), Bounds(0, 499)),
    ],
    ids=["made again", "made again and filled", "cut back"],
)
def test_a_target_that_lost_copies_is_told_of_and_copying_goes_on(last: OffsetRun, target: Bounds) -> None:
    found = resumed(last, WHOLE, target)
    assert found.offset == 500
    (gap,) = found.gaps
    assert (gap.kind, gap.upstream_to) == (GapKind.TARGET_RECREATED, 500)


def test_both_sides_may_have_lost_something() -> None:
    found = resumed(run(), Bounds(700, 1000), Bounds(0, 20))
    assert found.offset == 700
    assert [gap.kind for gap in found.gaps] == [GapKind.TARGET_RECREATED, GapKind.TRUNCATED]


def test_brokers_without_topic_ids_are_judged_by_offsets_alone() -> None:
    of = copied(ids=("", ""))
    assert resumed(run(ids=("", "")), WHOLE, of=of) == Resume(500)
    assert resumed(run(), WHOLE, of=of) == Resume(500)


def test_the_ledger_reads_back() -> None:
    for kind in GapKind:
        gap = Gap(TopicPartition("orders", 2), kind, "source-id", -1, 77, NOW, "why")
        assert read_ledger(*ledger_entry(gap, "mirror")) == replace(gap, connector="mirror")


KEY = {
    "version": 1,
    "topic": "orders",
    "partition": 2,
    "targetTopic": "A.orders",
    "topicId": "id",
    "kind": "truncated",
    "from": 5,
}
VALUE = {"version": 1, "connector": "mirror", "to": 9, "seenAtMs": NOW, "detail": "why"}


def entry(**changed: object) -> tuple[bytes, bytes]:
    """A sound one with these fields changed; of both where both have them."""
    key = {name: changed.get(name, value) for name, value in KEY.items()}
    value = {name: changed.get(name, value) for name, value in VALUE.items()}
    return json.dumps(key).encode(), json.dumps(value).encode()


def test_an_entry_that_is_taken_back_is_none() -> None:
    assert read_ledger(entry()[0], None) is None


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"seenAtMs": "never"}, "seenAtMs is 'never'"),
        ({"seenAtMs": -1}, "seenAtMs is -1"),
        ({"seenAtMs": 1e18}, "seenAtMs is 1e"),
        ({"seenAtMs": 10**15}, "seenAtMs is 1000000000000000"),
        ({"to": "9"}, "to is '9'"),
        ({"to": -2}, "to is -2"),
        ({"to": 2**63 - 1}, "to is 9223372036854775807"),
        ({"from": None}, "from is None"),
        ({"from": True}, "from is True"),
        ({"from": 2**64}, "from is 1844"),
        ({"partition": -1}, "partition is -1"),
        ({"partition": 2**31}, "partition is 2147483648"),
        ({"partition": [0]}, "partition is a list"),
        ({"topic": 7}, "topic is 7"),
        ({"topic": ""}, "topic is ''"),
        ({"topicId": None}, "topicId is None"),
        ({"kind": "no such"}, "kind is 'no such': none that this version knows"),
        ({"kind": ["truncated"]}, "kind is a list"),
        ({"detail": {"a": 1}}, "detail is a dict"),
        ({"detail": "\ud800"}, "detail is "),
        ({"version": 9}, "version is 9"),
        ({"version": "0"}, "version is '0'"),
    ],
    ids=str,
)
def test_each_field_of_an_entry_is_checked(changed: dict[str, object], why: str) -> None:
    with pytest.raises(SchemaError) as caught:
        read_ledger(*entry(**changed))
    assert str(caught.value).startswith(why)


@pytest.mark.parametrize("junk", [b"", b"{}", b"[" * 100_000, b'{"version": ' + b"[" * 100_000, b"\xff"])
def test_what_is_no_entry_is_named(junk: bytes) -> None:
    key, value = entry()
    for each in ((junk, value), (key, junk), (None, value)):
        with pytest.raises(SchemaError):
            read_ledger(*each)


@given(
    st.dictionaries(st.sampled_from([*KEY, *VALUE]), st.none() | st.integers() | st.text() | st.booleans())
)
def test_whatever_stands_in_the_ledger_is_read_or_refused(changed: dict[str, object]) -> None:
    with suppress(SchemaError):
        gap = read_ledger(*entry(**changed))
        assert gap is not None
        assert read_ledger(*ledger_entry(gap, gap.connector)) == gap
        assert gap.said


@pytest.mark.parametrize(
    ("epoch", "end", "agreed"),
    [(3, 150, 150), (4, 250, 200), (2, 90, 90), (2, 150, 100), (-1, -1, 0), (7, 290, 290)],
)
def test_up_to_where_a_log_of_another_way_is_what_was_copied(epoch: int, end: int, agreed: int) -> None:
    """Copied: 0 to 100 of epoch 2, to 200 of epoch 3, to 300 of epoch 5. A log may be longer than that by now, and all
    of it older epochs: its end alone tells nothing."""
    runs = [
        run(100)._replace(upstream_start=start, upstream_count=100, position=start + 100, leader_epoch=of)
        for start, of in ((0, 2), (100, 3), (200, 5))
    ]
    assert agreement(runs, epoch, end) == agreed
