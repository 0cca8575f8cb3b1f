"""Translates all offsets of a partition by its runs, as `ConsistentRuns.translate` does one offset.

Both give the same answers: tests/unit/translation/bulk holds one against the other. This one does not scan headers:
what a run leaves bounded stays so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from bridge.translation.records.log_window import LogBounds
from bridge.translation.runs.holes import Holes
from bridge.translation.runs.markers import holes_of
from bridge.translation.runs.run_evidence import ConsistentRuns
from bridge.translation.runs.runs import OffsetRun

Numbers: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]


class PartitionLogs(NamedTuple):
    """Both logs of a copy, as the clusters describe them: topic ids and bounds. `source_topic_id` and `source`: None
    while the source does not answer. Ends are those of what may be read or copied."""

    target_topic_id: str
    target: LogBounds
    source_topic_id: str | None = None
    source: LogBounds | None = None


class RunAnswers(NamedTuple):
    """Answers for the offsets that were asked for, in their order. Where not `known`, runs say nothing."""

    known: Mask
    offset: Numbers
    """Where to resume on the target."""
    bound: Numbers
    """Records that are read twice at most; 0 is exact."""
    ahead: Mask
    """The offset lies behind what is copied."""
    truncated: Mask
    """The offset lies below the start of the source's log."""


class RunColumns:
    """The runs of one copy as arrays."""

    def __init__(self, runs: ConsistentRuns) -> None:
        self._runs = runs.runs
        self._last = runs.last
        self._start, self._end, self._covered, self._position = (
            _numbers(getattr(run, name) for run in self._runs)
            for name in ("upstream_start", "upstream_end", "covered_from", "position")
        )
        self._low, self._high = (
            _numbers(getattr(run, name) for run in self._runs)
            for name in ("downstream_start", "downstream_end")
        )
        self._skipped, self._extra, self._copies = (
            _numbers(getattr(run, name) for run in self._runs) for name in ("skipped", "extra", "copies")
        )
        self._listed = np.fromiter((bool(run.holes) for run in self._runs), np.bool_, len(self._runs))
        self._again_from = _numbers(start for start, _ in runs.again)
        # By the start of a reset, the highest place where one up to it began.
        self._again_places = np.maximum.accumulate(_numbers([0, *(there for _, there in runs.again)]))

    def translate(self, offsets: Numbers, logs: PartitionLogs) -> RunAnswers:
        """Answers for offsets, which are in ascending order."""
        last = self._last
        if (
            last is None
            or logs.target_topic_id != last.target_topic_id
            or logs.source_topic_id not in (None, last.source_topic_id)
        ):
            return _nothing(len(offsets))
        known = np.ones(len(offsets), np.bool_)
        truncated = np.zeros(len(offsets), np.bool_)
        if logs.source is not None:
            known = np.maximum(offsets, last.position) <= logs.source.end
            truncated = offsets < logs.source.start
        low, high, to_come, applies = self._ranges(offsets, logs.target.end)
        start = self._target_start(offsets, logs.target)
        known &= applies & (low <= logs.target.end)
        answer = np.maximum(low, start)
        bound = np.maximum(high, start) - answer + to_come
        return RunAnswers(known, answer, bound, to_come > 0, truncated)

    def _target_start(self, offsets: Numbers, target: LogBounds) -> Numbers:
        """Returns where the copies begin that count for each offset: below stands what an operator had copied again."""
        again = self._again_places[np.searchsorted(self._again_from, offsets, "right")]
        return np.where(again <= target.start, target.start, np.minimum(again, target.end))

    def _ranges(self, offsets: Numbers, target_end: int) -> tuple[Numbers, Numbers, Numbers, Mask]:
        """The range of the target in which the copy of each offset stands, how many records may be copied there before
        it, and whether any run says so."""
        after = np.searchsorted(self._start, offsets, "right")
        at = np.maximum(after - 1, 0)
        has, follows = after > 0, after < len(self._runs)
        next_ = np.minimum(after, len(self._runs) - 1)
        reached = np.where(has, np.maximum(offsets, self._position[at]), offsets)
        covered = follows & (self._covered[next_] <= reached)
        low = np.where(covered, self._low[next_], self._high[at])
        last = self._last
        behind = max(int(self._high[-1]), target_end if last is not None and last.handed_back else 0)
        high = np.where(follows, self._low[next_], behind)
        to_come = np.where(follows, 0, np.maximum(0, offsets - self._position[at]))
        applies = has | covered
        held = has & (offsets < self._end[at])
        to_come[held] = 0
        applies[held] = True
        self._inside(offsets, at, held, low, high, applies)
        return low, high, to_come, applies

    def _inside(
        self,
        offsets: Numbers,
        at: npt.NDArray[np.intp],
        held: Mask,
        low: Numbers,
        high: Numbers,
        applies: Mask,
    ) -> None:
        """Fills in the ranges of offsets that lie inside runs."""
        plain = np.flatnonzero(held & ~self._listed[at])
        run = at[plain]
        passed = offsets[plain] - self._start[run]
        fewest = np.maximum(0, passed - self._skipped[run])
        most = np.minimum(passed, self._copies[run] - 1)
        low[plain] = self._low[run] + fewest
        high[plain] = self._low[run] + np.where(most > 0, most + self._extra[run], 0)
        inside = np.flatnonzero(held & self._listed[at])
        numbers, begins = np.unique(at[inside], return_index=True)
        for number, some in zip(numbers, np.split(inside, begins[1:]), strict=len(numbers) > 0):
            each = self._runs[number]
            holes, sound = holes_of(each)
            applies[some] = sound
            if sound and holes is not None:
                low[some], high[some] = _by_list(each, holes, offsets[some] - each.upstream_start)


def _by_list(run: OffsetRun, holes: Holes, passed: Numbers) -> tuple[Numbers, Numbers]:
    """The range for offsets so far behind the run's start, by its list of holes."""
    upstream, downstream, copies = (np.frombuffer(span, np.int64) for span in holes.spans)
    at = np.searchsorted(upstream, passed, "right") - 1
    before = np.minimum(copies[at] + passed - upstream[at], np.append(copies[1:], holes.copies)[at])
    if not holes.tells_extra:
        first = np.full(len(passed), run.downstream_start, np.int64)
        return first + before, first + np.where(before > 0, before + run.extra, 0)
    span = np.searchsorted(copies, before, "right") - 1
    place = run.downstream_start + downstream[span] + before - copies[span]
    return place, place


def _nothing(count: int) -> RunAnswers:
    none = np.zeros(count, np.bool_)
    zero = np.zeros(count, np.int64)
    return RunAnswers(none, zero, zero, none, none)


def _numbers(values: Iterable[int]) -> Numbers:
    return np.array(list(values), np.int64)
