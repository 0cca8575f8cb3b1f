"""Translates an offset of a plain log for the cost of one fetch on each side: compares both logs at a known delta.

Where neither log was ever seen to have a gap, and the records around the offset equal those around the guessed target
offset one by one, the guess is right, or too low: what the mirror has copied twice before moves all others up. That
shows, unless the records from the guess on are identical to those before them, so that they can be second copies. Eight
different records in a row that stand twice, sent again by their producer with the same timestamps, are assumed not to
occur.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bridge.model.values import RecordView
from bridge.translation.records.copies import Copies
from bridge.translation.records.duplicates import BLOCK
from bridge.translation.records.log_window import LogSection, Steps, same
from bridge.translation.records.partition_cache import Anchor, PartitionMemory

AROUND = 2 * BLOCK
"""Records compared on either side of the offset, as far as the logs go; at least a BLOCK of different ones in all."""

_BACK = 4 * AROUND
"""Records below the guess in which those from it on are searched for, near the end of a log; else AROUND."""


class AlignedOffset(NamedTuple):
    """The offset on the target of the first record at or after the source offset, or the lowest offset where it can;
    the target's end when the mirror has not come further than the record before the offset."""

    offset: int
    target_log: LogSection
    repeats: int
    """Records before the offset that may stand there a second time, at most: 0 when it is certain that none do."""


def aligned_offset(
    offset: int, source_log: LogSection, copies: Copies, memory: PartitionMemory
) -> Steps[AlignedOffset | None]:
    """Compares both logs around the offset; None when they are no plain logs. `source_log`: the source around the
    offset."""
    if not memory.gapless or not source_log.start <= offset <= source_log.end:
        return None
    anchors = (memory.low, memory.below(offset))
    # Between a record that the source still holds and the offset the mirror has lost none: nothing makes up for what it
    # copied twice.
    for delta in dict.fromkeys(
        each.delta for each in anchors if each and each.upstream >= source_log.bounds.start
    ):
        downstream = offset + delta
        if not copies.target.start <= downstream <= copies.target.end:
            continue
        target_log = yield from copies.open_target(max(copies.target.start, downstream - AROUND))
        while target_log.end < downstream:
            yield from target_log.forward()
        if not memory.gapless:
            return None
        end = _equal_until(offset, delta, source_log, target_log)
        if end is None:
            continue
        farthest = _farthest_twin(target_log.records[: end - target_log.start], downstream - target_log.start)
        if not farthest:
            memory.reach(offset)
            if offset > source_log.bounds.start:
                memory.add(Anchor(offset - 1, downstream - 1))
        return AlignedOffset(
            downstream, target_log, farthest and farthest + target_log.bounds.end - downstream
        )
    return None


def _equal_until(offset: int, delta: int, source_log: LogSection, target_log: LogSection) -> int | None:
    """Returns the target offset up to which the records around the offset equal their copies, None when they don't."""
    first = max(offset - AROUND, source_log.start, target_log.start - delta)
    end = min(offset + AROUND, source_log.end, target_log.end - delta)
    if first >= offset > source_log.bounds.start:
        return None  # the record before the offset is out of sight
    if end <= offset and offset + delta < target_log.bounds.end:
        return None  # the record at the offset is, though the target holds something in its place
    originals = source_log.records[first - source_log.start : end - source_log.start]
    copies = target_log.records[first + delta - target_log.start : end + delta - target_log.start]
    if not all(map(same, originals, copies)):
        return None
    different = len({(record.timestamp, record.key, record.value) for record in originals})
    return end + delta if different >= BLOCK else None


def _farthest_twin(records: Sequence[RecordView], at: int) -> int:
    """Returns 0 when the records from `at` on (where there are none, the last one) can't all be second copies of
    records before them; else how far back the farthest record stands that the first of them may be a second copy of."""
    first = min(at, len(records) - 1)
    low = max(0, first - (AROUND if len(records) - at == AROUND else _BACK))
    back = 1
    for number in range(first, len(records)):
        while number - back >= low and not same(records[number], records[number - back]):
            back += 1
        if number - back < low:
            return 0
    return max(back for back in range(1, first - low + 1) if same(records[first], records[first - back]))
