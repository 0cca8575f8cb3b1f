"""Searches a log for records identical to a given one.

A copy is recognised by its content, so a record that recurs proves nothing of which of the two a copy is of. The
search ends where timestamps have passed the record's by more than twice the largest disorder seen in that partition,
for a whole block of different records; that identical records are never farther apart is an assumption. A record with
a negative timestamp says nothing about where identical ones may be: the search goes to the end.
"""

from __future__ import annotations

from typing import NamedTuple

from bridge.model.values import RecordView
from bridge.translation.records.log_window import LogSection, Steps, same
from bridge.translation.records.partition_cache import PartitionMemory

BLOCK = 8
"""Records in a row that settle a question which one or two, stamped 2030 say, must not."""

PATIENCE = 4 * BLOCK
"""The same on the target, where others may have sent some of them at any time."""


class _Passed:
    """Counts different records in a row that lie beyond the time of `original`. Identical ones count once: where a
    mirror copied again, all between two records is there twice."""

    def __init__(self, original: RecordView, memory: PartitionMemory, settled: int = BLOCK) -> None:
        self._original, self._memory, self._settled = original, memory, settled
        self._different: set[tuple[int, bytes | None, bytes | None]] = set()

    def settles(self, record: RecordView, gap: int) -> bool:
        """Whether the record settles the search. `gap`: ms by which the record lies beyond `original` in the direction
        of the search."""
        if gap <= 2 * self._memory.disorder:
            self._different.clear()
            return False
        self._different.add((record.timestamp, record.key, record.value))
        return len(self._different) >= self._settled and self._original.timestamp >= 0


def first_at_or_after(
    section: LogSection, offset: int, original: RecordView, memory: PartitionMemory, settled: int = BLOCK
) -> Steps[RecordView | None]:
    """Finds the first record at or after `offset` with the content of `original`; None when timestamps have passed it
    for `settled` records in a row."""
    passed = _Passed(original, memory, settled)
    index = section.index(offset)
    while True:
        while index < len(section.records):
            record = section.records[index]
            if same(record, original):
                return record
            if passed.settles(record, record.timestamp - original.timestamp):
                return None
            index += 1
        if section.at_end:
            return None
        yield from section.forward()


class Before(NamedTuple):
    """The result of searching before an offset for records identical to a given one."""

    stands: bool
    """Whether there is one."""
    lost: int | None
    """The lowest offset where one may have stood that compaction or retention has taken; None when there is none."""


def before(
    section: LogSection, offset: int, original: RecordView, memory: PartitionMemory, began: int = 0
) -> Steps[Before]:
    """Searches for the content of `original` before `offset`; reads no further than to a record that has it, or to
    where timestamps lie before its own for good. `began`: nothing that counts was ever below."""
    passed = _Passed(original, memory)
    edge, lost = offset, None
    while True:
        index = section.index(edge) - 1
        while index >= 0:
            record = section.records[index]
            gap = section.lost(record.offset + 1, edge)
            lost = lost if gap is None else gap
            if same(record, original):
                return Before(True, lost)
            if passed.settles(record, original.timestamp - record.timestamp):
                return Before(False, lost)
            edge = record.offset
            index -= 1
        if section.at_start:
            gap = section.lost(began, edge)
            return Before(False, lost if gap is None else gap)
        yield from section.backward()
