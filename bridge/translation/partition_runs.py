"""The offset runs of one partition, as the slot that copies it keeps them: made at every commit, merged with age.

Inside a merged run nobody knows where its holes are, so an answer there may be `looseness` records too low. Runs are
merged only while that is no more than the RATIO-th part of their distance from the newest copy: a group that lags by a
million records may then read a million / RATIO of them twice, and one that keeps up reads none. A partition so has some
RATIO runs for every doubling of what was ever copied, whatever the commits were like. The newest KEPT are not merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest

from bridge.translation.copying import Copied
from bridge.translation.model import CopyId
from bridge.translation.runs import OffsetRun, RunKey, Segment

RATIO = 256
KEPT = 256
PER_COMMIT = 16
"""New runs that one commit makes at most: a source of small transactions has a hole after each."""
_CHECKS = 4
"""Neighbours looked at for every new run. A sweep over all of them ends before a third of them is new, and what a
commit costs does not depend on how many there are."""
_AT_ONCE = 64
"""Neighbours looked at in one go, so that a run that swallows many others is written once."""

Change = tuple[bytes, bytes | None]
"""Key and value of a record of the runs topic; None drops the run."""
_Changes = dict[int, OffsetRun | None]
"""By upstream_start."""


class PartitionRuns:
    """Those of one copy; `runs` come in any order."""

    def __init__(self, runs: Iterable[OffsetRun] = (), nameless: Iterable[int] = ()) -> None:
        """`nameless`: the upstreamStart of those whose records have keys of version 0. Each is written anew under a key
        of version 1 when it changes."""
        self._runs, self._stale = consistent(runs)
        self._nameless = set(nameless)
        self._at = 0
        """The sweep looks next at this run and the one before it."""
        self._due = 0
        """Neighbours that the sweep has still to look at."""

    @property
    def runs(self) -> Sequence[OffsetRun]:
        """In the order of both logs."""
        return self._runs

    @property
    def last(self) -> OffsetRun | None:
        return self._runs[-1] if self._runs else None

    @property
    def position(self) -> int | None:
        """Where copying goes on; None without a run."""
        return self._runs[-1].position if self._runs else None

    def commit(self, segments: Sequence[Segment], position: int, copied: Copied) -> list[Change]:
        """The records for the runs topic that belong into the transaction of these segments, which are in the order of
        both logs; `position` is where copying goes on after it. What they contradict is dropped: runs of other topic
        ids, and what was said of offsets that come again. Without segments only the position moves."""
        changes: _Changes = {run.upstream_start: None for run in self._stale}
        self._stale = []
        anew = self._take_back(position, changes)
        new = _new_runs(segments, copied)
        first = new[0] if new else _run(Segment(position, position, 0, 0), copied)
        if self._runs and self._runs[-1].incarnation != first.incarnation:
            changes |= {run.upstream_start: None for run in self._runs}
            self._runs = []
        if new:
            self._take_bare(new, changes)
        dropped = self._cut(first, changes)
        if new:
            if self._runs:
                new[0] = new[0]._replace(covered_from=max(new[0].covered_from, self._runs[-1].upstream_end))
            new[-1] = new[-1]._replace(position=position)
            self._due += _CHECKS * len(new)
        elif self.position != position:
            moves = self._runs and not dropped and not anew
            new = [self._runs.pop()._replace(position=position) if moves else first]
        self._runs += new
        changes |= {run.upstream_start: run for run in new}
        if self._due >= _AT_ONCE:
            self._sweep(changes)
        return self._records(copied.id, changes)

    def hand_back(self) -> list[Change]:
        """The record which says that a stock mirror goes on from here: nobody knows how far it comes. None without a
        run."""
        last = self.last
        if last is None:
            return []
        self._runs[-1] = handed = last._replace(handed_back=True)
        return self._records(handed.copy, {handed.upstream_start: handed})

    def _records(self, copy: CopyId, changes: Mapping[int, OffsetRun | None]) -> list[Change]:
        records: list[Change] = []
        for start, run in changes.items():
            nameless = start in self._nameless
            if nameless:
                self._nameless.discard(start)
                records.append((RunKey(copy.source, "", start).encode(), None))
            if run is not None or not nameless:
                records.append((RunKey(*copy, start).encode(), None if run is None else run.value()))
        return records

    def _take_back(self, position: int, changes: _Changes) -> bool:
        """Copying is ours again; whether it begins elsewhere than it had ended: what lies between has been copied by
        somebody else, and is not covered."""
        last = self.last
        if last is None or not last.handed_back:
            return False
        if last.upstream_count or last.position == position:
            self._runs[-1] = changes[last.upstream_start] = last._replace(handed_back=False)
        else:
            changes[last.upstream_start] = None
            self._runs.pop()
        return last.position != position

    def _take_bare(self, new: list[OffsetRun], changes: _Changes) -> None:
        """The first new run takes the place of a bare position, and covers what that has covered."""
        last = self.last
        if last is None or last.upstream_count:
            return
        changes[last.upstream_start] = None
        self._runs.pop()
        if new[0].covered_from <= last.position:
            new[0] = new[0]._replace(covered_from=min(new[0].covered_from, last.covered_from))

    def _cut(self, first: OffsetRun, changes: _Changes) -> bool:
        """Takes back what was said of offsets from those of `first` on; whether runs went as a whole. So does a merged
        one, for nobody can say where its rest would end: answers there get lower."""
        dropped = False
        while self._runs:
            last = self._runs[-1]
            keep = first.upstream_start - last.upstream_start
            whole = not first.upstream_count or last.downstream_end <= first.downstream_start
            if whole and last.position <= first.upstream_start:
                break
            if whole and last.upstream_end <= first.upstream_start:
                cut = last._replace(position=first.upstream_start)
            else:
                if first.upstream_count:
                    keep = min(keep, first.downstream_start - last.downstream_start)
                if keep <= 0 or looseness(last):
                    changes[last.upstream_start] = None
                    self._runs.pop()
                    dropped = True
                    continue
                end = last.upstream_start + keep
                cut = last._replace(upstream_count=keep, position=end, leader_epoch=-1, last_timestamp=-1)
            self._runs[-1] = changes[last.upstream_start] = cut
            break
        return dropped

    def _sweep(self, changes: _Changes) -> None:
        """Merges neighbours, from the newest that may be to the oldest, as far as is due."""
        runs, at = self._runs, min(self._at, len(self._runs) - KEPT - 1)
        end = runs[-1].downstream_end
        while at > 0 and self._due > 0:
            self._due -= 1
            older, newer = runs[at - 1], runs[at]
            if newer.covered_from <= older.position:
                holes = older.skipped + older.extra + newer.skipped + newer.extra + _hole(older, newer)
                loose = min(holes, newer.downstream_end - older.downstream_start)
                if loose * RATIO <= end - newer.downstream_end:
                    changes[newer.upstream_start] = None
                    changes[older.upstream_start] = merged = joined(older, newer)
                    runs[at - 1 : at + 1] = [merged]
            at -= 1
        if at <= 0:
            self._due = 0
            at = len(runs)
        self._at = at


def joined(older: OffsetRun, newer: OffsetRun) -> OffsetRun:
    """One run of two; what lies between them has been skipped, or is no copy."""
    return older._replace(
        upstream_count=newer.upstream_end - older.upstream_start,
        skipped=older.skipped + newer.skipped + newer.upstream_start - older.upstream_end,
        extra=older.extra + newer.extra + newer.downstream_start - older.downstream_end,
        leader_epoch=newer.leader_epoch,
        position=newer.position,
        last_timestamp=newer.last_timestamp,
        size=older.size + newer.size,
    )


def looseness(run: OffsetRun) -> int:
    """How many records too low an answer inside the run can be; 0 where every answer is exact."""
    return min(run.skipped + run.extra, run.downstream_end - run.downstream_start)


def consistent(runs: Iterable[OffsetRun]) -> tuple[list[OffsetRun], list[OffsetRun]]:
    """The runs that can be true together with the last one, in the order of both logs; and the others. Those are of
    topics that are no more, or stand where a later run has begun anew. No run claims to cover what another one of the
    same topics has copied, and no bare position stands before a run."""
    kept: list[OffsetRun] = []
    stale: list[OffsetRun] = []
    for run in sorted(runs, key=lambda run: run.upstream_start, reverse=True):
        after = kept[-1] if kept else None
        if after is None:
            kept.append(run)
        elif run.incarnation != after.incarnation or not run.upstream_count:
            stale.append(run)
        else:
            if after.covered_from < run.upstream_end:
                kept[-1] = after._replace(covered_from=min(run.upstream_end, after.upstream_start))
            lower = not after.upstream_count or run.downstream_end <= after.downstream_start
            (kept if lower and run.upstream_end <= after.upstream_start else stale).append(run)
    kept.reverse()
    return kept, stale


def _new_runs(segments: Sequence[Segment], copied: Copied) -> list[OffsetRun]:
    """PER_COMMIT at most, apart where the holes are widest; more only where it is not known what lies between."""
    runs = [_run(segment, copied) for segment in segments]
    apart = {
        at
        for at in nlargest(PER_COMMIT - 1, range(len(runs) - 1), key=lambda at: _hole(*runs[at : at + 2]))
        if _hole(*runs[at : at + 2])
    }
    new = runs[:1]
    for at, run in enumerate(runs[1:]):
        if at in apart or run.covered_from > new[-1].upstream_end:
            new.append(run)
        else:
            new[-1] = joined(new[-1], run)
    return new


def _hole(older: OffsetRun, newer: OffsetRun) -> int:
    return newer.upstream_start - older.upstream_end + newer.downstream_start - older.downstream_end


def _run(segment: Segment, copied: Copied) -> OffsetRun:
    return OffsetRun(
        copied.source,
        copied.source_topic_id,
        copied.target_topic,
        copied.target_topic_id,
        segment.covered_from,
        segment.upstream_start,
        segment.downstream_start,
        segment.count,
        0,
        0,
        segment.leader_epoch,
        segment.upstream_end,
        segment.last_timestamp,
        segment.size,
    )
