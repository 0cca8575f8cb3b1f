"""What a slot writes of its runs at a commit, and how little of it stays."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from bridge.model.copying import Copied
from bridge.model.values import Judgement, LogRecord
from bridge.translation.records.log_window import LogBounds
from bridge.translation.runs import holes, markers, partition_runs
from bridge.translation.runs.holes import MOST_BYTES, CopySpan, spans
from bridge.translation.runs.markers import ANCHOR_BYTES, MARKER_BYTES, RATIO, joined, looseness
from bridge.translation.runs.partition_runs import KEPT, Change, PartitionRuns, consistent
from bridge.translation.runs.run_evidence import ConsistentRuns, RunTable, read_runs
from bridge.translation.runs.runs import OffsetRun, RunKey, Segment, decode_change
from tests.unit.translation.runs.runs_topic import COPIED, COPY, PLACE, Short, Topic


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


def test_a_hole_is_listed_and_the_position_may_lie_behind_the_last_record() -> None:
    topic = Topic()
    topic.commit([Segment(0, 2, 100, 3), Segment(5, 8, 103, 2), Segment(10, 10, 107, 4)], 14)
    assert topic.short == [(0, 2, 100, 14)]
    (run,) = topic.read()
    assert (run.upstream_end, run.downstream_end, run.skipped, run.extra) == (14, 111, 3, 2)
    assert spans(run.holes) == [CopySpan(3, 3, 0), CopySpan(2, 0, 2), CopySpan(4)]
    topic.commit([], 20)
    assert topic.short == [(0, 2, 100, 20)]
    assert topic.commit([], 20) == []


def test_a_bare_position_gives_way_to_the_first_run() -> None:
    topic = Topic()
    topic.commit([], 50)
    assert topic.short == [(50, 50, 0, 50)]
    topic.commit([], 60)
    assert topic.short == [(50, 50, 0, 60)]
    topic.commit([Segment(60, 63, 100, 2)], 65)
    assert topic.short == [(50, 63, 100, 65)]


@pytest.mark.parametrize(
    ("lost_from", "ends"),
    [(130, [100, 121]), (121, [100, 121]), (110, [100, 110]), (101, [100]), (40, [40]), (0, [])],
)
def test_copies_behind_the_end_of_the_targets_log_are_no_more(lost_from: int, ends: list[int]) -> None:
    """What stands there by now may be what an aborted transaction has left."""
    topic = Topic()
    topic.commit([Segment(0, 0, 0, 100)], 100)
    topic.commit([Segment(100, 100, 101, 20)], 120)
    topic.commit([], 150, lost_from=lost_from)
    assert [run.downstream_end for run in topic.read() if run.upstream_count] == ends
    assert topic.owner.position == 150
    topic.commit([Segment(150, 150, 500, 5)], 155)
    last = topic.owner.last
    assert last is not None
    assert last.upstream_start == 150
    if lost_from < 121:
        assert last.covered_from == 150, "nobody has copied what lies between"


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


def merged(*, listed: bool = True) -> Topic:
    """Records 10 to 29 in one run, with a marker between."""
    topic = three()
    first, second, third = topic.read()
    last = joined(second, third)
    last = last if listed else last._replace(holes=b"")
    topic.live = {each.key(): each.value() for each in (first, last)}
    topic.owner = PartitionRuns([first, last])
    return topic


def test_a_merged_run_that_does_not_list_its_holes_is_cut_as_a_whole() -> None:
    topic = merged(listed=False)
    topic.commit([], 25)
    assert topic.short == [(0, 0, 100, 10), (25, 25, 0, 25)]
    topic.commit([Segment(25, 25, 133, 5)], 30)
    assert topic.short == [(0, 0, 100, 10), (25, 25, 133, 30)]


@pytest.mark.parametrize(
    ("segment", "expected"),
    [
        pytest.param(Segment(25, 25, 140, 5), (25, 127, [(10, 0, 1), (5, 0, 0)]), id="the source's log"),
        pytest.param(Segment(20, 20, 140, 5), (20, 121, []), id="the source's log, to a hole"),
        pytest.param(Segment(30, 30, 124, 5), (22, 124, [(10, 0, 1), (2, 0, 0)]), id="the target's log"),
        pytest.param(Segment(30, 30, 121, 5), (20, 121, []), id="the target's log, to a hole"),
        pytest.param(Segment(24, 24, 123, 5), (21, 123, [(10, 0, 1), (1, 0, 0)]), id="both"),
    ],
)
def test_a_run_that_lists_its_holes_is_cut_where_the_log_was(
    segment: Segment, expected: tuple[int, int, list[CopySpan]]
) -> None:
    topic = merged()
    topic.commit([segment], segment.upstream_end)
    cut, new = topic.read()[1:]
    assert (cut.upstream_end, cut.downstream_end) == expected[:2]
    assert (spans(cut.holes) if cut.holes else []) == expected[2]
    assert (new.upstream_start, new.downstream_start) == (segment.upstream_start, segment.downstream_start)
    assert topic.owner.runs == topic.read()


def test_damaged_holes_cost_themselves_only() -> None:
    topic = merged()
    first, last = topic.read()
    topic.owner = PartitionRuns([first, last._replace(holes=holes.EVERYTHING + b"\x81")])
    topic.commit([], 25)
    assert topic.owner.runs[0] == first
    assert topic.owner.position == 25


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


def test_the_newest_run_says_up_to_where_was_copied_before_until_all_is_copied_again() -> None:
    topic, made_again = Topic(), replace(COPIED, target_topic_id="t2")

    def recopy_end() -> int:
        return topic.read()[-1].recopy_end

    topic.commit([Segment(10, 10, 0, 90)], 100)
    assert recopy_end() == 0
    topic.commit([], 0, made_again)
    assert (topic.short, recopy_end()) == ([(0, 0, 0, 0)], 100)
    topic.commit([Segment(0, 0, 0, 50)], 50, made_again)
    assert recopy_end() == 100
    topic.owner = PartitionRuns(topic.read())  # another slot goes on
    topic.commit([], 60, made_again)
    assert recopy_end() == 100
    topic.commit([], 20, replace(COPIED, target_topic_id="t3"))
    assert recopy_end() == 100, "the second one had come less far"
    topic.commit([Segment(20, 20, 0, 80)], 100, replace(COPIED, target_topic_id="t3"))
    assert recopy_end() == 0


def test_an_operators_reset_says_up_to_where_was_copied_before() -> None:
    topic = Topic()
    topic.commit([Segment(0, 0, 0, 100)], 100)
    owner = topic.owner
    owner.reset(30, 101)
    assert owner.last is not None
    assert owner.last.recopy_end == 100
    owner.reset(60, 101)
    assert owner.last.recopy_end == 100
    owner.commit([Segment(60, 60, 101, 40)], 100, COPIED)
    assert owner.last.recopy_end == 0
    owner.reset(130, 142)
    assert owner.last.recopy_end == 0


def test_of_another_source_topic_nothing_was_copied_before() -> None:
    topic = Topic()
    topic.commit([Segment(0, 0, 0, 100)], 100)
    topic.commit([], 0, replace(COPIED, source_topic_id="s2", target_topic_id="t2"))
    assert topic.read()[-1].recopy_end == 0


def test_what_contradicts_the_last_run_is_dropped_with_the_next_commit() -> None:
    topic = three()
    late = topic.read()[0]._replace(upstream_start=5, covered_from=5, position=15)
    topic.live[late.key()] = late.value()
    topic.owner = PartitionRuns([late, *topic.read()])
    assert (late.key(), None) in topic.commit([], 31)
    assert late.key() not in topic.live


def many(count: int) -> list[Segment]:
    """As of a source whose transactions have one record each; of one hole nobody knows what it was."""
    segments, covered = [], 0
    for number in range(count):
        start = covered + 1
        segments.append(Segment(start if number == 7 else covered, start, 100 + number, 1))
        covered = start + 1
    return segments


def test_many_small_holes_in_one_commit_are_listed() -> None:
    topic, segments = Topic(), many(2000)
    topic.commit(segments, segments[-1].upstream_end)
    runs = topic.read()
    assert [run.upstream_start for run in runs][:2] == [1, segments[7].upstream_start]
    assert len(runs) == 4  # 3 bytes for each hole
    assert not any(map(looseness, runs))
    assert sum(run.copies for run in runs) == 2000


def test_more_holes_than_lists_have_room_for() -> None:
    topic, segments = Topic(), many(40_000)
    topic.commit(segments, segments[-1].upstream_end)
    runs = topic.read()
    assert len(runs) < 100
    assert not any(map(looseness, runs))
    assert sum(run.copies for run in runs) == 40_000


# -- merging ---------------------------------------------------------------------------------------------------------


def grow(
    topic: Topic, commits: int, shape: str, chance: random.Random, size: int = 0, log_start: int = 0
) -> None:
    """`size`: bytes of a record."""
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
        segment = Segment(upstream, upstream + hole, downstream, count, 0, 0, count * size)
        topic.commit([segment], upstream + hole + count, target_start=log_start)
        upstream, downstream = upstream + hole + count, downstream + count + 1


SHAPES = [
    "one record a commit",
    "a thousand records a commit",
    "transactions of one record",
    "nearly all compacted away",
    "bursts",
]
SOME_SHAPES = [
    shape
    if shape in ("transactions of one record", "bursts")
    else pytest.param(shape, marks=pytest.mark.long)
    for shape in SHAPES
]
YEAR = 365 * 24 * 3600 * 10
"""Commits, one every 100 ms."""


def most(doublings: float, length: int, ratio: int = RATIO) -> float:
    """Bytes of a partition whose runs are small: those that list their holes, the newest, and for each doubling of what
    was copied as many as RATIO of those that don't. `length`: of a list."""
    each = 150
    return 2 * ratio * (each + length) + (KEPT + 16 + doublings * ratio) * each


@pytest.mark.parametrize("shape", SOME_SHAPES)
def test_what_stays_of_small_commits(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists are short here, so that fewer commits come to the end of them: from there on each doubling of the commits
    brings as many runs as the one before."""
    length, ratio = 128, 64
    monkeypatch.setattr(holes, "MOST_BYTES", length)
    monkeypatch.setattr(markers, "RATIO", ratio)
    topic, chance = Topic(), random.Random(shape)
    sizes, commits = [0], 1
    while commits < 2**15:
        grow(topic, commits, shape, chance)
        commits *= 2
        sizes.append(topic.size)
    assert sizes[-1] < most(15, length, ratio)
    steps = [later - earlier for earlier, later in pairwise(sizes)]
    assert steps[-1] < 150 * ratio, steps
    assert topic.written / commits < 4 * 120
    assert most(math.log2(YEAR), MOST_BYTES) < 2_500_000


@pytest.mark.parametrize("shape", SOME_SHAPES)
def test_what_is_merged_is_little_beside_its_distance_from_the_end(
    shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holes, "MOST_BYTES", 64)
    topic, chance = Topic(), random.Random(shape)
    grow(topic, 20_000, shape, chance)
    runs = topic.read()
    assert all(looseness(run) == 0 for run in runs[-KEPT:])
    assert any(looseness(run) for run in runs)
    for run in runs:
        assert looseness(run) * RATIO <= runs[-1].downstream_end - run.downstream_end
    for older, newer in pairwise(runs):
        assert newer.covered_from <= older.position  # nothing has become unknown
    again = PartitionRuns(runs)
    assert again.runs == topic.owner.runs


@pytest.mark.parametrize("shape", SHAPES)
def test_runs_that_list_their_holes_are_merged_at_once(shape: str) -> None:
    topic, chance = Topic(), random.Random(shape)
    grow(topic, 1000, shape, chance, size=1000)
    runs = topic.read()
    assert len(runs) < KEPT + 16 + 8 + 1.1 * sum(run.size for run in runs) / ANCHOR_BYTES
    assert not any(map(looseness, runs))


def test_no_run_takes_up_more_than_64_mib() -> None:
    topic, chance = Topic(), random.Random(1)
    grow(topic, 6000, "a thousand records a commit", chance, size=1000)
    runs = topic.read()
    assert max(run.size for run in runs) <= ANCHOR_BYTES
    assert len(runs) < KEPT + 16 + 1.1 * 6e9 / ANCHOR_BYTES
    assert topic.size / 6 < 10_000  # a GB
    # Markers count: of what has one record a commit they take up nearly as much as the records.
    small = Topic()
    grow(small, 3000, "one record a commit", chance, size=100_000)
    assert all(run.size + MARKER_BYTES * run.extra <= ANCHOR_BYTES for run in small.read())
    assert any(run.size > 0.8 * ANCHOR_BYTES for run in small.read())


def test_a_commit_of_more_than_64_mib_is_parted_at_its_holes() -> None:
    topic = Topic()
    segments = [Segment(max(0, 5 * at - 1), 5 * at, 4 * at, 4, 0, 0, ANCHOR_BYTES // 3) for at in range(12)]
    topic.commit(segments, 60)
    assert [run.copies for run in topic.read()] == [12, 12, 12, 12]


def test_far_back_runs_may_take_up_a_part_of_their_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a compacted topic, whose log goes on beginning at 0."""
    monkeypatch.setattr(markers, "ANCHORS", 64)
    topic, chance = Topic(), random.Random(1)
    counts = []
    for commits in (4000, 4000, 8000, 16_000):
        grow(topic, commits, "one record a commit", chance, size=ANCHOR_BYTES // 4)
        counts.append(len(topic.read()))
    more = [later - earlier for earlier, later in pairwise(counts)]
    assert max(more) < 2 * 64, counts
    runs = topic.read()
    total = sum(run.size for run in runs)
    copied = 0
    for run in runs:
        copied += run.size
        assert run.size <= max(ANCHOR_BYTES, (total - copied) // 64)
    assert not any(map(looseness, runs))


def test_what_the_target_holds_no_more_is_one_run() -> None:
    topic, chance = Topic(), random.Random(1)
    grow(topic, 2000, "a thousand records a commit", chance, size=1000)
    before = topic.read()
    log_start = before[len(before) // 2].downstream_start + 5
    grow(topic, 200, "a thousand records a commit", chance, size=1000, log_start=log_start)
    runs = topic.read()
    assert runs[0].downstream_end <= log_start < runs[1].downstream_end
    assert runs[0].upstream_count > 5 * ANCHOR_BYTES // 1000
    assert not any(map(looseness, runs[1:]))
    known = ConsistentRuns(runs)
    bounds = LogBounds(log_start, runs[-1].downstream_end)
    for offset in range(0, runs[0].upstream_end, 999):
        verdict = known.translate(offset, "t", bounds)
        assert verdict is not None
        assert (verdict.judgement, verdict.offset) == (Judgement.EXACT, log_start)


def test_what_was_copied_of_two_leader_epochs_stays_apart() -> None:
    """Where the source's log takes another way, runs say up to where it is what was copied (gaps.agreement)."""
    topic = Topic()
    for number in range(1000):
        topic.commit([Segment(number, number, 2 * number, 1, number // 500)], number + 1)
    ends = {run.leader_epoch: run.upstream_end for run in topic.read()}
    assert ends == {0: 500, 1: 1000}


def test_what_a_commit_costs_does_not_depend_on_how_many_runs_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = 0
    real = markers.one_of

    def counted(*given: object) -> OffsetRun | None:
        nonlocal looks
        looks += 1
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(partition_runs, "one_of", counted)
    for count in (500, 50_000):
        runs = [
            OffsetRun(PLACE, "s", "A.orders", "t", at, at, at, 1, 0, 0, 0, at + 1, -1, ANCHOR_BYTES)
            for at in range(count)
        ]
        topic = Topic()
        topic.owner = PartitionRuns(runs)
        looks = changes = 0
        for number in range(64):
            at = count + number
            changes += len(topic.commit([Segment(at, at, at + 1 + number, 1)], at + 1))
        assert looks <= 64 * 4
        assert changes < 64 * 4
        assert len(topic.owner.runs) < count + 64 + 1


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
    copied_runs = read_runs([LogRecord(0, 0, *pair) for pair in changes])
    assert {copy.target_topic: runs.position for copy, runs in copied_runs.items()} == {
        "A.orders": 200,
        "orders": 50,
    }


def nameless(changes: Sequence[Change]) -> list[LogRecord]:
    """As version 0 has written them."""
    collected = []
    for key, value in changes:
        named = RunKey.decode(key)
        collected.append(LogRecord(0, 0, RunKey(named.source, "", named.upstream_start).encode(), value))
    return collected


def test_runs_of_version_0_are_read_on_and_written_anew_when_they_change() -> None:
    before = PartitionRuns()
    changes = before.commit([Segment(0, 0, 0, 100)], 100, COPIED)
    records = nameless([*changes, *before.commit([Segment(100, 100, 110, 50)], 150, COPIED)])
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


def test_a_run_says_that_its_records_went_through_transforms_and_so_does_what_it_is_merged_into() -> None:
    topic, through = Topic(), replace(COPIED, transforms=(0,))
    topic.commit([Segment(0, 0, 0, 10)], 10)
    topic.commit([Segment(10, 10, 11, 10)], 20, through)
    topic.commit([Segment(20, 20, 22, 10)], 30)
    assert [run.transformed for run in topic.read()] == [False, True, False]
    assert [ConsistentRuns(topic.read()[:count]).transformed for count in (1, 2, 3)] == [False, True, True]
    first, second, third = topic.read()
    assert joined(first, second).transformed
    assert joined(second, third).transformed
    assert not joined(first, third._replace(covered_from=10)).transformed


def test_a_run_that_is_passed_over_hides_no_other_one() -> None:
    """Held against it alone the true ones were of other topics, or stood too high."""
    true = PartitionRuns()
    for at in range(3):
        true.commit([Segment(at * 10, at * 10, at * 11, 10)], at * 10 + 10, COPIED)
    wrong = true.runs[-1]._replace(
        upstream_start=2**60, covered_from=2**60, position=2**60 + 10, source_topic_id="another"
    )
    runs = PartitionRuns([*true.runs, wrong])
    assert list(runs.runs) == [wrong]
    assert list(runs.others) == list(true.runs)[::-1]
    runs.pass_over()
    assert list(runs.runs) == list(true.runs)
    changes = dict(runs.commit([Segment(30, 30, 33, 10)], 40, COPIED))
    assert changes[wrong.key()] is None
    assert [key for key, value in changes.items() if value is None] == [wrong.key()]
    assert runs.position == 40
