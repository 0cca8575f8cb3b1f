"""Identical twins on either side of the offset, told apart by rank."""

from __future__ import annotations

from bridge.translation import twins
from bridge.translation.memory import Anchor, PartitionMemory
from bridge.translation.model import RecordView
from bridge.translation.stretch import Steps, Stretch, same


def place_of(
    offset: int, found: Anchor | None, near: Stretch, here: Stretch, memory: PartitionMemory
) -> Steps[int | None]:
    """The place of the first record at or after `offset`, None where rank proves nothing: it does only between two
    verified neighbours with the very same records between them on both sides, and no gap between those on the target.
    Then nothing was lost there, so what stands there is what was copied the first time; anything copied twice or sent
    by others would make it longer.

    `found`: a record before the offset and its copy; `near`, `here`: source and target around them.
    """
    if found is None or not near.start <= found.upstream + 1 <= near.end:
        return None
    originals, copies = near.index(found.upstream + 1), here.index(found.downstream + 1)
    place: int | None = None
    expected = found.downstream + 1
    while True:
        if originals >= len(near.records) or copies >= len(here.records):
            short = near if originals >= len(near.records) else here
            if short.at_end:
                return None
            yield from short.forward()
            continue
        original, copy = near.records[originals], here.records[copies]
        if not same(original, copy) or copy.offset != expected:
            return None
        expected += 1
        if original.offset >= offset:
            place = copy.offset if place is None else place
            if (yield from _closes(original, copy, near, here, memory)):
                return place
            originals = near.index(original.offset)  # a search backward has put records before it
        originals += 1
        copies += 1


def _closes(
    original: RecordView, copy: RecordView, near: Stretch, here: Stretch, memory: PartitionMemory
) -> Steps[bool]:
    """Whether this pair occurs once on either side, so that the stretch ends there for sure."""
    before = yield from twins.earlier(near, original.offset, original, memory)
    if before is twins.Earlier.YES:
        return False
    after = yield from twins.first_at_or_after(near, original.offset + 1, original, memory)
    if after is not None:
        return False
    return (yield from twins.first_at_or_after(here, copy.offset + 1, copy, memory)) is None
