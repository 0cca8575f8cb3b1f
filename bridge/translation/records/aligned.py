"""The plain log, for the cost of one fetch on each side: both logs side by side at a known delta.

Where neither log was ever seen to have a gap, and the records around the offset equal those around its guessed place
one by one, the guess is the place, or lies below it: what the mirror has copied twice before moves all others up. That
shows, unless the records from the place on are alike to those before them, so that they can be second copies. A run of
eight different records that stands twice, sent again by its producer with the same timestamps, is assumed to be none.
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
"""Records below the place in which those from it on are looked for, near the end of a log; else AROUND."""


class Place(NamedTuple):
    """Of the first record at or after the offset; that does not stand lower, even where the place is not certain. It is
    the target's end when the mirror has not come further than the record before the offset."""

    offset: int
    here: LogSection
    again: int
    """Records before the offset that may come there once more, at most: 0 when it is certain that none do."""


def place_of(offset: int, near: LogSection, copies: Copies, memory: PartitionMemory) -> Steps[Place | None]:
    """None when this is no plain log. `near`: the source around the offset."""
    if not memory.gapless or not near.start <= offset <= near.end:
        return None
    known = (memory.low, memory.below(offset))
    # Between a record that the source still holds and the offset the mirror has lost none: nothing makes up for what it
    # copied twice.
    for delta in dict.fromkeys(each.delta for each in known if each and each.upstream >= near.bounds.start):
        place = offset + delta
        if not copies.target.start <= place <= copies.target.end:
            continue
        here = yield from copies.open_target(max(copies.target.start, place - AROUND))
        while here.end < place:
            yield from here.forward()
        if not memory.gapless:
            return None
        end = _equal_until(offset, delta, near, here)
        if end is None:
            continue
        farthest = _farthest_twin(here.records[: end - here.start], place - here.start)
        if not farthest:
            memory.reach(offset)
            if offset > near.bounds.start:
                memory.add(Anchor(offset - 1, place - 1))
        return Place(place, here, farthest and farthest + here.bounds.end - place)
    return None


def _equal_until(offset: int, delta: int, near: LogSection, here: LogSection) -> int | None:
    """The place up to which the records around the offset equal those around its place, None when they don't."""
    first = max(offset - AROUND, near.start, here.start - delta)
    end = min(offset + AROUND, near.end, here.end - delta)
    if first >= offset > near.bounds.start:
        return None  # the record before the offset is out of sight
    if end <= offset and offset + delta < here.bounds.end:
        return None  # the record at the offset is, though the target holds something in its place
    originals = near.records[first - near.start : end - near.start]
    copies = here.records[first + delta - here.start : end + delta - here.start]
    if not all(map(same, originals, copies)):
        return None
    different = len({(record.timestamp, record.key, record.value) for record in originals})
    return end + delta if different >= BLOCK else None


def _farthest_twin(records: Sequence[RecordView], at: int) -> int:
    """0 when those from `at` on (where there are none, the last one) can't all be second copies of records before them;
    else how far before it the farthest record stands that the first of them may be a second copy of."""
    first = min(at, len(records) - 1)
    low = max(0, first - (AROUND if len(records) - at == AROUND else _BACK))
    back = 1
    for number in range(first, len(records)):
        while number - back >= low and not same(records[number], records[number - back]):
            back += 1
        if number - back < low:
            return 0
    return max(back for back in range(1, first - low + 1) if same(records[first], records[first - back]))
