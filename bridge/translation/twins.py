"""Whether a record's content stands elsewhere in a log, and where.

A copy is recognised by its content, so a record that recurs proves nothing of which of the two a copy is of. The
search ends where timestamps have passed the record's by more than twice the largest disorder seen in that partition,
for a whole block of different records; that identical records are never farther apart is an assumption. A record with
a negative timestamp says nothing about where its like may be: the search goes to the end.
"""

from __future__ import annotations

from enum import Enum

from bridge.translation.memory import PartitionMemory
from bridge.translation.model import RecordView
from bridge.translation.stretch import Steps, Stretch, same

BLOCK = 8
"""Records in a row that settle a question which one or two, stamped 2030 say, must not."""


class _Passed:
    """Counts different records in a row that lie beyond the time of the one searched for."""

    def __init__(self, wanted: RecordView, memory: PartitionMemory, settled: int = BLOCK) -> None:
        self._wanted, self._memory, self._settled = wanted, memory, settled
        self._count = 0
        self._last: RecordView | None = None

    def settles(self, record: RecordView, gap: int) -> bool:
        """`gap`: ms by which the record lies beyond the wanted one in the direction of the search."""
        if gap <= 2 * self._memory.disorder:
            self._count = 0
        elif self._last is None or not same(record, self._last):
            self._count += 1
        self._last = record
        return self._count >= self._settled and self._wanted.timestamp >= 0


def first_at_or_after(
    stretch: Stretch, offset: int, wanted: RecordView, memory: PartitionMemory, settled: int = BLOCK
) -> Steps[RecordView | None]:
    """The first record at or after `offset` with the content of `wanted`; None when timestamps have passed it for
    `settled` records in a row."""
    passed = _Passed(wanted, memory, settled)
    index = stretch.index(offset)
    while True:
        while index < len(stretch.records):
            record = stretch.records[index]
            if same(record, wanted):
                return record
            if passed.settles(record, record.timestamp - wanted.timestamp):
                return None
            index += 1
        if stretch.at_end:
            return None
        yield from stretch.forward()


class Earlier(Enum):
    """Whether a record's content stands earlier in a log."""

    NO = "no"
    YES = "yes"
    EXPIRED = "expired"
    """Not in what is left, but the log's start came before timestamps had settled it."""


def earlier(stretch: Stretch, offset: int, wanted: RecordView, memory: PartitionMemory) -> Steps[Earlier]:
    """Whether the content of `wanted` stands before `offset`; NO when timestamps lie before it for good."""
    passed = _Passed(wanted, memory)
    edge = offset
    while True:
        index = stretch.index(edge) - 1
        while index >= 0:
            record = stretch.records[index]
            if same(record, wanted):
                return Earlier.YES
            if passed.settles(record, wanted.timestamp - record.timestamp):
                return Earlier.NO
            edge = record.offset
            index -= 1
        if stretch.at_start:
            return Earlier.EXPIRED if stretch.bounds.start else Earlier.NO
        yield from stretch.backward()
