"""Runs of a partition that a stock mirror goes on with, and that is ours again later: what it has copied meanwhile is
covered by no run."""

from __future__ import annotations

import pytest

from bridge.model.copying import Copied
from bridge.model.values import LogRecord, TopicPartition
from bridge.translation.records.log_window import LogBounds
from bridge.translation.runs.partition_runs import Change, PartitionRuns
from bridge.translation.runs.run_evidence import ConsistentRuns, read_runs
from bridge.translation.runs.runs import OffsetRun, Segment

PLACE = TopicPartition("orders", 0)
COPIED = Copied(PLACE, "s", "A.orders", "t")


class Topic:
    """The live records of a runs topic."""

    def __init__(self) -> None:
        self._live: dict[bytes, bytes] = {}

    def take(self, changes: list[Change]) -> None:
        for key, value in changes:
            if value is None:
                self._live.pop(key, None)
            else:
                self._live[key] = value

    def commit(self, segments: list[Segment], position: int) -> None:
        self.take(self.read().commit(segments, position, COPIED))

    def hand_back(self) -> None:
        self.take(self.read().hand_back())

    def read(self) -> PartitionRuns:
        records = [LogRecord(0, 0, *pair) for pair in self._live.items()]
        return read_runs(records).get(COPIED.id, PartitionRuns())

    @property
    def last(self) -> OffsetRun:
        last = self.read().last
        assert last is not None
        return last

    @property
    def covered(self) -> list[tuple[int, int, int]]:
        """covered_from, upstream_start and position of every run."""
        return [(run.covered_from, run.upstream_start, run.position) for run in self.read().runs]


def copied_once() -> Topic:
    topic = Topic()
    topic.commit([Segment(0, 0, 0, 100)], 110)
    topic.hand_back()
    return topic


def test_without_a_run_there_is_nothing_to_hand_back() -> None:
    assert PartitionRuns().hand_back() == []


def test_what_is_handed_back_is_the_last_run_and_nothing_else_of_it() -> None:
    topic = copied_once()
    assert topic.last.handed_back
    assert topic.covered == [(0, 0, 110)]


def test_ours_again_where_it_ended_is_as_if_nothing_had_been() -> None:
    topic = copied_once()
    topic.commit([], 110)
    assert not topic.last.handed_back
    topic.commit([Segment(110, 112, 101, 5)], 117)
    assert topic.covered == [(0, 0, 110), (110, 112, 117)]


@pytest.mark.parametrize("position_first", [True, False])
def test_what_stock_copied_in_between_is_not_covered(position_first: bool) -> None:
    topic = copied_once()
    if position_first:
        topic.commit([], 200)
        assert topic.covered == [(0, 0, 110), (200, 200, 200)]
        topic.commit([], 203)
    topic.commit([Segment(203, 203, 180, 7)], 210)
    assert not any(run.handed_back for run in topic.read().runs)
    covered = 200 if position_first else 203
    assert topic.covered == [(0, 0, 110), (covered, 203, 210)]

    known = ConsistentRuns(topic.read().runs)
    bounds = LogBounds(0, 300)
    between = known.translate(150, "t", bounds, "s", bounds)
    assert between is not None
    assert (between.judgement, between.offset, between.bound) == ("bounded", 100, 80)
    for offset, place in ((99, 99), (203, 180), (209, 186)):
        exact = known.translate(offset, "t", bounds, "s", bounds)
        assert exact is not None
        assert (exact.judgement, exact.offset) == ("exact", place)


def test_a_bare_position_that_was_handed_back_covers_nothing_of_what_stock_copied() -> None:
    topic = Topic()
    topic.commit([], 40)
    topic.hand_back()
    topic.commit([], 90)
    topic.commit([Segment(90, 95, 60, 5)], 100)
    assert topic.covered == [(90, 95, 100)]


def test_a_stock_that_went_back_takes_back_what_was_said_from_there() -> None:
    topic = copied_once()
    topic.commit([], 30)
    assert (topic.last.position, topic.last.upstream_end, topic.last.handed_back) == (30, 30, False)
