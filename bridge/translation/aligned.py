"""The plain log, for the cost of one fetch on each side: both logs side by side at a known delta.

Where neither log was ever seen to have a gap, and the records around the offset equal those around its guessed place
one by one, the guess is the place. It is right unless the very same run of records stands elsewhere too, at the same
delta: sent twice by its producer with the same timestamps, or copied twice after exactly as many were lost, with both
out of sight. That is an assumption; no timestamps are compared in time, and twins don't matter.
"""

from __future__ import annotations

from bridge.translation.copies import Copies
from bridge.translation.memory import Anchor, PartitionMemory
from bridge.translation.stretch import Steps, Stretch, same
from bridge.translation.twins import BLOCK

AROUND = 2 * BLOCK
"""Records compared on either side of the offset, as far as the logs go; at least a BLOCK of different ones in all."""


def place_of(
    offset: int, near: Stretch, copies: Copies, memory: PartitionMemory
) -> Steps[tuple[int, Stretch] | None]:
    """The place of the first record at or after `offset`, and the target around it; None when this is no plain log.

    The place is the target's end when the mirror has not come further than the record before the offset.
    """
    if not memory.gapless or not near.start <= offset <= near.end:
        return None
    below = memory.below(offset)
    for delta in dict.fromkeys(anchor.delta for anchor in (memory.low, below) if anchor):
        place = offset + delta
        if not copies.target.start <= place <= copies.target.end:
            continue
        here = yield from copies.open_target(max(copies.target.start, place - AROUND))
        while here.end < place:
            yield from here.forward()
        if not memory.gapless:
            return None
        if _equal(offset, delta, near, here):
            if offset > near.bounds.start:
                memory.add(Anchor(offset - 1, place - 1))
            return place, here
    return None


def _equal(offset: int, delta: int, near: Stretch, here: Stretch) -> bool:
    first = max(offset - AROUND, near.start, here.start - delta)
    end = min(offset + AROUND, near.end, here.end - delta)
    if first >= offset > near.bounds.start:
        return False  # the record before the offset is out of sight
    if end <= offset and offset + delta < here.bounds.end:
        return False  # the record at the offset is, though the target holds something in its place
    originals = near.records[first - near.start : end - near.start]
    copies = here.records[first + delta - here.start : end + delta - here.start]
    if not all(map(same, originals, copies)):
        return False
    return len({(record.timestamp, record.key, record.value) for record in originals}) >= BLOCK
