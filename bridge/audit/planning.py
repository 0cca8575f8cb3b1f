"""Divides a partition and its copy into stretches to be compared: by offset runs where there are any; else at pairs of
offsets that are known to belong together, or, without such pairs, as one stretch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from bridge.audit.report import NotCompared
from bridge.audit.stretches import (
    COUNT,
    DOWNSTREAM,
    NO_SPANS,
    UPSTREAM,
    Free,
    LogPair,
    Numbers,
    Offsets,
    Stretch,
)
from bridge.model.state_records.fields import SchemaError
from bridge.model.values import Bounds
from bridge.translation.runs.holes import EVERYTHING, spans, whole
from bridge.translation.runs.runs import OffsetRun


@dataclass(frozen=True, slots=True)
class Logs:
    """What is known of a partition and its copy. `runs`: those that apply, in the order of both logs; none beside
    another mirror. `wanted`: offsets of the source that are to be compared; `wanted_target`: the offsets of the target
    that hold their copies, by time, where no run tells. `pairs`: offsets of both sides that are known to belong
    together, where no run tells."""

    sides: LogPair
    source: Bounds
    target: Bounds
    runs: Sequence[OffsetRun] = ()
    wanted: Offsets | None = None
    wanted_target: Offsets | None = None
    pairs: Sequence[tuple[int, int]] = ()


@dataclass(slots=True)
class AuditPlan:
    """What an audit compares of one partition. `not_compared`: offsets or records that it leaves
    out, by reason."""

    stretches: list[Stretch] = field(default_factory=list)
    not_compared: dict[str, int] = field(default_factory=dict)

    def leave(self, why: NotCompared, count: int) -> None:
        if count > 0:
            self.not_compared[why] = self.not_compared.get(why, 0) + count


def planned(logs: Logs, offsets_each: int, *, whole_partition: bool = False) -> AuditPlan:
    """Plans stretches of about `offsets_each` source offsets, or, with `whole_partition`, as few as gaps allow: where a
    topic is compacted, the newest record of a key may be anywhere."""
    plan = AuditPlan()
    parts = list(_by_runs(logs, plan) if logs.runs else _by_content(logs))
    groups: list[list[_Part]] = []
    held = 0
    for part in parts:
        size = max(part.source.size, part.target.size)
        fits = groups and (whole_partition or held + size <= offsets_each)
        # Parts that do not touch stay apart: what lies between them is not compared.
        if fits and (groups[-1][-1].source.end, groups[-1][-1].target.end) == (
            part.source.start,
            part.target.start,
        ):
            groups[-1].append(part)
            held += size
        else:
            groups.append([part])
            held = size
    plan.stretches = [_stretch(logs, number, group) for number, group in enumerate(groups)]
    return plan


@dataclass(frozen=True, slots=True)
class _Part:
    """The least that can be compared by itself."""

    source: Offsets
    target: Offsets
    spans: Numbers = field(default_factory=lambda: NO_SPANS)
    free: tuple[Free, ...] = ()


def _stretch(logs: Logs, number: int, parts: Sequence[_Part]) -> Stretch:
    first, last = parts[0], parts[-1]
    content = not logs.runs
    begins, ends = _wanted(logs)
    return Stretch(
        logs.sides,
        number,
        Offsets(first.source.start, last.source.end),
        Offsets(first.target.start, last.target.end),
        np.concatenate([part.spans for part in parts], axis=1),
        tuple(free for part in parts for free in part.free),
        source_cut=begins and first.source.start <= logs.source.start and logs.source.start > 0,
        target_cut=begins and first.target.start <= logs.target.start and logs.target.start > 0,
        ends=content and ends and last.source.end >= logs.source.end,
        behind=last.source.end < logs.source.end,
    )


def _wanted(logs: Logs) -> tuple[bool, bool]:
    """Whether the comparison begins where the source's log begins, and whether it ends where that ends."""
    wanted = logs.wanted
    return (
        wanted is None or wanted.start <= logs.source.start,
        wanted is None or wanted.end >= logs.source.end,
    )


def _by_content(logs: Logs) -> Iterator[_Part]:
    source = logs.wanted or Offsets(logs.source.start, logs.source.end)
    target = logs.wanted_target or Offsets(logs.target.start, logs.target.end)
    inside = [
        (here, there)
        for here, there in logs.pairs
        if source.start < here < source.end and target.start < there < target.end
    ]
    edges = [(source.start, target.start), *inside, (source.end, target.end)]
    for (here, there), (next_here, next_there) in pairwise(edges):
        part, other = Offsets(here, next_here), Offsets(there, next_there)
        yield _Part(part, other, free=(Free(part, other),))


def _by_runs(logs: Logs, plan: AuditPlan) -> Iterator[_Part]:
    """Parts that cover both logs without a gap: a run with what stands behind it on the target, and what lies between
    runs that do not continue each other."""
    runs = logs.runs
    last = runs[-1]
    wanted = logs.wanted or Offsets(logs.source.start, logs.source.end)
    if logs.wanted is None or logs.wanted.end >= logs.source.end:
        plan.leave(NotCompared.NOT_COPIED_YET, logs.source.end - max(last.position, logs.source.start))
    upstream, downstream = logs.source.start, logs.target.start
    for index, run in enumerate(runs):
        following = runs[index + 1] if index + 1 < len(runs) else None
        end = following.downstream_start if following and following.upstream_count else logs.target.end
        if not run.upstream_count:
            # A bare position: what precedes it on the target is another mirror's, or an older copy.
            if index == 0 and logs.target.start >= end:
                plan.leave(NotCompared.BEFORE_THE_COPY, run.covered_from - upstream)
            elif wanted.start < run.covered_from:
                yield from _uncovered(logs, plan, upstream, run.covered_from, downstream, end, index == 0)
            upstream, downstream = max(upstream, run.position), end
            continue
        if upstream < run.covered_from or downstream < run.downstream_start:
            yield from _uncovered(
                logs, plan, upstream, run.covered_from, downstream, run.downstream_start, index == 0
            )
        upstream, downstream = max(upstream, run.position), max(downstream, end)
        source, target = Offsets(run.covered_from, run.position), Offsets(run.downstream_start, end)
        yield from _run(logs, plan, run, source, target)


def _uncovered(
    logs: Logs, plan: AuditPlan, upstream: int, covered: int, downstream: int, start: int, is_first: bool
) -> Iterator[_Part]:
    """Plans what no run covers: copied by another mirror, lost, or never copied."""
    source = _clipped(logs, Offsets(upstream, max(upstream, covered)))
    target = Offsets(downstream, max(downstream, start))
    if is_first and not target.size:
        plan.leave(NotCompared.BEFORE_THE_COPY, source.size)
    elif source.size or (target.size and logs.wanted is None):
        yield _Part(source, target, free=(Free(source, target),))


def _run(logs: Logs, plan: AuditPlan, run: OffsetRun, source: Offsets, target: Offsets) -> Iterator[_Part]:
    copy_spans = _spans(run)
    kept_source = _clipped(logs, source)
    if run.transformed:
        plan.leave(NotCompared.TRANSFORMED, kept_source.size)
        return
    if copy_spans is None:
        # Only the ends are claimed. What is asked for is compared with the whole run around it.
        if not kept_source.size:
            plan.leave(NotCompared.BELOW_SOURCE_START, run.copies if source.end <= logs.source.start else 0)
            return
        if run.downstream_end <= logs.target.start:
            plan.leave(NotCompared.BELOW_TARGET_START, kept_source.size)
            return
        ends = np.array(
            [
                (run.upstream_start, run.downstream_start, 1, run.upstream_start),
                (run.upstream_end - 1, run.downstream_end - 1, 1, run.upstream_start),
            ],
            np.int64,
        ).T
        whole_source = Offsets(max(source.start, logs.source.start), source.end)
        whole_target = Offsets(max(target.start, logs.target.start), target.end)
        free = Free(whole_source, Offsets(whole_target.start, min(whole_target.end, run.downstream_end)))
        yield _Part(whole_source, whole_target, ends, (free,))
        return
    kept = _cut(copy_spans, kept_source.start, kept_source.end)
    there = _cut_target(kept, logs.target.start)
    plan.leave(NotCompared.BELOW_TARGET_START, int(kept[COUNT].sum() - there[COUNT].sum()))
    if kept_source.start > source.start:
        below = int(_cut(copy_spans, 0, min(kept_source.start, logs.source.start))[COUNT].sum())
        plan.leave(NotCompared.BELOW_SOURCE_START, below)
    if not kept_source.size:
        # Nothing of the run is compared; but what stands behind it on the target is, unless other offsets are wanted.
        if logs.wanted is None and run.downstream_end < target.end:
            behind = Offsets(max(run.downstream_end, logs.target.start), target.end)
            yield _Part(Offsets(source.end, source.end), behind)
        return
    begin = int(there[DOWNSTREAM, 0]) if there.shape[1] and kept_source.start > source.start else target.start
    if not there.shape[1] and kept_source.start > source.start:
        begin = target.end
    if there.shape[1] < kept.shape[1] or (kept.shape[1] and there[COUNT].sum() < kept[COUNT].sum()):
        # The target has deleted the first copies: their originals are outside, too.
        source_start = int(there[UPSTREAM, 0]) if there.shape[1] else kept_source.end
        kept_source = Offsets(source_start, kept_source.end)
    end = target.end
    if kept_source.end < source.end:
        spans_behind = _cut(copy_spans, kept_source.end, source.end)
        end = int(spans_behind[DOWNSTREAM, 0]) if spans_behind.shape[1] else target.end
    yield _Part(kept_source, Offsets(max(begin, logs.target.start), max(end, logs.target.start)), there)


def _clipped(logs: Logs, source: Offsets) -> Offsets:
    """Returns those of these source offsets that the log has and that are to be compared."""
    wanted = logs.wanted or Offsets(logs.source.start, logs.source.end)
    start = max(source.start, wanted.start, logs.source.start)
    return Offsets(start, max(start, min(source.end, wanted.end, logs.source.end)))


def _spans(run: OffsetRun) -> Numbers | None:
    """Every stretch of copies of a run; None where the run does not tell all of its holes."""
    holes = run.holes or (b"" if run.skipped or run.extra else whole(run.copies))
    if holes[:1] != EVERYTHING:
        return None
    rows: list[tuple[int, int, int, int]] = []
    upstream, downstream = run.upstream_start, run.downstream_start
    try:
        for span in spans(holes):
            rows.append((upstream, downstream, span.copies, run.upstream_start))
            upstream += span.copies + span.skipped
            downstream += span.copies + span.extra
    except SchemaError:
        return None
    return np.ascontiguousarray(np.array(rows, np.int64).T)


def _cut(copy_spans: Numbers, start: int, end: int) -> Numbers:
    """The part of spans with source offsets from `start` to before `end`."""
    first = np.maximum(copy_spans[UPSTREAM], start)
    count = np.minimum(copy_spans[UPSTREAM] + copy_spans[COUNT], end) - first
    cut = copy_spans.copy()
    cut[DOWNSTREAM] += first - copy_spans[UPSTREAM]
    cut[UPSTREAM], cut[COUNT] = first, count
    return cut[:, count > 0]


def _cut_target(copy_spans: Numbers, start: int) -> Numbers:
    """The part of spans with target offsets from `start` on."""
    skip = np.maximum(0, start - copy_spans[DOWNSTREAM])
    cut = copy_spans.copy()
    cut[UPSTREAM] += skip
    cut[DOWNSTREAM] += skip
    cut[COUNT] -= skip
    return cut[:, cut[COUNT] > 0]
