"""Identical twins on either side of the offset, told apart by rank."""

from __future__ import annotations

from bridge.model.values import RecordView
from bridge.translation.records import duplicates, originals
from bridge.translation.records.copies import Copies
from bridge.translation.records.log_window import LogSection, Steps, same
from bridge.translation.records.partition_cache import Anchor


def place_of(
    offset: int, found: Anchor | None, near: LogSection, here: LogSection, copies: Copies
) -> Steps[int | None]:
    """The place of the first record at or after `offset`, None where rank proves nothing: it does only between two
    verified neighbours with the very same records between them on both sides, and no gap between those on the target.
    Then nothing was lost there, so what stands there is what was copied the first time; anything copied twice or sent
    by others would make it longer.

    `found`: a record before the offset and its copy; `near`, `here`: source and target around them.
    """
    if found is None or not near.start <= found.upstream + 1 <= near.end:
        return None
    place: int | None = None
    upstream, downstream = found.upstream + 1, found.downstream + 1
    while True:
        original = yield from near.first_from(upstream)
        copy = yield from here.first_from(downstream)
        if original is None or copy is None or not same(original, copy) or copy.offset != downstream:
            return None
        if original.offset >= offset:
            place = copy.offset if place is None else place
            if (yield from _closes(original, copy, near, here, copies)):
                return place
        upstream, downstream = original.offset + 1, copy.offset + 1


def _closes(
    original: RecordView, copy: RecordView, near: LogSection, here: LogSection, copies: Copies
) -> Steps[bool]:
    """Whether the one is the copy of the other for certain, so that the stretch ends there."""
    after = yield from duplicates.first_at_or_after(near, original.offset + 1, original, copies.memory)
    if after is not None:
        return False
    return (yield from originals.at_or_after(original.offset, copy, near, here, copies)) is not None
