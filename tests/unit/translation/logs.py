"""Both logs of a mirrored partition as their brokers hold them, and a driver that answers what translation asks.

Every target record knows the source offset that it is a copy of (None: a foreign writer's). Logs answer reads like a
broker: whole batches, from the one that holds the offset asked for, at least one and about `max_bytes` of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator
from itertools import groupby
from typing import NamedTuple

from bridge.model.lookups import FindTime, Need, Read, Window
from bridge.model.values import Side, Verdict
from bridge.translation.records.log_window import LogBounds

RECORD_BYTES = 100
EPOCH = 7
"""Leader epoch of every batch."""
ACTIVE = 12
"""Records at the end of a log that its cleaner leaves alone: the active segment, where a history says nothing else."""


class Row(NamedTuple):
    """A record in a log; `origin` on the target: the source offset it is a copy of."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    origin: int | None = None
    control: bool = False
    aborted: bool = False
    batch: int = 0


class Log:
    """One side's log as its broker holds it now. Views of it are kept until it changes."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.start = self.end = self.batches = 0
        self.active = ACTIVE
        self.cleaned = 0
        """The cleaner and retention have been at work below."""
        self.open_from: int | None = None
        """Where the first open transaction begins: the last stable offset."""
        self._data: dict[bool, list[Row]] = {}
        self._batches: list[list[Row]] | None = None

    def append(self, rows: list[Row]) -> None:
        self.batches += 1
        for row in rows:
            self.rows.append(row._replace(offset=self.end, batch=self.batches))
            self.end += 1
        self.changed()

    def retain_from(self, start: int) -> None:
        self.start = max(self.start, min(start, self.end))
        self.cleaned = max(self.cleaned, self.start)
        self.rows = [row for row in self.rows if row.offset >= self.start]
        self.changed()

    def compact(self, clean_end: int, *, markers: bool = False) -> None:
        """Drops every keyed record below `clean_end` that has a later one with its key below it, what was aborted, and,
        where deletion's delay has passed, `markers`."""
        clean_end = min(clean_end, self.end - self.active)
        self.cleaned = max(self.cleaned, clean_end)
        below = [row for row in self.rows if row.offset < clean_end]
        newest = {row.key: row.offset for row in below if not row.control and not row.aborted}

        def stays(row: Row) -> bool:
            if row.control:
                return not markers
            return not row.aborted and (row.key is None or newest[row.key] == row.offset)

        kept = [row for row in below if stays(row)]
        self.rows = kept + self.rows[len(below) :]
        self.changed()

    def changed(self) -> None:
        self._data, self._batches = {}, None

    def data(self, committed_only: bool) -> list[Row]:
        if committed_only not in self._data:
            self._data[committed_only] = [
                row for row in self.rows if not row.control and not (committed_only and row.aborted)
            ]
        return self._data[committed_only]

    def batched(self) -> list[list[Row]]:
        """The rows batch by batch; a batch that compaction has emptied is gone."""
        if self._batches is None:
            self._batches = [list(rows) for _, rows in groupby(self.rows, key=lambda row: row.batch)]
        return self._batches

    def bounds(self) -> LogBounds:
        return LogBounds(self.start, self.end if self.open_from is None else self.open_from)


class Partition:
    """One partition on both sides. `reads` and `times` count what was asked of its brokers."""

    def __init__(self, *, committed_only: bool = False) -> None:
        self.source, self.target = Log(), Log()
        self.committed_only = committed_only
        """The mirror copies committed data only, and translation was told so."""
        self.reads = self.times = 0

    def translate(self, steps: Generator[Need, Window | int | None, Verdict]) -> Verdict:
        try:
            need = next(steps)
            while True:
                need = steps.send(self.answer(need))
        except StopIteration as stop:
            verdict = stop.value
            assert isinstance(verdict, Verdict)
            return verdict

    def answer(self, need: Need) -> Window | int | None:
        log = self.source if need.side is Side.SOURCE else self.target
        committed_only = self.committed_only if need.side is Side.SOURCE else True
        if isinstance(need, FindTime):
            # -1 and -2 mean latest and earliest there.
            assert need.timestamp >= 0
            self.times += 1
            end = log.bounds().end
            result = (row.offset for row in log.data(committed_only) if row.timestamp >= need.timestamp)
            return next((offset for offset in result if offset < end), None)
        assert isinstance(need, Read)
        return self._read(log, need, committed_only)

    def _read(self, log: Log, need: Read, committed_only: bool) -> Window:
        end = log.bounds().end
        assert log.start <= need.offset <= end, f"out of range: {need} in [{log.start}, {end}]"
        self.reads += 1
        batches = log.batched()
        rows: list[Row] = []
        for batch in batches[bisect_left(batches, need.offset, key=lambda batch: batch[-1].offset) :]:
            full = (len(rows) + len(batch)) * RECORD_BYTES > need.max_bytes
            if batch[0].offset >= end or (rows and full):
                break
            rows += batch
        empty = [row.control or (committed_only and row.aborted) for row in rows]
        data = [row for row, none in zip(rows, empty, strict=True) if not none]
        without = [(row.offset, row.offset + 1) for row, none in zip(rows, empty, strict=True) if none]
        if not rows:
            return Window(need.offset, end, data)
        # What follows the last batch returned is known only up to its last offset, as with a broker.
        return Window(min(need.offset, rows[0].offset), rows[-1].offset + 1, data, EPOCH, without)
