"""Translates a committed offset by offset runs (docs/offset-runs.md), without reading any record.

    source   ....[  run  )---- hole ----[  run  )........)???[ run )  position
    target       [  run  )  markers     [  run  )            [ run )  end

Inside a run the answer is computed from its holes. In a gap that a run covers, so that nothing in it was copied, it is
the start of the next run. Where no run covers the offset (copied by a stock mirror before us, or lost) it is the end of
the run before, which is safe: a mirror copies in order. The answer may be lower than the first copy at or
after the offset, never higher.

Holds the runs of a runs topic, by copy.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple

from bridge.model.state_records.fields import SchemaError
from bridge.model.values import CopyId, Evidence, Flag, Judgement, LogRecord, Reason, Verdict
from bridge.translation.records.log_window import LogBounds
from bridge.translation.runs.markers import RunScan
from bridge.translation.runs.partition_runs import PartitionRuns, consistent
from bridge.translation.runs.runs import OffsetRun, RunKey, decode_change

_start = attrgetter("upstream_start")
_NO_END = (1 << 63) - 1
_NO_SCANS: Mapping[OffsetRun, RunScan] = MappingProxyType({})


class Stretch(NamedTuple):
    """Source offsets [begin, end) that no run covers, and where on the target their copies stand, if another mirror has
    made some: nowhere but in [downstream_begin, downstream_end)."""

    begin: int
    end: int
    downstream_begin: int
    downstream_end: int


class _CopyRange(NamedTuple):
    """The range [low, high] in which the first copy at or after the offset stands, or will stand; `to_come` records
    that the group has processed may be copied there first."""

    low: int
    high: int
    to_come: int
    run: OffsetRun


class ConsistentRuns:
    """The runs of one partition that don't contradict each other, for look-ups."""

    def __init__(self, runs: Iterable[OffsetRun]) -> None:
        kept, _ = consistent(runs)
        self._again = [(run.upstream_start, run.downstream_start) for run in kept if run.again]
        self.position = kept[-1].position if kept else None
        """Where copying goes on; None without a run."""
        self.newest = kept[-1] if kept else None
        """The last one, which may be a bare position."""
        self._recopy_end = kept[-1].recopy_end if kept else 0
        self.stretches = _stretches(kept)
        # A bare position has no known offset on the target.
        self._runs = [run for run in kept if run.upstream_count]
        self.transformed = any(run.transformed for run in self._runs)
        """Whether copies may differ from their records, so that they can't be recognised by them."""

    def target_from(self, offset: int) -> int:
        """Returns where on the target the copies begin that count for an offset: below stands an older copy."""
        return max((end for start, end in self._again if start <= offset), default=0)

    @property
    def runs(self) -> Sequence[OffsetRun]:
        """Those with copies, in the order of both logs."""
        return self._runs

    @property
    def again(self) -> Sequence[tuple[int, int]]:
        """From which source offset on an operator had copying begin again, and where its copies begin."""
        return self._again

    @property
    def last(self) -> OffsetRun | None:
        return self._runs[-1] if self._runs else None

    @cached_property
    def others(self) -> Sequence[LogBounds]:
        """Where between runs more than our own marker stands that is no copy of ours, the newest first."""
        neighbours = zip(self._runs, self._runs[1:], strict=False)
        places = [LogBounds(run.downstream_end, after.downstream_start) for run, after in neighbours]
        return [place for place in reversed(places) if place.end - place.start > 1]

    def copied_before(self, offset: int) -> int | None:
        """Returns the last offset at or before another one that the runs cover; None where there is none."""
        position = bisect_right(self._runs, offset, key=_start)
        return min(offset, self._runs[position - 1].upstream_end - 1) if position else None

    def no_copies(self, downstream: int, target_end: int) -> int:
        """Returns how many places of the target from an offset on, at most, hold no copy of ours."""
        copies = 0
        for run in reversed(self._runs):
            if run.downstream_end <= downstream:
                break
            copies += max(0, run.copies - max(0, downstream - run.downstream_start))
        return max(0, target_end - downstream - copies)

    def translate(
        self,
        offset: int,
        target_topic_id: str,
        target: LogBounds,
        source_topic_id: str | None = None,
        source: LogBounds | None = None,
        scans: Mapping[OffsetRun, RunScan] = _NO_SCANS,
    ) -> Verdict | None:
        """Returns an `exact` or `bounded` verdict; None where no run applies: there are none, they are of other topics
        than those that exist now, or of copies that the target has lost, or they contradict themselves. Without
        `source` and its topic's id, because it does not answer, the offset is taken to be one of the log that was
        copied. `scans`: of merged runs; a run that its scan contradicts does not apply either.

        `target.end` is the last stable offset, `source.end` the end of what may be copied.
        """
        last = self.last
        if last is None or target_topic_id != last.target_topic_id:
            return None
        if source_topic_id is not None and source_topic_id != last.source_topic_id:
            return None
        if source is not None and max(offset, last.position) > source.end:
            # Cut back, and not yet noticed by who copies: offsets from there on mean other records now.
            return None
        held = self.held(offset)
        scan = None if held is None else scans.get(held) or RunScan(held)
        if scan is not None and scan.impossible:
            return None
        copy_range = self._copy_range(offset, scan, target.end)
        if copy_range is None or copy_range.low > target.end:
            return None
        # Below its log start the target holds nothing any more.
        answer = max(copy_range.low, target.start)
        bound = max(copy_range.high, target.start) - answer + copy_range.to_come
        flags = (Flag.TRUNCATED,) if source is not None and offset < source.start else ()
        if copy_range.to_come:
            flags = (*flags, Flag.AHEAD_OF_MIRROR)
        detail: dict[str, str | int | None] = {
            "run_upstream": copy_range.run.upstream_start,
            "run_downstream": copy_range.run.downstream_start,
            "run_count": copy_range.run.upstream_count,
        }
        judgement = Judgement.BOUNDED if bound else Judgement.EXACT
        absent = self.to_copy_again(offset) if self.holds_all(offset, target.start) else None
        return Verdict(
            judgement, answer, bound, Evidence.RUN, None, flags, detail=detail, not_on_target=absent
        )

    def to_copy_again(self, offset: int, source_end: int = _NO_END) -> int:
        """Returns how many records from an offset on, at most, are not copied again yet that were copied before."""
        return max(0, min(self._recopy_end, source_end) - max(offset, self.position or 0))

    def holds_all(self, offset: int, target_start: int) -> bool:
        """Whether the runs cover all from an offset up to their position, and the target has lost none of their
        copies."""
        if self.stretches and self.stretches[-1].end > offset:
            return False
        position = max(0, bisect_right(self._runs, offset, key=_start) - 1)
        return position >= len(self._runs) or target_start <= self._runs[position].downstream_start

    def below_target(
        self,
        offset: int,
        target_start: int,
        scans: Mapping[OffsetRun, RunScan],
        *,
        at_most: bool = False,
    ) -> int | None:
        """Returns how many copies of records at or after an offset, at most, stood below the target's log start; None
        where it is not known whether that of the first one did, unless it counts then (`at_most`)."""
        position = max(0, bisect_right(self._runs, offset, key=_start) - 1)
        gone = 0
        for run in self._runs[position:]:
            if run.downstream_start >= target_start:
                break
            scan = scans.get(run) or RunScan(run)
            begin = max(offset, run.upstream_start)
            if begin >= run.upstream_end:
                continue
            if run.downstream_end <= target_start:
                gone += min(run.upstream_end - begin, run.copies)
                continue
            low, high = scan.find_bounds(begin)
            if low >= target_start:
                break
            if high >= target_start and not at_most:
                return None
            first = bisect_left(
                range(begin, run.upstream_end),
                target_start,
                key=lambda upstream: scan.find_bounds(upstream)[0],
            )
            gone += min(first, run.copies)
        return gone

    def beyond_target(self, offset: int, target_end: int) -> int:
        """Returns how many copies of records at or after an offset, at most, stood at the target's log end or beyond:
        replicas that lead now have lacked them (unclean.leader.election.enable=true)."""
        gone = 0
        for run in reversed(self._runs):
            if run.downstream_end <= target_end or run.upstream_end <= offset:
                break
            begin = max(offset, run.upstream_start)
            beyond = run.downstream_end - max(run.downstream_start, target_end)
            gone += min(run.upstream_end - begin, run.copies, beyond)
        return gone

    def uncovered_between(self, offset: int, begin: int, end: int) -> int:
        """Returns how many records at or after an offset, at most, have copies by another mirror alone, which stand at
        [begin, end) of the target."""
        count = 0
        for stretch in self.stretches:
            places = min(stretch.downstream_end, end) - max(stretch.downstream_begin, begin)
            count += max(0, min(stretch.end - max(stretch.begin, offset), places))
        return count

    def held(self, offset: int) -> OffsetRun | None:
        """Returns the run that the offset lies in."""
        position = bisect_right(self._runs, offset, key=_start)
        return (
            self._runs[position - 1] if position and offset < self._runs[position - 1].upstream_end else None
        )

    def _copy_range(self, offset: int, scan: RunScan | None, target_end: int) -> _CopyRange | None:
        position = bisect_right(self._runs, offset, key=_start)
        run = self._runs[position - 1] if position else None
        after = self._runs[position] if position < len(self._runs) else None
        if scan is not None:
            return _CopyRange(*scan.find_bounds(offset), 0, scan.run)
        if after is not None:
            if after.covered_from <= (offset if run is None else max(offset, run.position)):
                return _CopyRange(after.downstream_start, after.downstream_start, 0, after)
            return run and _CopyRange(run.downstream_end, after.downstream_start, 0, run)
        assert run is not None
        # What comes, or has come since the run was read, begins at its position.
        # Another mirror may have copied on since it was handed back: no run knows what stands behind.
        high = max(run.downstream_end, target_end) if run.handed_back else run.downstream_end
        return _CopyRange(run.downstream_end, high, max(0, offset - run.position), run)


def _stretches(runs: Sequence[OffsetRun]) -> list[Stretch]:
    """Returns what consistent runs leave uncovered before the last one's position."""
    stretches: list[Stretch] = []
    begin = downstream = 0
    for run in runs:
        if begin < run.covered_from:
            # Of a bare position it is not known where the next copy will stand: all that is there may be copies.
            end = run.downstream_start if run.upstream_count else _NO_END
            stretches.append(Stretch(begin, run.covered_from, downstream, end))
        begin, downstream = run.position, max(downstream, run.downstream_end)
    return stretches


def stronger(by_run: Verdict, other: Verdict) -> Verdict:
    """Returns the closer one of a bounded verdict by runs and another; pending where they contradict each other, for
    one of them is wrong then, and may skip."""
    if other.offset is None:
        return other if other.reason is Reason.EVIDENCE_DISAGREES else by_run
    assert by_run.offset is not None
    assert by_run.bound is not None
    # The other answer lies behind copies that the group has processed; `next_copy` is one that it has not. The offset
    # that the run gives may itself be empty by now: compaction on the target.
    above = other.offset > by_run.offset + by_run.bound and Flag.AHEAD_OF_MIRROR not in by_run.flags
    copy = other.detail.get("next_copy")
    below = other.judgement is Judgement.EXACT and isinstance(copy, int) and copy < by_run.offset
    if above or below:
        return Verdict.pending(Reason.EVIDENCE_DISAGREES, answer=other.offset, **by_run.detail)
    return other if other.bound is not None and other.bound < by_run.bound else by_run


def disagrees(by_run: Verdict, last: OffsetRun) -> Verdict:
    """Returns a pending verdict: the newest run does not end with a record and its copy, so it is of other logs."""
    return Verdict.pending(
        Reason.EVIDENCE_DISAGREES,
        answer=by_run.offset,
        run_upstream_end=last.upstream_end,
        run_downstream_end=last.downstream_end,
    )


class RunTable:
    """The runs of a topic, applied record by record in the log's order."""

    def __init__(self) -> None:
        self._runs: dict[CopyId, dict[RunKey, OffsetRun]] = {}
        self._nameless: dict[RunKey, CopyId] = {}
        """By key of version 0, the copy that its value has named last."""

    def apply(self, change: tuple[RunKey, OffsetRun | None]) -> set[CopyId]:
        """Applies a record; returns the copies whose runs have changed: two where a key of version 0 now names another
        copy."""
        key, run = change
        before = CopyId(key.source, key.target_topic) if key.target_topic else self._nameless.pop(key, None)
        touched = set()
        if before is not None and before in self._runs:
            touched.add(before)
            self._runs[before].pop(key, None)
            if not self._runs[before]:
                del self._runs[before]
        if run is not None:
            touched.add(run.copy)
            self._runs.setdefault(run.copy, {})[key] = run
            if not key.target_topic:
                self._nameless[key] = run.copy
        return touched

    def clear(self) -> None:
        self._runs.clear()
        self._nameless.clear()

    def get_runs(self, copy: CopyId) -> Iterable[OffsetRun]:
        """Returns the runs of a copy, in no order."""
        return self._runs.get(copy, {}).values()

    def partition_runs(self, copy: CopyId) -> PartitionRuns:
        keys = self._runs.get(copy, {}).keys()
        return PartitionRuns(
            self.get_runs(copy), [key.upstream_start for key in keys if not key.target_topic]
        )

    @property
    def copies(self) -> Iterable[CopyId]:
        return self._runs.keys()


def read_runs(
    records: Iterable[LogRecord], errors: list[SchemaError] | None = None
) -> dict[CopyId, PartitionRuns]:
    """Reads the runs of a whole runs topic. A record that can't be read costs itself only; its error is added to
    `errors`."""
    table = RunTable()
    for record in records:
        try:
            table.apply(decode_change(record.key, record.value))
        except SchemaError as problem:
            if errors is not None:
                errors.append(problem)
    return {copy: table.partition_runs(copy) for copy in table.copies}
