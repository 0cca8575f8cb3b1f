"""Known stretches of a log, and the reads that make them longer (sans-I/O: generators that yield needs).

A stretch is contiguous: every data record in [start, end) is in `records`. That is what lets translation conclude
from absence ("nothing between these two", "does not recur"), which a single fetched record never could.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter

from bridge.translation.lookups import FindTime, Need, Read, Window
from bridge.translation.model import RecordView, Side

_offset = attrgetter("offset")


class CapReached(Exception):
    """The byte budget of one translation is spent: go on with what is known."""


@dataclass(frozen=True, slots=True)
class LogBounds:
    """`end` is what may be read: the high watermark, or the last stable offset where only committed data counts."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Caps:
    """`read_bytes`: what one read asks for. `search_bytes`: what one translation may read in all, both sides."""

    read_bytes: int = 32 * 1024
    search_bytes: int = 8 * 1024 * 1024


class Budget:
    """Bytes that one translation may still ask for."""

    def __init__(self, caps: Caps) -> None:
        self.read_bytes = caps.read_bytes
        self.left = caps.search_bytes

    def take(self) -> int:
        if self.left < 1:
            raise CapReached
        self.left -= self.read_bytes
        return self.read_bytes

    @contextmanager
    def part(self) -> Iterator[None]:
        """A side search: it may spend an eighth of what is left, and ends quietly when that is gone. Without it one
        record stamped 2030 (every timestamp search then starts there) would eat the budget of the whole translation."""
        kept = self.left - self.left // 8
        self.left -= kept
        try:
            yield
        except CapReached:
            pass
        finally:
            self.left += kept


def same(one: RecordView, other: RecordView) -> bool:
    """Whether two records can be original and copy: timestamp, key, value and headers, to the byte."""
    return (
        one.timestamp == other.timestamp
        and one.value == other.value
        and one.key == other.key
        and one.headers == other.headers
    )


class Stretch:
    """A contiguous known part of one side's log; grows in both directions."""

    def __init__(self, side: Side, bounds: LogBounds, budget: Budget, window: Window) -> None:
        self.side, self.bounds, self._budget = side, bounds, budget
        self.start, self.end = window.start, window.end
        self.records: list[RecordView] = list(window.records)
        self.epoch = window.epoch

    @property
    def at_start(self) -> bool:
        return self.start <= self.bounds.start

    @property
    def at_end(self) -> bool:
        return self.end >= self.bounds.end

    def index(self, offset: int) -> int:
        """Index of the first record at or after `offset`."""
        return bisect_left(self.records, offset, key=_offset)

    def at(self, offset: int) -> RecordView | None:
        index = self.index(offset)
        if index < len(self.records) and self.records[index].offset == offset:
            return self.records[index]
        return None

    def covers(self, offset: int) -> bool:
        return self.start <= offset < self.end

    def forward(self) -> Generator[Need, Window | int | None, None]:
        """Reads on from the end; nothing to do at the end of the log."""
        if self.at_end:
            return
        window = yield from read(self.side, self.end, self._budget)
        self.records += [record for record in window.records if record.offset >= self.end]
        # A broker that answers with nothing below the bound has nothing there: control records or a compacted tail.
        self.end = max(window.end, self.end + 1)

    def backward(self) -> Generator[Need, Window | int | None, None]:
        """Reads what lies before the start: one batch, or more where compaction has left nothing."""
        step = 1
        while not self.at_start:
            at = max(self.bounds.start, self.start - step)
            window = yield from read(self.side, at, self._budget)
            records, end = [r for r in window.records if r.offset < self.start], window.end
            while end < self.start:
                more = yield from read(self.side, end, self._budget)
                records += [r for r in more.records if end <= r.offset < self.start]
                end = max(more.end, end + 1)
            self.records[:0] = records
            self.start = max(self.bounds.start, min(window.start, at))
            if records:
                return
            step *= 4

    def first_from(self, offset: int) -> Generator[Need, Window | int | None, RecordView | None]:
        """The first data record at or after `offset` (which the stretch covers or ends at), None at the log's end."""
        while True:
            index = self.index(offset)
            if index < len(self.records):
                return self.records[index]
            if self.at_end:
                return None
            yield from self.forward()

    def last_before(self, offset: int) -> Generator[Need, Window | int | None, RecordView | None]:
        """The last data record before `offset`, None when the log has none."""
        while True:
            index = self.index(offset)
            if index:
                return self.records[index - 1]
            if self.at_start:
                return None
            yield from self.backward()


def read(side: Side, offset: int, budget: Budget) -> Generator[Need, Window | int | None, Window]:
    window = yield Read(side, offset, budget.take())
    if not isinstance(window, Window):
        raise TypeError(f"a Read is answered by a Window, not by {window!r}")
    return window


def find_time(side: Side, timestamp: int) -> Generator[Need, Window | int | None, int | None]:
    """ListOffsets by timestamp. A negative one is never sent: -1 means latest there, -2 earliest (design 5.2)."""
    if timestamp < 0:
        return None
    found = yield FindTime(side, timestamp)
    if isinstance(found, Window):
        raise TypeError("a FindTime is answered by an offset or None, not by a Window")
    return found


def open_at(
    side: Side, offset: int, bounds: LogBounds, budget: Budget
) -> Generator[Need, Window | int | None, Stretch]:
    window = yield from read(side, offset, budget)
    return Stretch(side, bounds, budget, window)
