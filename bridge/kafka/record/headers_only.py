"""Reads what the header of a batch tells of its records, where no more than the header may have come."""

from __future__ import annotations

import struct

from bridge.kafka.protocol.wire import BytesLike
from bridge.kafka.record.batch import HEADER_SIZE

_LENGTH, _MAGIC_AT = struct.Struct(">i"), 16
_LENGTH_AT, _LAST_DELTA_AT, _OVERHEAD = 8, 23, 12


def bytes_an_offset(data: BytesLike) -> float | None:
    """Bytes that an offset of the first batch takes, as it is stored; None for what is no whole header of a batch of
    format v2."""
    view = memoryview(data)
    if len(view) < HEADER_SIZE or view[_MAGIC_AT] != 2:
        return None
    (length,), (delta,) = _LENGTH.unpack_from(view, _LENGTH_AT), _LENGTH.unpack_from(view, _LAST_DELTA_AT)
    if length <= 0 or delta < 0:
        return None
    return float((length + _OVERHEAD) / (delta + 1))
