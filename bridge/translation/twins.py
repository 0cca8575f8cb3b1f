"""Whether a record's content stands elsewhere in the source, and where a content stands in a log.

A copy is recognised by its content, so a record that recurs proves nothing of which of the two a copy is of. The
search ends where timestamps have passed the record's by more than the largest disorder seen in that partition for a
whole block of records; that identical records are never farther apart is the one assumption of design 5.2. A record
without a timestamp (-1) or with a negative one says nothing about where its like may be: the search goes to the end.
"""

from __future__ import annotations

from collections.abc import Generator

from bridge.translation.lookups import Need, Window
from bridge.translation.memory import BLOCK, PartitionMemory
from bridge.translation.model import RecordView
from bridge.translation.stretch import Stretch, same

Steps = Generator[Need, "Window | int | None", "RecordView | None"]


def first_at_or_after(
    stretch: Stretch, offset: int, wanted: RecordView, memory: PartitionMemory
) -> Generator[Need, Window | int | None, RecordView | None]:
    """The first record at or after `offset` with the content of `wanted`; None when timestamps have passed it."""
    passed, limit = 0, wanted.timestamp + memory.disorder
    index = stretch.index(offset)
    while True:
        while index < len(stretch.records):
            record = stretch.records[index]
            if same(record, wanted):
                return record
            passed = passed + 1 if record.timestamp > limit else 0
            if passed >= BLOCK and wanted.timestamp >= 0:
                return None
            index += 1
        if stretch.at_end:
            return None
        yield from stretch.forward()


def last_before(
    stretch: Stretch, offset: int, wanted: RecordView, memory: PartitionMemory
) -> Generator[Need, Window | int | None, RecordView | None]:
    """The last record before `offset` with the content of `wanted`; None when timestamps lie before it for good."""
    passed, limit = 0, wanted.timestamp - memory.disorder
    edge = offset
    while True:
        index = stretch.index(edge) - 1
        while index >= 0:
            record = stretch.records[index]
            if same(record, wanted):
                return record
            passed = passed + 1 if record.timestamp < limit else 0
            if passed >= BLOCK and wanted.timestamp >= 0:
                return None
            edge = record.offset
            index -= 1
        if stretch.at_start:
            return None
        yield from stretch.backward()
