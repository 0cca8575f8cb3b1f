"""Compression of the records in a batch, by the codec's number in its attributes.

Batches of a record or a few are decoded one by one, by the thousand. There the libraries that decode are 4 to 10 times
as fast as the one that the client library has; for what is encoded, which is larger, it makes no difference.
"""

from __future__ import annotations

from collections.abc import Callable

import lz4.frame  # type: ignore[import-untyped]
import zstandard
from aiokafka import codec as codecs

LZ4 = 3
"""Its number."""
_zstd = zstandard.ZstdDecompressor()


def _decode_zstd(data: memoryview) -> bytes:
    # Frames of Java producers do not say how large their content is, which the shorter call insists on.
    return _zstd.decompressobj(read_across_frames=True).decompress(data)


DECODE: tuple[Callable[[memoryview], bytes | memoryview], ...] = (
    lambda data: data,
    codecs.gzip_decode,
    codecs.snappy_decode,
    lz4.frame.decompress,
    _decode_zstd,
)
"""Each raises what its library does."""
ENCODE: tuple[Callable[[bytes], bytes], ...] = (
    bytes,
    lambda data: codecs.gzip_encode(data, 6),
    codecs.snappy_encode,
    lambda data: codecs.lz4_encode(data, 1),
    lambda data: codecs.zstd_encode(data, 3),
)
"""At the levels that Java producers have by default."""
