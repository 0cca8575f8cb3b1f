"""What a slot writes of its runs at a commit, and how little of it stays."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import pairwise

import pytest

from bridge.translation.copying import Copied
from bridge.translation.model import CopyId, LogRecord, TopicPartition
from bridge.translation.partition_runs import (
    KEPT,
    PER_COMMIT,
    RATIO,
    Change,
    PartitionRuns,
    consistent,
    joined,
    looseness,
)
from bridge.translation.run_table import RunTable, read_runs
from bridge.translation.runs import OffsetRun, RunKey, Segment, decode_change

PLACE = TopicPartition("orders", 0)
COPY = CopyId(PLACE, "A.orders")
COPIED = Copied(PLACE, "s", "A.orders", "t")
Short = tuple[int, int, int, int]
"""covered_from, upstream_start, downstream_start, position."""


class Topic:
    """The live records of a runs topic, and the slot that writes them."""

    def __init__(self) -> None:
        self.owner = PartitionRuns()
        self.live: dict[bytes, bytes] = {}
        self.written = 0

    def commit(self, segments: Sequence[Segment], position: int, copied: Copied = COPIED) -> list[Change]:
        changes = self.owner.commit(segments, position, copied)
        for key, value in changes:
            self.written += len(key) + len(value or b"")
            if value is None:
                self.live.pop(key, None)
            else:
                self.live[key] = value
        return changes

    def read(self) -> list[OffsetRun]:
        found = read_runs([LogRecord(0, 0, *pair) for pair in self.live.items()])
        return list(found[COPY].runs) if found else []

    @property
    def short(self) -> list[Short]:
        assert self.read() == self.owner.runs
        return [
            (run.covered_from, run.upstream_start, run.downstream_start, run.position) for run in self.read()
        ]


def test_each_commit_makes_a_run_so_that_its_marker_is_between_runs() -> None:
    topic = Topic()
    assert (topic.owner.last, topic.owner.position) == (None, None)
    topic.commit([Segment(0, 0, 100, 10, 3, 77)], 10)
    topic.commit([Segment(10, 10, 111, 5, 4, 88)], 15)
    assert topic.short == [(0, 0, 100, 10), (10, 10, 111, 15)]
    last = topic.owner.last
    assert last is not None
    assert (last.upstream_end, last.downstream_end, last.leader_epoch, last.last_timestamp) == (
        15,
        116,
        4,
        88,
    )
    assert topic.owner.position == 15


def test_a_hole_parts_runs_and_the_position_may_lie_behind_the_last_record() -> None:
    topic = Topic()
    topic.commit([Segment(0, 2, 100, 3), Segment(5, 8, 103, 2)], 14)
    assert topic.short == [(0, 2, 100, 5), (5, 8, 103, 14)]
    topic.commit([], 20)
    assert topic.short == [(0, 2, 100, 5), (5, 8, 103, 20)]
    assert topic.commit([], 20) == []


def test_a_bare_position_gives_way_to_the_first_run() -> None:
    topic = Topic()
    topic.commit([], 50)
    assert topic.short == [(50, 50, 0, 50)]
    topic.commit([], 60)
    assert topic.short == [(50, 50, 0, 60)]
    topic.commit([Segment(60, 63, 100, 2)], 65)
    assert topic.short == [(50, 63, 100, 65)]


def test_a_run_does_not_cover_what_another_has_copied() -> None:
    topic = Topic()
    topic.commit([Segment(0, 0, 100, 10)], 10)
    topic.commit([Segment(4, 20, 111, 5)], 25)
    assert topic.short == [(0, 0, 100, 10), (10, 20, 111, 25)]
    first, second = topic.read()
    assert consistent([first, second._replace(covered_from=4)]) == ([first, second], [])


def three() -> Topic:
    topic = Topic()
    for at in range(3):
        topic.commit([Segment(10 * at, 10 * at, 100 + 11 * at, 10)], 10 * at + 10)
    return topic


@pytest.mark.parametrize(
    ("segment", "expected"),
    [
        pytest.param(
            Segment(30, 30, 50, 1), [(30, 30, 50, 31)], id="the target's log was cut back below all of them"
        ),
        pytest.param(
            Segment(30, 30, 115, 1),
            [(0, 0, 100, 10), (10, 10, 111, 14), (30, 30, 115, 31)],
            id="the target's log was cut back inside one",
        ),
        pytest.param(
            Segment(25, 25, 133, 1),
            [(0, 0, 100, 10), (10, 10, 111, 20), (20, 20, 122, 25), (25, 25, 133, 26)],
            id="the source's log was cut back",
        ),
        pytest.param(
            Segment(20, 20, 133, 1),
            [(0, 0, 100, 10), (10, 10, 111, 20), (20, 20, 133, 21)],
            id="the source's log was cut back to where a run begins",
        ),
    ],
)
def test_offsets_that_come_again_take_back_what_was_said_of_them(
    segment: Segment, expected: list[Short]
) -> None:
    topic = three()
    topic.commit([segment], segment.upstream_end)
    assert topic.short == expected


def test_a_position_that_goes_back_takes_runs_back_too() -> None:
    topic = three()
    topic.commit([], 15)
    assert topic.short == [(0, 0, 100, 10), (10, 10, 111, 15)]
    topic.commit([], 0)
    assert topic.short == [(0, 0, 0, 0)]


def test_a_merged_run_that_is_cut_goes_as_a_whole() -> None:
    topic = three()
    first, second, third = topic.read()
    merged = joined(second, third)
    topic.live = {each.key(): each.value() for each in (first, merged)}
    topic.owner = PartitionRuns([first, merged])
    topic.commit([], 25)
    assert topic.short == [(0, 0, 100, 10), (25, 25, 0, 25)]
    topic.commit([Segment(25, 25, 133, 5)], 30)
    assert topic.short == [(0, 0, 100, 10), (25, 25, 133, 30)]


@pytest.mark.parametrize(
    "other",
    [
        Copied(PLACE, "s", "A.orders", "made anew"),
        Copied(PLACE, "made anew", "A.orders", "t"),
    ],
)
def test_runs_of_another_topic_go(other: Copied) -> None:
    topic = three()
    topic.commit([], 30, other)
    assert topic.short == [(30, 30, 0, 30)]
    topic = three()
    topic.commit([Segment(0, 0, 0, 10)], 10, other)
    assert topic.short == [(0, 0, 0, 10)]


def test_what_contradicts_the_last_run_is_dropped_with_the_next_commit() -> None:
    topic = three()
    late = topic.read()[0]._replace(upstream_start=5, covered_from=5, position=15)
    topic.live[late.key()] = late.value()
    topic.owner = PartitionRuns([late, *topic.read()])
    assert (late.key(), None) in topic.commit([], 31)
    assert late.key() not in topic.live


def test_many_small_holes_in_one_commit() -> None:
    """As of a source whose transactions have one record each; a few holes are wide, and one nobody knows."""
    topic = Topic()
    segments, covered = [], 0
    for number in range(500):
        start = covered + (1000 if number % 100 == 50 else 1)
        segments.append(Segment(start if number == 7 else covered, start, 100 + number, 1))
        covered = start + 1
    topic.commit(segments, covered)
    runs = topic.read()
    assert len(runs) <= PER_COMMIT + 1
    assert {segments[at].upstream_start for at in (7, *range(50, 500, 100))} <= {
        run.upstream_start for run in runs
    }
    assert sum(run.upstream_count - run.skipped for run in runs) == 500


# -- merging ---------------------------------------------------------------------------------------------------------


def grow(topic: Topic, commits: int, shape: str, chance: random.Random) -> None:
    last = topic.owner.last
    upstream, downstream = (0, 0) if last is None else (last.position, last.downstream_end + 1)
    for _ in range(commits):
        count, hole = {
            "one record a commit": (1, 0),
            "a thousand records a commit": (1000, 0),
            "transactions of one record": (1, 1),
            "nearly all compacted away": (1, chance.randint(500, 2000)),
            "bursts": (chance.choice([1, 1, 1, 20_000]), 0),
        }[shape]
        topic.commit([Segment(upstream, upstream + hole, downstream, count)], upstream + hole + count)
        upstream, downstream = upstream + hole + count, downstream + count + 1


SHAPES = [
    "one record a commit",
    "a thousand records a commit",
    "transactions of one record",
    "nearly all compacted away",
    "bursts",
]
YEAR = 365 * 24 * 3600 * 10
"""Commits, one every 100 ms."""


@pytest.mark.parametrize("shape", SHAPES)
def test_a_year_of_commits_stays_below_10_mb(shape: str) -> None:
    """With every doubling of the commits come as many runs as with the one before; so a year is counted up."""
    topic, chance = Topic(), random.Random(shape)
    sizes, commits = [0], 1
    while commits < 2**15:
        grow(topic, commits, shape, chance)
        commits *= 2
        sizes.append(sum(len(key) + len(value) for key, value in topic.live.items()))
    steps = [later - earlier for earlier, later in pairwise(sizes)]
    assert max(steps[12:]) < 1.3 * max(steps[:12]), steps
    still_to_come = math.log2(YEAR / commits)
    assert sizes[-1] + still_to_come * max(steps) < 2_000_000
    assert topic.written / commits < 4 * len(topic.read()[0].value())


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_merged_is_little_beside_its_distance_from_the_end(shape: str) -> None:
    topic, chance = Topic(), random.Random(shape)
    grow(topic, 5000, shape, chance)
    runs = topic.read()
    assert all(looseness(run) == 0 for run in runs[-KEPT:])
    assert any(looseness(run) for run in runs)
    for run in runs:
        assert looseness(run) * RATIO <= runs[-1].downstream_end - run.downstream_end
    for older, newer in pairwise(runs):
        assert newer.covered_from <= older.position  # nothing has become unknown
    again = PartitionRuns(runs)
    assert again.runs == topic.owner.runs


def test_what_nobody_knows_is_not_merged() -> None:
    topic = Topic()
    for number in range(3000):
        segment = Segment(3 * number + number % 2, 3 * number + 1, 2 * number, 2)
        topic.commit([segment], segment.upstream_end)
    unknown = [newer for older, newer in pairwise(topic.read()) if newer.covered_from > older.position]
    assert len(unknown) == 1500


def test_copies_of_one_partition_to_two_topics_keep_their_own_runs() -> None:
    """They had one key: a copy to another topic dropped the runs of the first, and began behind them."""
    other = Copied(PLACE, "s", "orders", "u")
    changes = [
        *PartitionRuns().commit([Segment(0, 0, 7, 200)], 200, COPIED),
        *PartitionRuns().commit([Segment(0, 0, 0, 50)], 50, other),
    ]
    found = read_runs([LogRecord(0, 0, *pair) for pair in changes])
    assert {copy.target_topic: runs.position for copy, runs in found.items()} == {
        "A.orders": 200,
        "orders": 50,
    }


def nameless(changes: Sequence[Change]) -> list[LogRecord]:
    """As version 0 has written them."""
    found = []
    for key, value in changes:
        named = RunKey.decode(key)
        found.append(LogRecord(0, 0, RunKey(named.source, "", named.upstream_start).encode(), value))
    return found


def test_runs_of_version_0_are_read_on_and_written_anew_when_they_change() -> None:
    before = PartitionRuns()
    records = nameless(before.commit([Segment(0, 0, 0, 100), Segment(100, 100, 110, 50)], 150, COPIED))
    runs = read_runs(records)[COPY]
    assert runs.runs == before.runs
    changes = runs.commit([], 170, COPIED)
    (last,) = (run for run in runs.runs if run.upstream_start == 100)
    assert changes == [(RunKey(PLACE, "", 100).encode(), None), (last.key(), last.value())]
    after = read_runs([*records, *(LogRecord(0, 0, *pair) for pair in changes)])[COPY]
    assert (after.position, after.runs) == (170, runs.runs)
    assert all(RunKey.decode(key).target_topic for key, _ in after.commit([], 180, COPIED))


def test_a_run_of_version_0_that_goes_is_dropped_under_its_own_key() -> None:
    records = nameless(PartitionRuns().commit([Segment(0, 0, 0, 100)], 100, COPIED))
    again = Copied(PLACE, "s", "A.orders", "made again")
    changes = read_runs(records)[COPY].commit([Segment(100, 100, 0, 5)], 105, again)
    assert (RunKey(PLACE, "", 0).encode(), None) in changes
    assert RunTable().apply(decode_change(*changes[0])) == set()


def test_a_key_of_version_0_that_tells_of_another_copy_takes_the_first_ones_run_away() -> None:
    """So it was on disk: the older record is gone with compaction, and must be gone before it too."""
    other = Copied(PLACE, "s", "orders", "u")
    records = [
        *nameless(PartitionRuns().commit([Segment(0, 0, 0, 100)], 100, COPIED)),
        *nameless(PartitionRuns().commit([Segment(0, 0, 0, 50)], 50, other)),
    ]
    assert read_runs(records).keys() == {other.id}
