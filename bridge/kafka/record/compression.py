"""Compresses the records of a batch, by the codec's number in its attributes.

For what is encoded, which is large, the libraries of the client library are as fast as others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Self

from aiokafka import codec as codecs

from bridge.kafka.record.decompression import NAMES

_FAST, _LZ4_LEAST, _LZ4_MOST = 1, 3, 12
"""Levels of lz4: the fast way, which Java means by its default, and the others as far as the library has them."""
_JAVA_LZ4_DEFAULT = 9


def _encode_lz4(data: bytes, level: int | None) -> bytes:
    if level in (None, _JAVA_LZ4_DEFAULT):
        return codecs.lz4_encode(data, _FAST)
    return codecs.lz4_encode(data, min(max(level, _LZ4_LEAST), _LZ4_MOST))


_ENCODE: tuple[Callable[[bytes, int | None], bytes], ...] = (
    lambda data, level: data,
    lambda data, level: codecs.gzip_encode(data, 6 if level in (None, -1) else level),
    lambda data, level: codecs.snappy_encode(data),
    _encode_lz4,
    lambda data, level: codecs.zstd_encode(data, 3 if level is None else level),
)


def stored_codec(compression_type: str | None) -> int | None:
    """Returns the codec's number that a topic's compression.type stores batches in; None where it keeps theirs."""
    name = "none" if compression_type == "uncompressed" else compression_type
    return NAMES.index(name) if name in NAMES else None


class Compression(NamedTuple):
    """A codec by its number. `level`: as Java producers are given it; None: their default."""

    codec: int
    level: int | None = None

    @classmethod
    def named(cls, name: str, level: int | None = None) -> Self:
        return cls(NAMES.index(name), level)

    def encode(self, data: bytes) -> bytes:
        return _ENCODE[self.codec](data, self.level)
