"""Keeps the offset runs of one partition in the slot that copies it: adds runs at every commit, merges older ones
(`markers`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bridge.model.copying import Copied
from bridge.model.values import CopyId
from bridge.translation.runs.markers import cut_off, new_run, new_runs, one_of
from bridge.translation.runs.runs import OffsetRun, RunKey, Segment

KEPT = 64
"""The newest, which are not merged."""
_CHECKS = 3
"""Neighbours looked at for every new run, but for its own. A sweep over all of them ends before a third of them is new,
and what a commit costs does not depend on how many there are."""
MERGED_AT_ONCE = 16
"""New runs that are merged in one go, so that what swallows them is written once."""

Change = tuple[bytes, bytes | None]
"""Key and value of a record of the runs topic; None drops the run."""
_Changes = dict[int, OffsetRun | None]
"""By upstream_start."""


class PartitionRuns:
    """The runs of one copy; `runs` come in any order."""

    def __init__(self, runs: Iterable[OffsetRun] = (), nameless: Iterable[int] = ()) -> None:
        """`nameless`: the upstreamStart of those whose records have keys of version 0. Each is written anew under a key
        of version 1 when it changes."""
        self._runs, self._stale = consistent(runs)
        self._wrong: list[OffsetRun] = []
        self._nameless = set(nameless)
        self._fresh = 0
        """New runs since the last merging."""
        self._at = 0
        """Index of the run at which the sweep goes on, with the run before it."""
        self._beyond = 0
        """Bytes of the runs that it has passed."""

    @property
    def runs(self) -> Sequence[OffsetRun]:
        """In the order of both logs."""
        return self._runs

    @property
    def others(self) -> Sequence[OffsetRun]:
        """Runs that contradict the last one."""
        return self._stale

    @property
    def last(self) -> OffsetRun | None:
        return self._runs[-1] if self._runs else None

    @property
    def position(self) -> int | None:
        """The position where copying goes on; None without a run."""
        return self._runs[-1].position if self._runs else None

    def pass_over(self) -> OffsetRun:
        """Rejects the last run: the others are checked against each other without it, and it is dropped with the next
        commit."""
        wrong = self._runs.pop()
        self._wrong.append(wrong)
        self._runs, self._stale = consistent([*self._runs, *self._stale])
        return wrong

    def commit(
        self,
        segments: Sequence[Segment],
        position: int,
        copied: Copied,
        target_start: int = 0,
        times: bytes = b"",
        *,
        found: bool = False,
        lost_from: int | None = None,
    ) -> list[Change]:
        """Returns the records for the runs topic that belong into the transaction of these segments, which are in the
        order of both logs; `position` is where copying goes on after it. What they contradict is dropped: runs of other
        topic ids, and runs of offsets that come again. Without segments only the position moves. `target_start`: where
        the target's log begins, as far as is known. `times`: how long the records took, which the newest run's record
        says. `found`: another mirror has made these copies, and goes on where they end; how far is not known.
        `lost_from`: where the target's log has ended although copies stood behind that; they are there no more,
        whatever stands in their place.

        The newest run tells up to where was copied before copying began again further back, in another target topic or
        as an operator requested, until it has come there.
        """
        changes: _Changes = {run.upstream_start: None for run in (*self._stale, *self._wrong)}
        self._stale, self._wrong = [], []
        anew = self._resume_after_hand_back(position, changes)
        new = new_runs(segments, copied)
        first = new[0] if new else new_run([Segment(position, position, 0, 0)], copied)
        if found:
            first, new = first._replace(found=True), [run._replace(found=True) for run in new]
        recopy_end = self._recopy_end(first, position)
        if self._runs and self._runs[-1].incarnation != first.incarnation:
            changes |= {run.upstream_start: None for run in self._runs}
            self._runs = []
        if new:
            self._replace_bare_position(new, changes)
        lost = lost_from is not None and self._drop_behind(lost_from, changes)
        dropped = self._cut(first, changes) or lost
        if new:
            if self._runs:
                new[0] = new[0]._replace(covered_from=max(new[0].covered_from, self._runs[-1].upstream_end))
            new[-1] = new[-1]._replace(position=position)
            self._fresh += len(new)
        elif self.position != position:
            moves = self._runs and not dropped and not anew
            new = [self._runs.pop()._replace(position=position) if moves else first]
        if new:
            new[-1] = new[-1]._replace(recopy_end=recopy_end)
        self._runs += new
        changes |= {run.upstream_start: run for run in new}
        if self._fresh >= MERGED_AT_ONCE:
            self._merge(changes, target_start)
        if found:
            self._runs[-1] = last = self._runs[-1]._replace(handed_back=True)
            changes[last.upstream_start] = last
        return self._records(copied.id, changes, times if segments else b"")

    def reset(self, position: int, target_end: int, *, recopy: bool = False) -> list[Change]:
        """Returns the records after which copying goes on at `position`, as an operator requested. What is copied again
        then stands from `target_end` on, and the copies below it count no longer for these offsets. None without a run,
        and where copying is there already and does not begin again of itself (`recopy`)."""
        last = self.last
        if last is None or (position == last.position and not recopy):
            return []
        copied = Copied(last.source, last.source_topic_id, last.target_topic, last.target_topic_id)
        changes: _Changes = {run.upstream_start: None for run in self._stale}
        self._stale = []
        bare = new_run([Segment(position, position, target_end, 0)], copied)
        recopy_end = self._recopy_end(bare, position, again=True)
        if position > last.position:
            # A bare position of its own: what lies before it was not copied, and no run may claim to cover it.
            self._resume_after_hand_back(position, changes)
            if not last.upstream_count:
                changes[last.upstream_start] = None
                self._runs = [run for run in self._runs if run.upstream_count]
                bare = bare._replace(again=last.again)
        else:
            bare = bare._replace(again=True)
        bare = bare._replace(recopy_end=recopy_end)
        self._cut(bare, changes)
        self._runs.append(bare)
        changes[position] = bare
        return self._records(copied.id, changes)

    def _recopy_end(self, first: OffsetRun, position: int, *, again: bool = False) -> int:
        """Returns up to where was copied before, where that is behind `position` and copying begins again: an operator
        requested it (`again`), or `first`, the next run, is of another target topic."""
        last = self.last
        if last is None or last.source_topic_id != first.source_topic_id:
            return 0
        begins_again = again or last.incarnation != first.incarnation
        end = max(last.recopy_end, last.position if begins_again else 0)
        return end if end > position else 0

    def hand_back(self) -> list[Change]:
        """Returns the record with which a stock mirror goes on from here; how far it comes is not known. None without a
        run."""
        last = self.last
        if last is None:
            return []
        self._runs[-1] = handed = last._replace(handed_back=True)
        return self._records(handed.copy, {handed.upstream_start: handed})

    def _records(
        self, copy: CopyId, changes: Mapping[int, OffsetRun | None], times: bytes = b""
    ) -> list[Change]:
        """Returns the records of changes, dropped runs first: a reader takes its position from the newest run that is
        left."""
        records: list[Change] = []
        newest = self._runs[-1].upstream_start if times and self._runs else None
        for start, run in sorted(changes.items(), key=lambda change: change[1] is not None):
            nameless = start in self._nameless
            if nameless:
                self._nameless.discard(start)
                records.append((RunKey(copy.source, "", start).encode(), None))
            if run is not None or not nameless:
                value = None if run is None else run.value(times if start == newest else b"")
                records.append((RunKey(*copy, start).encode(), value))
        return records

    def _resume_after_hand_back(self, position: int, changes: _Changes) -> bool:
        """Takes copying back after a hand-back; returns whether it begins elsewhere than it had ended: what lies
        between was copied by another mirror, and is not covered."""
        last = self.last
        if last is None or not last.handed_back:
            return False
        if last.upstream_count or last.position == position:
            self._runs[-1] = changes[last.upstream_start] = last._replace(handed_back=False)
        else:
            changes[last.upstream_start] = None
            self._runs.pop()
        return last.position != position

    def _replace_bare_position(self, new: list[OffsetRun], changes: _Changes) -> None:
        """Replaces a bare position by the first new run, which covers what that has covered."""
        last = self.last
        if last is None or last.upstream_count:
            return
        changes[last.upstream_start] = None
        self._runs.pop()
        new[0] = new[0]._replace(again=last.again)
        if new[0].covered_from <= last.position:
            new[0] = new[0]._replace(covered_from=min(new[0].covered_from, last.covered_from))

    def _cut(self, first: OffsetRun, changes: _Changes) -> bool:
        """Cuts runs off at the offsets of `first`; returns whether whole runs were dropped. A run without a list of
        holes is dropped whole, for it is not known where its rest would end: answers there get lower."""
        dropped = False
        while self._runs:
            last = self._runs[-1]
            stands = not first.upstream_count or last.downstream_end <= first.downstream_start
            if stands and last.position <= first.upstream_start:
                break
            if stands and last.upstream_end <= first.upstream_start:
                cut: OffsetRun | None = last._replace(position=first.upstream_start)
            else:
                upstream = first.upstream_start - last.upstream_start
                below = first.downstream_start - last.downstream_start if first.upstream_count else None
                cut = cut_off(last, upstream, below)
            if cut is None:
                changes[last.upstream_start] = None
                self._runs.pop()
                dropped = True
                continue
            self._runs[-1] = changes[last.upstream_start] = cut
            break
        return dropped

    def _drop_behind(self, target_end: int, changes: _Changes) -> bool:
        """Cuts runs off at an offset of the target; returns whether there was anything to cut."""
        lost = False
        while self._runs:
            last = self._runs[-1]
            if not last.upstream_count or last.downstream_end <= target_end:
                break
            lost = True
            cut = cut_off(last, last.upstream_end - last.upstream_start, target_end - last.downstream_start)
            if cut is None:
                changes[last.upstream_start] = None
                self._runs.pop()
                continue
            self._runs[-1] = changes[last.upstream_start] = cut
            break
        return lost

    def _merge(self, changes: _Changes, target_start: int) -> None:
        """Merges neighbours: new runs with those that were new before, and a part of all others, in turn."""
        newest = len(self._runs) - KEPT - 1
        low, _ = self._merged(newest, self._fresh, 0, target_start, changes)
        if self._at <= 0:
            self._at, self._beyond = len(self._runs), 0
        top, count = min(self._at, low), _CHECKS * self._fresh
        self._at, self._beyond = self._merged(top, count, self._beyond, target_start, changes)
        self._fresh = 0

    def _merged(
        self, top: int, count: int, beyond: int, target_start: int, changes: _Changes
    ) -> tuple[int, int]:
        """Merges among `count` neighbours from run `top` down, `beyond` bytes from the newest copy; returns the run
        where that ends, and its distance."""
        if top <= 0:
            return top, beyond
        low, end = max(0, top - count), self._runs[-1].downstream_end
        kept_runs = [self._runs[top]]
        for older in reversed(self._runs[low:top]):
            newer = kept_runs[-1]
            merged = one_of(older, newer, end, beyond, target_start)
            if merged is None:
                beyond += newer.size
                kept_runs.append(older)
            else:
                changes[newer.upstream_start] = None
                changes[older.upstream_start] = kept_runs[-1] = merged
        self._runs[low : top + 1] = reversed(kept_runs)
        return low, beyond


def consistent(runs: Iterable[OffsetRun]) -> tuple[list[OffsetRun], list[OffsetRun]]:
    """Splits runs into those that don't contradict the last one, in the order of both logs, and the others. Those are
    of topics that no longer exist, or overlap a later run. No run claims to cover what another one of the same topics
    has copied, and no bare position stands before a run."""
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
