"""Scans batch headers for offsets without a copy inside merged runs, within what a round may read
(docs/offset-runs.md): those of the target, and of the source, while it answers, where a run does not list what was
skipped.

A run is read from its start to its end, for all groups that are in it; then the answers are kept, for as long as groups
are committed there. What a round has no room for comes first in the next one, and the largest run takes half of a round
at most: so each is done after as many rounds as all of them take, whatever else is scanned.
"""

from __future__ import annotations

from collections.abc import Mapping

from bridge.model.lookups import Scan, Scanned
from bridge.model.values import Side
from bridge.translation.records.log_window import LogBounds, Steps
from bridge.translation.runs.markers import RunScan
from bridge.translation.runs.runs import OffsetRun

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
        self._scans = {run: each for run, each in self._scans.items() if each.end_round(whole=whole)}
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
