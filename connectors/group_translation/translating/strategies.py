"""Strategies of translating an offset: by records, by the plain timestamp rule, by offset syncs, by syncs and records
together, and by offset runs before any of them.

Scans batch headers for offsets without a copy inside merged runs, within what a round may read
(docs/offset-runs.md): those of the target, and of the source, while it answers, where a run does not list what was
skipped.

A run is read from its start to its end, for all groups that are in it; then the answers are kept, for as long as groups
are committed there. What a round has no room for comes first in the next one, and the largest run takes half of a round
at most: so each is done after as many rounds as all of them take, whatever else is scanned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple, Protocol

from bridge.mm2.offset_sync_store import SyncBounds
from bridge.model.lookups import Scan, Scanned
from bridge.model.values import (
    CopyId,
    Evidence,
    Judgement,
    Reason,
    Side,
    TopicPartition,
    Verdict,
)
from bridge.translation.evidence import agrees, are_copies, both, by_syncs, ends_at
from bridge.translation.records.bracketing import bracket
from bridge.translation.records.log_window import LogBounds, Steps
from bridge.translation.records.partition_cache import PartitionMemory
from bridge.translation.records.timestamp_rule import by_timestamp
from bridge.translation.runs.markers import RunScan
from bridge.translation.runs.run_evidence import ConsistentRuns, disagrees, stronger
from bridge.translation.runs.runs import OffsetRun
from connectors.group_translation.translating.pairs import PairIdentity

READ_BYTES = 4 * 1024 * 1024
ROUND_BYTES = 192 * 1024 * 1024
"""What a round of one connector scans at most while the source answers, in bytes."""
SOURCE_DOWN_BYTES = 512 * 1024 * 1024
"""The same while it does not; the next round then follows at once."""
MOST_RUNS = 4096
"""Runs whose scans are kept."""


class Scanning:
    """The scans of one connector, by run; a run holds its topic ids."""

    def __init__(self) -> None:
        self._scans: dict[OffsetRun, RunScan] = {}
        self._granted: dict[OffsetRun, int] = {}
        """Bytes that each run may still read in this round."""
        self._costs: dict[OffsetRun, int] = {}
        self._taken = 0
        """Bytes granted to runs that are not in the queue."""
        self._queue: dict[OffsetRun, int] = {}
        """Runs that had to wait, the one that has waited longest first, with the bytes that those before it take."""
        self._queued = 0
        self._waiting: dict[OffsetRun, int] = {}
        """Runs that have to wait in this round, with the bytes they take."""

    @property
    def scans(self) -> Mapping[OffsetRun, RunScan]:
        return self._scans

    @property
    def unfinished(self) -> bool:
        """Whether this round had no room for all scans."""
        return bool(self._waiting)

    def end_round(self, *, whole: bool = True) -> None:
        """Ends a round. `whole`: every group was translated in it."""
        self._scans = {run: scan for run, scan in self._scans.items() if scan.end_round(whole=whole)}
        longest_first = [run for run in self._queue if run in self._waiting]
        self._queue, self._queued = {}, 0
        for run in dict.fromkeys([*longest_first, *self._waiting]):
            self._queue[run] = self._queued
            self._queued += self._waiting[run]
        self._granted, self._costs, self._taken, self._waiting = {}, {}, 0, {}

    def due(
        self,
        run: OffsetRun | None,
        offset: int,
        target: LogBounds,
        most: int,
        source: LogBounds | None = None,
    ) -> bool:
        """Whether scanning (on) can make an answer exact, and there is room for it in a round of `most` bytes. `run`:
        the one that the offset lies in; `source`: None while the source does not answer."""
        if run is None or not (run.extra or run.skipped):
            return False
        run_scan = self._scans.get(run) or RunScan(run)
        by_source = _by_source(run_scan, offset, source)
        by_target = run_scan.unsettled(offset) and run_scan.read_to < min(run.downstream_end, target.end)
        unread = run_scan.unread * (run_scan.hidden > 0) + run_scan.source_unread * by_source
        return (by_source or by_target) and self._grant(run, unread, most)

    def steps(
        self, run: OffsetRun, offset: int, target: LogBounds, source: LogBounds | None = None
    ) -> Steps[None]:
        """Scans until all is found, or the run or its bytes end: the source first, for without it the target's headers
        prove nothing."""
        run_scan = self._scans.pop(run, None) or RunScan(run)
        self._scans[run] = run_scan
        if len(self._scans) > MOST_RUNS:
            del self._scans[next(iter(self._scans))]
        while _by_source(run_scan, offset, source):
            size = min(READ_BYTES, run_scan.source_unread)
            answer = yield from self._read(run, Scan(Side.SOURCE, run_scan.source_read_to, size))
            if answer is None:
                return
            if answer.end > run_scan.source_read_to:  # several groups in one run read it side by side
                self._granted[run] -= answer.size
            run_scan.learn_source(answer)
        end = min(run.downstream_end, target.end)
        while run_scan.unsettled(offset) and run_scan.read_to < end:
            size = min(READ_BYTES, run_scan.unread + 1)
            answer = yield from self._read(run, Scan(Side.TARGET, max(run_scan.read_to, target.start), size))
            if answer is None:
                return
            if answer.end > run_scan.read_to:
                self._granted[run] -= answer.size
            run_scan.learn(answer)

    def _read(self, run: OffsetRun, scan: Scan) -> Steps[Scanned | None]:
        """Scans once; None where the run may read no more, or nothing can be read."""
        if self._granted[run] <= 0:
            self._waiting[run] = self._costs[run]
            return None
        answer = yield scan
        return answer if isinstance(answer, Scanned) else None

    def _grant(self, run: OffsetRun, unread: int, most: int) -> bool:
        if run in self._granted:
            if self._granted[run] <= 0:
                self._waiting[run] = self._costs[run]
            return self._granted[run] > 0
        # The end of a fetch is fetched again where it is the middle of a batch.
        cost = min(unread + unread // 4 + READ_BYTES, most // 2)
        if self._taken + self._queue.get(run, self._queued) + cost > most:
            self._waiting[run] = cost
            return False
        self._granted[run] = self._costs[run] = cost
        self._taken += 0 if run in self._queue else cost
        return True


def _by_source(run_scan: RunScan, offset: int, source: LogBounds | None) -> bool:
    """Whether scanning the source can show how many copies stand before an offset; it does not show what transforms
    have dropped."""
    run = run_scan.run
    whole = source is not None and source.start <= run.upstream_start and not run.transformed
    return whole and run_scan.uncounted_before(offset)


class Syncs(Protocol):
    """Offset syncs as OffsetSyncStore answers about them."""

    def translate(self, topic_partition: TopicPartition, offset: int, /) -> int | None: ...

    def bounds(self, topic_partition: TopicPartition, offset: int, /) -> SyncBounds | None: ...


class Runs(Protocol):
    """Offset runs as FollowedRuns hands them out."""

    @property
    def reads(self) -> int:
        """How often they were read to their end."""

    def get_runs(self, copy: CopyId, /) -> ConsistentRuns: ...


class Question(NamedTuple):
    """An offset of source partition `tp`, whose copies are in `target_topic`, and the bounds of both logs.

    `log_append_time`: the target overwrites timestamps. `compacted`: see TopicInfo, of the target.
    """

    tp: TopicPartition
    target_topic: str
    offset: int
    source: LogBounds
    target: LogBounds
    log_append_time: bool
    identity: PairIdentity
    compacted: bool | None = False

    @property
    def copy(self) -> CopyId:
        return CopyId(self.tp, self.target_topic)


class Strategy(Protocol):
    """Translates one offset."""

    def at_once(self, question: Question, cached: Verdict | None) -> Verdict | None:
        """Returns the verdict where it takes no look-up, else None. `cached`: an exact one that still holds."""

    def steps(self, question: Question, memory: PartitionMemory) -> Steps[Verdict]:
        """Yields the look-ups that the verdict takes, is sent their answers, and returns it."""

    def reached(self, tp: TopicPartition, source_end: int, target_end: int) -> int | None:
        """Returns up to where the partition is copied at least, where that takes no look-up; None for not known."""


class ByRecords:
    """Bracketing (decision 0002)."""

    def at_once(self, question: Question, cached: Verdict | None) -> Verdict | None:
        return cached

    def steps(self, question: Question, memory: PartitionMemory) -> Steps[Verdict]:
        return bracket(
            question.offset, question.source, question.target, memory, compacted=question.compacted
        )

    def reached(self, tp: TopicPartition, source_end: int, target_end: int) -> int | None:
        return None


class ByTimestamp:
    """The plain rule of KIP-1292 (translation.verify=false)."""

    def at_once(self, question: Question, cached: Verdict | None) -> Verdict | None:
        return Verdict.pending(Reason.TARGET_TIMESTAMP_TYPE) if question.log_append_time else None

    def steps(self, question: Question, memory: PartitionMemory) -> Steps[Verdict]:
        return by_timestamp(question.offset, question.source, question.target)

    def reached(self, tp: TopicPartition, source_end: int, target_end: int) -> int | None:
        return None


class BySyncs:
    """Stock's answers (stock §3.1), without a look at any record."""

    def __init__(self, syncs: Syncs) -> None:
        self._syncs = syncs

    def at_once(self, question: Question, cached: Verdict | None) -> Verdict | None:
        tp, offset = question.tp, question.offset
        translated = self._syncs.translate(tp, offset)
        return by_syncs(offset, translated, self._syncs.bounds(tp, offset), question.target)

    def steps(self, question: Question, memory: PartitionMemory) -> Steps[Verdict]:
        raise AssertionError("syncs answer at once")

    def reached(self, tp: TopicPartition, source_end: int, target_end: int) -> int | None:
        bounds = self._syncs.bounds(tp, source_end)
        newest = None if bounds is None else bounds.lower
        if newest is None or newest.downstream_offset >= target_end:
            return None
        return newest.upstream_offset + 1


class ByBoth:
    """Bracketing within what the syncs say (decision 0010)."""

    def __init__(self, syncs: Syncs) -> None:
        self._syncs = syncs
        self._by_syncs = BySyncs(syncs)

    def at_once(self, question: Question, cached: Verdict | None) -> Verdict | None:
        if question.log_append_time:
            # Copies can't be told by their timestamps: what is left is stock's answer, and its evidence says so.
            verdict = self._by_syncs.at_once(question, cached)
            translated = verdict is not None and verdict.offset is not None
            return verdict if translated else Verdict.pending(Reason.TARGET_TIMESTAMP_TYPE)
        if cached is None:
            return None
        bounds = self._syncs.bounds(question.tp, question.offset)
        return cached if agrees(cached, question.offset, bounds, question.target) else None

    def steps(self, question: Question, memory: PartitionMemory) -> Steps[Verdict]:
        bounds = self._syncs.bounds(question.tp, question.offset)
        return both(
            question.offset,
            question.source,
            question.target,
            memory,
            bounds,
            compacted=question.compacted,
        )

    def reached(self, tp: TopicPartition, source_end: int, target_end: int) -> int | None:
        return self._by_syncs.reached(tp, source_end, target_end)


class ByRuns:
    """Translates by offset runs (docs/offset-runs.md, decision 0010); where these leave a bound or say nothing, by
    another strategy; and where that leaves a bound too, by the target's batch headers.

    One look on either side at the record that the newest run ends with, whenever there is a newer one or a log may be
    another, shows whether the runs are of the logs that are there now. Copies that went through transforms differ from
    their records: only runs know of them then, and of that record only its timestamp on the target can be compared.
    """

    def __init__(self, runs: Runs, otherwise: Strategy) -> None:
        self._runs, self._otherwise = runs, otherwise
        self._scanning = Scanning()
        self._checked: dict[CopyId, tuple[OffsetRun, PairIdentity, bool]] = {}
        """The newest run when it was held against the logs, and whether it agreed with them."""

    def at_once(self, question: Question, cached: Verdict | None) -> Verdict | None:
        if cached is not None and cached.evidence is Evidence.RUN:
            cached = None  # runs say themselves whether it still holds
        by_runs, last = self._by_runs(question)
        if by_runs is None or last is None:
            return self._otherwise.at_once(question, cached)
        agrees_with_logs = self._agreed(question)
        if agrees_with_logs is None:
            return None
        if not agrees_with_logs:
            return disagrees(by_runs, last)
        if by_runs.judgement is Judgement.EXACT:
            return by_runs
        best: Verdict | None = by_runs
        if not self._runs.get_runs(question.copy).transformed:
            other = self._otherwise.at_once(question, cached)
            best = None if other is None else _of_both(by_runs, other)
        return None if best is None or self._scan_due(question, best) else best

    def steps(self, question: Question, memory: PartitionMemory) -> Steps[Verdict]:
        by_runs, last = self._by_runs(question)
        if by_runs is None or last is None:
            return (yield from self._otherwise.steps(question, memory))
        agrees_with_logs = self._agreed(question)
        # A target that ends before the run does lacks its last copies now; what comes there later is to be compared.
        if agrees_with_logs is None and last.downstream_end <= question.target.end:
            agrees_with_logs = yield from _check(question, last, memory)
            self._checked[question.copy] = last, question.identity, agrees_with_logs
        if agrees_with_logs is False:
            return disagrees(by_runs, last)
        if by_runs.judgement is Judgement.EXACT:
            return by_runs
        other: Verdict | None = None
        if not self._runs.get_runs(question.copy).transformed:
            at_once = self._otherwise.at_once(question, None)
            other = at_once or (yield from self._otherwise.steps(question, memory))
        best = by_runs if other is None else _of_both(by_runs, other)
        if self._scan_due(question, best):
            yield from self._scan(question.copy, question.offset, question.target, question.source)
            after_scan, _ = self._by_runs(question)
            if after_scan is None:
                return other or disagrees(by_runs, last)
            best = after_scan if other is None else _of_both(after_scan, other)
        return best

    def steps_without_source(
        self,
        copy: CopyId,
        offset: int,
        target_id: str,
        target: LogBounds,
        cached: Verdict | None,
        pending: Verdict,
    ) -> Steps[Verdict]:
        """Translates an offset while the source can't be asked: the better of what runs say and a cached verdict;
        `pending` where there is neither."""
        by_runs = yield from self.without_source(copy, offset, target_id, target)
        if by_runs is not None and by_runs.offset is not None and cached is not None:
            return stronger(by_runs, cached)
        return by_runs or cached or pending

    def without_source(
        self, copy: CopyId, offset: int, target_id: str, target: LogBounds
    ) -> Steps[Verdict | None]:
        """Translates an offset by runs and the target alone; None where they say nothing. Runs that disagreed with the
        logs when the source last answered are not believed, nor are later ones of the same topics."""
        runs, scans = self._runs.get_runs(copy), self.scans
        verdict, last = runs.translate(offset, target_id, target, scans=scans), runs.last
        if verdict is None or last is None:
            return None
        checked, _, agreed = self._checked.get(copy, (last, None, True))
        if not agreed and checked.incarnation == last.incarnation:
            return disagrees(verdict, last)
        if self._scanning.due(runs.held(offset), offset, target, SOURCE_DOWN_BYTES):
            yield from self._scan(copy, offset, target)
            verdict = runs.translate(offset, target_id, target, scans=scans)
        return verdict

    def reached(self, tp: TopicPartition, source_end: int, target_end: int) -> int | None:
        return self._otherwise.reached(tp, source_end, target_end)

    @property
    def reads(self) -> int:
        """How often the runs were read."""
        return self._runs.reads

    def ledger(self, copy: CopyId) -> ConsistentRuns:
        """Returns the runs of a copy."""
        return self._runs.get_runs(copy)

    def target_from(self, copy: CopyId, offset: int) -> int:
        """Returns where on the target the copies begin that count for an offset; 0 where all count."""
        return self._runs.get_runs(copy).target_from(offset)

    def agreed(self, copy: CopyId, identity: PairIdentity) -> bool | None:
        """Whether the newest run of a copy agreed with these logs; None where they have not been compared."""
        run, compared, agreed = self._checked.get(copy, (None, None, False))
        return agreed if (run, compared) == (self.last(copy), identity) else None

    def are_compared(self, copy: CopyId, identity: PairIdentity) -> bool:
        """Whether some run of a copy was held against these logs."""
        _, compared, _ = self._checked.get(copy, (None, None, False))
        return compared == identity

    def _agreed(self, question: Question) -> bool | None:
        """The same. That they disagreed before it was known that the target overwrites timestamps says nothing."""
        agreed = self.agreed(question.copy, question.identity)
        return None if question.log_append_time and not agreed else agreed

    def last(self, copy: CopyId) -> OffsetRun | None:
        """Returns the newest run of a copy."""
        return self._runs.get_runs(copy).last

    @property
    def unfinished(self) -> bool:
        """Whether there was more to read of the target than this round had room for."""
        return self._scanning.unfinished

    @property
    def scans(self) -> Mapping[OffsetRun, RunScan]:
        """The scans: what headers have shown of each run so far."""
        return self._scanning.scans

    @property
    def remembered(self) -> int:
        """Copies whose runs were held against the logs."""
        return len(self._checked)

    def end_round(self, *, whole: bool = True) -> None:
        """Ends a round. `whole`: it did not break off."""
        self._scanning.end_round(whole=whole)
        self._checked = {
            copy: row for copy, row in self._checked.items() if self._runs.get_runs(copy).last is not None
        }

    def _by_runs(self, question: Question) -> tuple[Verdict | None, OffsetRun | None]:
        """Returns the verdict by runs alone, and the newest run; None where there is none."""
        runs, identity = self._runs.get_runs(question.copy), question.identity
        logs = identity.target_id, question.target, identity.source_id, question.source
        return runs.translate(question.offset, *logs, self.scans), runs.last

    def _scan_due(self, question: Question, best: Verdict) -> bool:
        held = self._runs.get_runs(question.copy).held(question.offset)
        return best.judgement is Judgement.BOUNDED and self._scanning.due(
            held, question.offset, question.target, ROUND_BYTES, question.source
        )

    def _scan(
        self, copy: CopyId, offset: int, target: LogBounds, source: LogBounds | None = None
    ) -> Steps[None]:
        run = self._runs.get_runs(copy).held(offset)
        if run is not None:
            yield from self._scanning.steps(run, offset, target, source)


def _of_both(by_runs: Verdict, other: Verdict) -> Verdict:
    """Returns the closer verdict; what is not on the target only records tell where no run covers the offset."""
    best = stronger(by_runs, other)
    absent = other.not_on_target if by_runs.not_on_target is None else by_runs.not_on_target
    return best if best.not_on_target == absent else replace(best, not_on_target=absent)


def _check(question: Question, last: OffsetRun, memory: PartitionMemory) -> Steps[bool]:
    """Compares the record that the newest run ends with on both sides; False where they differ. Where the target
    overwrites timestamps no copy can be recognised by its record."""
    if question.log_append_time:
        return True
    downstream = last.downstream_end - 1
    if last.transformed:
        same = yield from ends_at(downstream, last.last_timestamp, question.target, memory)
    else:
        same = yield from are_copies(
            last.upstream_end - 1, downstream, question.source, question.target, memory
        )
    return same is not False
