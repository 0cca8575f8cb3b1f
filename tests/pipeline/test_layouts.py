"""Who copies what, and the records that say so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.pipeline.layouts import LayoutRecord, SliceReport, balance, transactional_id
from bridge.translation.model import TopicPartition
from tests.pipeline.values import copied, spec


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=40), st.integers(1, 8), st.randoms())
def test_every_partition_has_one_slot_and_none_is_much_heavier_than_it_must_be(loads, slots, random) -> None:
    partitions = [copied(number) for number in range(len(loads))]
    weights = {each.source: float(load) for each, load in zip(partitions, loads, strict=True)}
    shares = balance(partitions, slots, weights)
    assert sorted(each.source for share in shares for each in share) == [each.source for each in partitions]
    assert len(shares) == min(slots, len(partitions))
    shuffled = random.sample(partitions, len(partitions))
    assert balance(shuffled, slots, weights) == shares
    least = min((load for load in weights.values() if load > 0), default=1.0)
    weighed = [[max(weights[each.source], least) for each in share] for share in shares]
    totals = [sum(share) for share in weighed]
    # Longest first: the heaviest slot without its lightest partition is no heavier than any other.
    heaviest = totals.index(max(totals))
    assert totals[heaviest] - min(weighed[heaviest]) <= min(totals)


def test_partitions_that_nobody_has_measured_weigh_as_little_as_the_lightest() -> None:
    known = {TopicPartition("orders", 0): 100.0, TopicPartition("orders", 1): 10.0}
    shares = balance([copied(number) for number in range(6)], 2, known)
    assert [[each.source.partition for each in share] for share in shares] == [[0], [1, 2, 3, 4, 5]]


def test_without_partitions_there_is_no_slice() -> None:
    assert balance([], 4, {}) == []


def test_transactional_ids_are_of_one_connector_one_flow_and_one_slot() -> None:
    ids = {
        transactional_id(spec(name=name, source_alias=alias), slot)
        for name in ("one", "other")
        for alias in ("A", "B")
        for slot in range(3)
    }
    assert len(ids) == 12


def test_records_of_the_layout_topic_read_back() -> None:
    newest = LayoutRecord(7, 2, stop=True)
    assert LayoutRecord.decode(newest.value()) == newest
    report = SliceReport(7, 1, error="away", failure="", moved=[TopicPartition("orders", 3)])
    assert SliceReport.decode(report.value()) == report


@pytest.mark.parametrize("value", [None, b"", b"not JSON", b"[]", b'{"layout": "7"}', b"\xff"])
def test_what_is_no_record_of_ours_is_none(value: bytes | None) -> None:
    assert LayoutRecord.decode(value) is None
    assert SliceReport.decode(value) is None


def test_a_report_is_no_layout() -> None:
    assert LayoutRecord.decode(SliceReport(3, 0).value()) is None
