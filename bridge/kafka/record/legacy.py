"""Reads messages from before 0.11 (magic 0 and 1), one by itself or many in a compressed one.

The library's reader of these would not do: a length of -12 inside a compressed message keeps it busy for ever (aiokafka
0.14), and it has no limit to what it decompresses.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import NamedTuple

from bridge.kafka.record.decompression import NAMES, decoded
from bridge.model.batch_limits import limit

_FRONT = struct.Struct(">qiIbb")
"""Offset, length, checksum, magic and attributes."""
_INT32, _INT64 = struct.Struct(">i"), struct.Struct(">q")
_LOG_OVERHEAD = 12
_CODEC, _APPEND_TIME = 0x07, 0x08
_LZ4, _KNOWN = NAMES.index("lz4"), NAMES.index("zstd")


class LegacyMessage(NamedTuple):
    """A message of formats 0 and 1. `timestamp` in ms, -1 for none."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None

    @property
    def headers(self) -> list[object]:
        """There were none yet."""
        return []


def messages(data: memoryview, most: int) -> list[LegacyMessage]:
    """Reads what one message holds. Raises ValueError for what is none, Overlarge for more than `most` bytes, and what
    codecs do."""
    outer, attributes, magic, end = _message(data, 0)
    if end != len(data):
        raise ValueError("a message does not end where it says")
    codec = attributes & _CODEC
    if not codec:
        return [outer]
    if outer.value is None or codec >= _KNOWN or (codec == _LZ4 and not magic):
        raise ValueError(f"there is no compression codec {codec} in messages of format {magic}")
    inside = memoryview(decoded(codec, memoryview(outer.value), limit(len(outer.value), most)))
    messages_read, at = list[LegacyMessage](), 0
    while at < len(inside):
        message, inner, _, at = _message(inside, at)
        if inner & _CODEC:
            raise ValueError("a message is compressed twice")
        messages_read.append(
            message._replace(timestamp=outer.timestamp) if attributes & _APPEND_TIME else message
        )
    # From 0.10 on they are numbered from 0, and the one around them has the offset of the last.
    shift = outer.offset - messages_read[-1].offset if messages_read and magic else 0
    if shift > 0:
        messages_read = [each._replace(offset=each.offset + shift) for each in messages_read]
    offsets = [-1, *(each.offset for each in messages_read)]
    if any(one >= other for one, other in pairwise(offsets)) or (
        messages_read and offsets[-1] != outer.offset
    ):
        raise ValueError("its messages have other offsets than it says")
    return messages_read


def _message(data: memoryview, at: int) -> tuple[LegacyMessage, int, int, int]:
    """Reads a message, with its attributes, its magic, and where it ends."""
    if len(data) - at < _FRONT.size:
        raise ValueError("a message is cut short")
    offset, length, _, magic, attributes = _FRONT.unpack_from(data, at)
    end, begin = at + _LOG_OVERHEAD + length, at + _FRONT.size
    if magic not in (0, 1) or not begin <= end <= len(data):
        raise ValueError("a message does not end where it says")
    timestamp = -1
    if magic:
        (timestamp,), begin = _INT64.unpack_from(data[:end], begin), begin + _INT64.size
    key, begin = _bytes(data, begin, end)
    value, begin = _bytes(data, begin, end)
    if begin != end:
        raise ValueError("a message does not end where it says")
    return LegacyMessage(offset, timestamp, key, value), attributes, magic, end


def _bytes(data: memoryview, at: int, end: int) -> tuple[bytes | None, int]:
    """Reads a byte string, with where it ends."""
    (size,), begin = _INT32.unpack_from(data[:end], at), at + _INT32.size
    if not -1 <= size <= end - begin:
        raise ValueError("a message does not end where it says")
    return (None, begin) if size < 0 else (bytes(data[begin : begin + size]), begin + size)
