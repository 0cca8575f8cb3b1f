"""Reads sections of a log and extends them (sans-I/O: generators that yield needs).

A section is contiguous: every data record in [start, end) is in `records`. That is what lets translation conclude
from absence ("nothing between these two", "does not recur"), which a single fetched record never could.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import TypeVar

from bridge.model.lookups import FindTime, LookupResult, Need, Read, Scanned, Window
from bridge.model.values import RecordView, Side
from bridge.translation.records.partition_cache import PartitionMemory

_offset = attrgetter("offset")

T = TypeVar("T")
Steps = Generator[Need, LookupResult, T]
"""Steps of a translation: yields needs, is sent their answers, returns a T."""


class CapReached(Exception):
    """Raised when the byte budget of one translation is spent: go on with what is known."""


@dataclass(frozen=True, slots=True)
class LogBounds:
    """The start and end offsets of a log. `end` is what may be read: the high watermark, or the last stable offset
    where only committed data counts."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Caps:
    """Limits of what is read. `read_bytes`: what one read asks for; a batch of the producers' default size fits in.
    `search_bytes`: what one translation may read in all, both sides."""

    read_bytes: int = 20 * 1024
    search_bytes: int = 8 * 1024 * 1024


class Budget:
    """Bytes that one translation may still ask for."""

    def __init__(self, caps: Caps) -> None:
        self.read_bytes = caps.read_bytes
        self.left = caps.search_bytes

    def spend(self) -> int:
        if self.left < 1:
            raise CapReached
        self.left -= self.read_bytes
        return self.read_bytes

    @contextmanager
    def part(self) -> Iterator[None]:
        """Limits a side search: it may spend an eighth of what is left, and ends quietly when that is gone. Without it
        one record stamped 2030 (every timestamp search then starts there) would eat the budget of the whole
        translation."""
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


class LogReader:
    """Reads one side's log for one translation, within its budget."""

    def __init__(self, side: Side, bounds: LogBounds, budget: Budget, memory: PartitionMemory) -> None:
        self.side, self.bounds = side, bounds
        self._budget, self._memory = budget, memory
        self.learns = False
        """Whether the disorder of timestamps is learned from what is read; a plain log does not need it."""

    def read(self, offset: int) -> Steps[Window]:
        """Reads records from `offset` on, cut to the log's bounds. Raises CapReached when the budget is spent."""
        window = yield Read(self.side, offset, self._budget.spend())
        if not isinstance(window, Window):
            raise TypeError(f"a Read is answered by a Window, not by {window!r}")
        start, end = max(window.start, self.bounds.start), min(window.end, self.bounds.end)
        if (start, end) != (window.start, window.end):
            records = [record for record in window.records if start <= record.offset < end]
            window = Window(start, end, records, window.epoch, window.without_data, window.append_time)
        if len(window.records) != end - start:
            self._memory.gapless = False
        if self.side is Side.TARGET:
            self._memory.append_time = window.append_time
        if self.learns:
            self._memory.observe(window.records)
        return window

    def first_at_time(self, timestamp: int) -> Steps[int | None]:
        """Looks up an offset by timestamp (ListOffsets): nothing of that time stands below the answer. A negative
        timestamp is never sent (-1 means latest there, -2 earliest); about those nothing is known but the log's
        start."""
        if timestamp < 0:
            return self.bounds.start
        answer = yield FindTime(self.side, timestamp)
        if isinstance(answer, Window | Scanned):
            raise TypeError(f"a FindTime is answered by an offset or None, not by {answer!r}")
        return None if answer is None or answer >= self.bounds.end else max(answer, self.bounds.start)

    def open(self, offset: int) -> Steps[LogSection]:
        """Returns a section that covers `offset`, or ends at it where that is the log's end. An empty log is not
        read."""
        if self.bounds.start >= self.bounds.end:
            return LogSection(self, Window(self.bounds.end, self.bounds.end, ()))
        return LogSection(self, (yield from self.read(min(offset, self.bounds.end - 1))))


def first_record(side: Side, bounds: LogBounds) -> Steps[RecordView | None]:
    """Finds the first data record of a stretch of a log. Raises CapReached when none is found within the budget."""
    reader = LogReader(side, bounds, Budget(Caps()), PartitionMemory())
    section = yield from reader.open(bounds.start)
    return (yield from section.first_from(bounds.start))


def holds_nothing(side: Side, bounds: LogBounds) -> Steps[bool]:
    """Finds out whether a stretch of a log has no data record: markers of transactions alone, say."""
    try:
        return (yield from first_record(side, bounds)) is None
    except CapReached:
        return False


class LogSection:
    """A contiguous part of a log, in memory; grows in both directions."""

    def __init__(self, log: LogReader, window: Window) -> None:
        self.log, self.bounds = log, log.bounds
        self.start, self.end = window.start, window.end
        self._step = max(1, window.end - window.start)
        self.records: list[RecordView] = list(window.records)
        self._without_data = list(window.without_data)
        self.epoch, self.append_time = window.epoch, window.append_time

    @property
    def at_start(self) -> bool:
        return self.start <= self.bounds.start

    @property
    def at_end(self) -> bool:
        return self.end >= self.bounds.end

    def index(self, offset: int) -> int:
        """Returns the index of the first record at or after `offset`."""
        return bisect_left(self.records, offset, key=_offset)

    def at(self, offset: int) -> RecordView | None:
        index = self.index(offset)
        if index < len(self.records) and self.records[index].offset == offset:
            return self.records[index]
        return None

    def lost(self, start: int, end: int) -> int | None:
        """Finds the first offset in [start, end), which this section covers and where no record is, that may have held
        one: it is not a control record's, nor that of aborted data."""
        position, spans = start, self._without_data
        number = max(0, bisect_left(spans, (start,)) - 1)
        while position < end and number < len(spans) and spans[number][0] <= position:
            position = max(position, spans[number][1])
            number += 1
        return position if position < end else None

    def covers(self, offset: int) -> bool:
        return self.start <= offset < self.end

    def forward(self) -> Steps[None]:
        """Reads on from the end; nothing to do at the end of the log."""
        if self.at_end:
            return
        window = yield from self.log.read(self.end)
        self.records += [record for record in window.records if record.offset >= self.end]
        self._without_data += [span for span in window.without_data if span[1] > self.end]
        self._merge_epoch(window)
        # A broker that answers with nothing below the bound has nothing there: control records or a compacted tail.
        self.end = max(window.end, self.end + 1)

    def _merge_epoch(self, window: Window) -> None:
        """Forgets the leader epoch where there are several: a commit carries the epoch of the target's batch, or
        none."""
        if window.epoch != self.epoch:
            self.epoch = -1

    def backward(self) -> Steps[None]:
        """Reads what lies before the start: about as much as one read brings, more where nothing is left of it."""
        step = self._step
        while not self.at_start:
            position = max(self.bounds.start, self.start - step)
            window = yield from self.log.read(position)
            records, end = [r for r in window.records if r.offset < self.start], window.end
            without_data = list(window.without_data)
            while end < self.start:
                more = yield from self.log.read(end)
                records += [r for r in more.records if end <= r.offset < self.start]
                without_data += [span for span in more.without_data if span[1] > end]
                end = max(more.end, end + 1)
            self.records[:0] = records
            self._without_data[:0] = [span for span in without_data if span[0] < self.start]
            self._merge_epoch(window)
            self.start = max(self.bounds.start, min(window.start, position))
            if records:
                return
            step *= 4

    def first_from(self, offset: int) -> Steps[RecordView | None]:
        """Finds the first data record at or after `offset` (which the section covers or ends at), None at the log's
        end."""
        while True:
            index = self.index(offset)
            if index < len(self.records):
                return self.records[index]
            if self.at_end:
                return None
            yield from self.forward()

    def last_before(self, offset: int) -> Steps[RecordView | None]:
        """Finds the last data record before `offset`, None when the log has none."""
        while True:
            index = self.index(offset)
            if index:
                return self.records[index - 1]
            if self.at_start:
                return None
            yield from self.backward()
