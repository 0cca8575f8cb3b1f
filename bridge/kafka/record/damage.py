"""Finds out how far a batch reaches that nobody can read: one that bytes were lost of where it is stored. Pure.

    [ base, length ][ … checksum … last offset delta … records ] [ the next batch ]

The checksum covers neither the base offset nor the length, and what it covers may be what is damaged. So what follows a
damaged batch is known only by what stands there: the next batch, if that is whole, or the end of the log.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from bridge.kafka.protocol.wire import BytesLike
from bridge.kafka.record.batch import HEADER_SIZE, CorruptBatch, batch_at

_LENGTH, _LAST_DELTA = struct.Struct(">qi"), struct.Struct(">i")
_LAST_DELTA_AT = 23


class Damage(NamedTuple):
    """A damaged batch. `offset`: of its first record that is needed; `end`: of what follows, None for not known."""

    offset: int
    end: int | None
    why: str


def damage(data: BytesLike, offset: int, log_end: int) -> Damage:
    """Describes the damaged batch with which `data` begins, of a fetch at `offset`; `log_end`: where what may be read
    of the log ends."""
    view = memoryview(data)
    base, length = _LENGTH.unpack_from(view)
    following = _LENGTH.size + length
    if not HEADER_SIZE <= following <= len(view):
        said = f"the batch at offset {offset} says that it has {following} bytes, and {len(view)} have come"
        return Damage(offset, None, said)
    why = str(CorruptBatch(offset))
    try:
        after = batch_at(view, following, checked=True)
    except CorruptBatch:
        return Damage(offset, None, why)
    if after is not None:
        return Damage(offset, after.base_offset if after.base_offset > offset else None, why)
    (delta,) = _LAST_DELTA.unpack_from(view, _LAST_DELTA_AT)
    is_last = following == len(view) and base + delta + 1 == log_end
    return Damage(offset, log_end if is_last and log_end > offset else None, why)
