"""Tells identical records on either side of the offset apart by their rank."""

from __future__ import annotations

from bridge.model.values import RecordView
from bridge.translation.records import duplicates, originals
from bridge.translation.records.copies import Copies
from bridge.translation.records.log_window import LogSection, Steps, same
from bridge.translation.records.partition_cache import Anchor


def copy_of_first(
    offset: int,
    predecessor: Anchor | None,
    source_log: LogSection,
    target_log: LogSection,
    copies: Copies,
) -> Steps[int | None]:
    """Finds the copy of the first record at or after `offset`, None where rank proves nothing: it does only between two
    verified neighbours with the very same records between them on both sides, and no gap between those on the target.
    Then nothing was lost there, so what stands there is what was copied the first time; anything copied twice or sent
    by others would make it longer.

    `predecessor`: a record before the offset and its copy; `source_log`, `target_log`: source and target around them.
    """
    if predecessor is None or not source_log.start <= predecessor.upstream + 1 <= source_log.end:
        return None
    first_copy: int | None = None
    upstream, downstream = predecessor.upstream + 1, predecessor.downstream + 1
    while True:
        original = yield from source_log.first_from(upstream)
        copy = yield from target_log.first_from(downstream)
        if original is None or copy is None or not same(original, copy) or copy.offset != downstream:
            return None
        if original.offset >= offset:
            first_copy = copy.offset if first_copy is None else first_copy
            if (yield from _closes(original, copy, source_log, target_log, copies)):
                return first_copy
        upstream, downstream = original.offset + 1, copy.offset + 1


def _closes(
    original: RecordView,
    copy: RecordView,
    source_log: LogSection,
    target_log: LogSection,
    copies: Copies,
) -> Steps[bool]:
    """Whether the one is the copy of the other for certain, so that the comparison ends there."""
    after = yield from duplicates.first_at_or_after(source_log, original.offset + 1, original, copies.memory)
    if after is not None:
        return False
    return (
        yield from originals.at_or_after(original.offset, copy, source_log, target_log, copies)
    ) is not None
