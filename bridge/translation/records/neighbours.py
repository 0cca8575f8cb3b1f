"""What stands next to a copy shows where it belongs, where its own content does not: its like may be far away."""

from __future__ import annotations

from bridge.model.values import RecordView
from bridge.translation.records import duplicates
from bridge.translation.records.log_window import LogSection, Steps, same
from bridge.translation.records.partition_cache import PartitionMemory

COUNT = 3
"""Records next to a copy that are looked at."""


def beside(record: RecordView, place: int, home: LogSection, here: LogSection) -> Steps[bool]:
    """Whether near `place` of the target, where a copy of `record` or of one alike stands, there is what is near
    `record`: then it is no copy of an earlier one that was not seen, being far away. `home`, `here`: source and target
    around them."""
    edge = record.offset
    near: list[RecordView] = []
    while len(near) < duplicates.BLOCK and (earlier := (yield from home.last_before(edge))) is not None:
        near.append(earlier)
        edge = earlier.offset
    if not near:
        return True
    edge = place
    for _ in range(COUNT):
        earlier = yield from here.last_before(edge)
        if earlier is None:
            break
        if any(same(earlier, each) for each in near):
            return True
        edge = earlier.offset
    after = yield from home.first_from(record.offset + 1)
    following = yield from here.first_from(place + 1)
    if after is None or following is None:
        return False
    return same(following, after) and not same(after, record)


def none_alike(
    offset: int, record: RecordView, place: int, near: LogSection, here: LogSection, memory: PartitionMemory
) -> Steps[bool]:
    """Whether the source, from `offset` to a little beyond the originals of what follows `place` on the target, holds
    none like `record`, which stands before `offset`: so what stands at `place` is a copy of one before it, too."""
    originals = []
    for _ in range(COUNT):
        following = yield from here.first_from(place + 1)
        if following is None:
            break
        original = yield from duplicates.first_at_or_after(near, offset, following, memory)
        if original is not None:
            originals.append(original.offset)
        place = following.offset
    if not originals:
        return False
    # Beyond: what follows may recur, and its first original be that of another copy.
    while len(near.records) < near.index(max(originals)) + duplicates.BLOCK and not near.at_end:
        yield from near.forward()
    return not any(same(each, record) for each in near.records[near.index(offset) :])
