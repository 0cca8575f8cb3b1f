"""Partitions divided into stretches: by runs of all forms, with retention, lag, and offsets that are asked for."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.audit.comparison import compared
from bridge.audit.planning import AuditPlan, Logs, planned
from bridge.audit.report import AuditVerdict, DifferenceKind, NotCompared, PartitionResult, put_together
from bridge.audit.stretches import LogPair, Numbers, Offsets, Rules, between
from bridge.model.values import Bounds, TopicPartition
from bridge.translation.runs.holes import CopySpan, listed, whole
from bridge.translation.runs.runs import OffsetRun

SIDES = LogPair(TopicPartition("orders", 0), "a", TopicPartition("A.orders", 0), "b")
RULES = Rules(3_600_000)
Row = tuple[int, int, int, int, int]


@dataclass
class World:
    """A partition that is copied in order: each record's offsets on both sides, and the runs that say so."""

    pairs: list[tuple[int, int]] = field(default_factory=list)
    runs: list[OffsetRun] = field(default_factory=list)
    source: Bounds = field(default_factory=lambda: Bounds(0, 0))
    target: Bounds = field(default_factory=lambda: Bounds(0, 0))

    def logs(self, wanted: Offsets | None = None) -> Logs:
        return Logs(SIDES, self.source, self.target, self.runs, wanted)

    def here(self) -> Numbers:
        return rows([(up, up) for up, _ in self.pairs if self.source.start <= up < self.source.end])

    def there(self) -> Numbers:
        return rows([(down, up) for up, down in self.pairs if self.target.start <= down < self.target.end])


def rows(offsets: list[tuple[int, int]]) -> Numbers:
    """Records at these offsets, whose content says which they are."""
    made: list[Row] = [(offset, 0, 1000 + number, 1 + number, 0) for offset, number in offsets]
    return np.ascontiguousarray(np.array(made, np.int64).reshape(-1, 5).T)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """`forms`: runs list all of their holes, none of them, or only what was skipped."""
    world = World()
    first, downstream = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    upstream = first
    for _ in range(draw(st.integers(1, 5))):
        spans = draw(
            st.lists(
                st.builds(CopySpan, st.integers(1, 6), st.integers(0, 2), st.integers(0, 2)),
                min_size=1,
                max_size=3,
            )
        )
        spans[-1] = CopySpan(spans[-1].copies)
        covered, start, there = upstream, upstream + draw(st.integers(0, 2)), downstream
        upstream = start
        for span in spans:
            world.pairs += [(upstream + step, downstream + step) for step in range(span.copies)]
            upstream += span.copies + span.skipped
            downstream += span.copies + span.extra
        skipped, extra = (sum(getattr(each, name) for each in spans) for name in ("skipped", "extra"))
        run = OffsetRun(
            SIDES.source, "a", SIDES.target.topic, "b", covered, start, there, upstream - start, skipped, extra,
            -1, upstream, -1, 100,
        )  # fmt: skip
        if draw(st.booleans()) and (skipped or extra):
            run = run._replace(holes=listed(spans) if len(spans) > 1 else whole(spans[0].copies))
        world.runs.append(run)
        upstream += draw(st.integers(0, 1))
        world.runs[-1] = world.runs[-1]._replace(position=upstream)
        downstream += draw(st.integers(1, 2))
    world.source, world.target = Bounds(first, upstream), Bounds(0, downstream)
    return world


def outcome(world: World, logs: Logs, each: int) -> tuple[PartitionResult, AuditPlan]:
    plan = planned(logs, each)
    report = PartitionResult(SIDES.source, SIDES.target, True)
    report.findings.not_compared = dict(plan.not_compared)
    here, there = world.here(), world.there()
    found = [
        (
            SIDES,
            compared(
                part, here[:, between(here, *part.source)], there[:, between(there, *part.target)], RULES
            ),
        )
        for part in plan.stretches
    ]
    (result,) = put_together([report], found, RULES.window_ms)
    return result, plan


def same(report: PartitionResult) -> int:
    return sum(each.same for each in report.findings.windows.values())


@settings(max_examples=50)
@given(worlds(), st.integers(1, 40))
def test_a_true_copy_is_equal_however_it_is_divided(world: World, each: int) -> None:
    report, plan = outcome(world, world.logs(), each)
    assert report.findings.differences == []
    assert same(report) == len(world.pairs)
    assert report.findings.not_compared == {}
    edges = [(part.source, part.target) for part in plan.stretches]
    for (one, other), (after, behind) in itertools.pairwise(edges):
        assert one.end <= after.start
        assert other.end <= behind.start


@settings(max_examples=50)
@given(worlds(), st.integers(1, 40), st.data())
def test_retention_on_both_sides_is_no_difference(world: World, each: int, data: st.DataObject) -> None:
    start, there = (
        data.draw(st.integers(world.source.start, world.source.end)),
        data.draw(st.integers(0, world.target.end)),
    )
    world.source, world.target = replace(world.source, start=start), replace(world.target, start=there)
    report, _ = outcome(world, world.logs(), each)
    assert report.findings.differences == []
    both = [pair for pair in world.pairs if pair[0] >= start and pair[1] >= there]
    assert same(report) == len(both)


@settings(max_examples=50)
@given(worlds(), st.integers(1, 40), st.integers(1, 9))
def test_what_is_not_copied_yet_is_counted(world: World, each: int, lag: int) -> None:
    end = world.source.end
    world.source = replace(world.source, end=end + lag)
    report, _ = outcome(world, world.logs(), each)
    assert report.findings.differences == []
    assert report.findings.not_compared == {NotCompared.NOT_COPIED_YET: lag}


@settings(max_examples=50)
@given(worlds(), st.integers(1, 40), st.data())
def test_only_what_is_wanted_is_compared(world: World, each: int, data: st.DataObject) -> None:
    for number, run in enumerate(world.runs):
        if not run.holes and (run.skipped or run.extra):
            # Runs that do not list their holes are compared as a whole.
            world.runs[number] = run._replace(holes=holes_of(world, run))
    start = data.draw(st.integers(0, world.source.end))
    end = data.draw(st.integers(start, world.source.end))
    report, _ = outcome(world, world.logs(Offsets(start, end)), each)
    assert report.findings.differences == []
    assert same(report) == sum(start <= up < end for up, _ in world.pairs)


def holes_of(world: World, run: OffsetRun) -> bytes:
    mine = [pair for pair in world.pairs if run.upstream_start <= pair[0] < run.upstream_end]
    spans = list[CopySpan]()
    count = 1
    for (up, down), (next_up, next_down) in itertools.pairwise(mine):
        if (next_up, next_down) == (up + 1, down + 1):
            count += 1
        else:
            spans.append(CopySpan(count, next_up - up - 1, next_down - down - 1))
            count = 1
    return listed([*spans, CopySpan(count)])


@settings(max_examples=50)
@given(worlds(), st.integers(1, 40), st.data())
def test_a_lost_copy_and_one_of_others_are_found(world: World, each: int, data: st.DataObject) -> None:
    lost = data.draw(st.sampled_from(world.pairs))
    world.pairs.remove(lost)
    here = (lost[0], -1)
    world.pairs.append(here)
    world.pairs.append((world.source.end + 5, world.target.end - 1))
    world.pairs.sort(key=lambda pair: pair[0])
    report, _ = outcome(world, world.logs(), each)
    kinds = [(found.kind, found.source_offset, found.target_offset) for found in report.findings.differences]
    assert kinds == [
        (DifferenceKind.MISSING, lost[0], None),
        (DifferenceKind.EXTRA, None, world.target.end - 1),
    ]


def test_what_was_there_before_copying_began_is_not_compared() -> None:
    run = OffsetRun(SIDES.source, "a", "A.orders", "b", 10, 10, 0, 5, 0, 0, -1, 15, -1, 1)
    world = World([(up, -1) for up in range(10)] + [(up, up - 10) for up in range(10, 15)], [run])
    world.source, world.target = Bounds(0, 15), Bounds(0, 6)
    report, _ = outcome(world, world.logs(), 100)
    assert report.findings.differences == []
    assert report.findings.not_compared == {NotCompared.BEFORE_THE_COPY: 10}


def test_what_went_through_transforms_is_not_compared() -> None:
    run = OffsetRun(SIDES.source, "a", "A.orders", "b", 0, 0, 0, 5, 0, 0, -1, 5, -1, 1, transformed=True)
    world = World([(up, up) for up in range(5)], [run], Bounds(0, 5), Bounds(0, 6))
    report, plan = outcome(world, world.logs(), 100)
    assert (plan.stretches, report.findings.not_compared) == ([], {NotCompared.TRANSFORMED: 5})
    assert report.verdict is AuditVerdict.NOT_KNOWN


def test_copies_before_our_first_run_are_compared_by_content() -> None:
    run = OffsetRun(SIDES.source, "a", "A.orders", "b", 5, 5, 7, 5, 0, 0, -1, 10, -1, 1)
    world = World([(up, up + 1) for up in range(5)] + [(up, up + 2) for up in range(5, 10)], [run])
    world.source, world.target = Bounds(0, 10), Bounds(0, 13)
    report, _ = outcome(world, world.logs(), 100)
    assert (report.findings.differences, same(report)) == ([], 10)
