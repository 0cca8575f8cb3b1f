"""Finds the record of the source that a copy was made of.

A copy has the content of its original, and perhaps that of other records too. Those that the source still holds can be
looked at. Those that compaction or retention has taken can't: a missing offset may have held the very same record, and
the copy be of that one. Two things settle it:

- nothing is missing where a record alike can have stood, back to where timestamps lie before it for good; or
- the mirror has come past the record that is left. Then it has copied both, the lost one first, and cleaners and
  retention take the older of two copies first: the only copy that is left is of the record that is left.
"""

from __future__ import annotations

from bridge.model.values import RecordView
from bridge.translation.records import duplicates, neighbours
from bridge.translation.records.copies import Copies
from bridge.translation.records.log_window import LogSection, Steps

_APART = 4 * duplicates.PATIENCE
"""So many records more, between a lost one and the one that is left, a second copy is looked for in; further would cost
too much."""


def at_or_after(
    offset: int, copy: RecordView, source_log: LogSection, target_log: LogSection, copies: Copies
) -> Steps[RecordView | None]:
    """Finds the first record at or after `offset` with the content of `copy`, where it is certain that `copy` is of one
    at or after `offset`; else None. `source_log`, `target_log`: source and target around them.

    For certain only where no copy of the same content follows: of two the first may be of a lost record.
    """
    memory = copies.memory
    original = yield from duplicates.first_at_or_after(source_log, offset, copy, memory)
    if original is None:
        return None
    before = yield from duplicates.before(source_log, offset, copy, memory)
    if before.stands:
        return None
    if before.lost is None and (yield from neighbours.beside(original, copy.offset, source_log, target_log)):
        memory.reach(offset + 1)
        return original
    # Between two copies stand at most as many different ones as between their originals, and what others sent.
    apart = 0 if before.lost is None else min(original.offset - before.lost, _APART)
    settled = duplicates.PATIENCE + apart
    if (
        yield from duplicates.first_at_or_after(target_log, copy.offset + 1, copy, memory, settled)
    ) is not None:
        return None
    if memory.reached <= original.offset:
        yield from copies.see_tail()
    if memory.reached <= original.offset:
        return None
    if before.lost is None:
        return original
    # A lost one may have stood so far before that no copy of it was looked for. Its followers are lost with it, or
    # stand before the one that is left.
    downstream = copy.offset
    for _ in range(neighbours.COUNT):
        following = yield from target_log.first_from(downstream + 1)
        if following is None:
            return None
        if (
            yield from duplicates.first_at_or_after(source_log, original.offset + 1, following, memory)
        ) is not None:
            return original
        downstream = following.offset
    return None
