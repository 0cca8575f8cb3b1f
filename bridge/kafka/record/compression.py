"""Compresses the records of a batch, by the codec's number in its attributes.

For what is encoded, which is large, the libraries of the client library are as fast as others.

Decompresses the records of a batch, within limits: a few KB may hold more than a machine has memory for.

Where the libraries have a call for all of it at once, that takes half the time of a stream for a batch of a record or a
few, which come by the thousand. It is used where what it allocates is known to be within the limit.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import NamedTuple, Self

import cramjam
import lz4.frame
import zstandard
from aiokafka import codec as codecs

from bridge.kafka.protocol.wire import BytesLike
from bridge.model.codecs import CODEC_NAMES
from bridge.model.copying import Overlarge

LZ4 = CODEC_NAMES.index("lz4")
"""Its number."""
_FIRST = 64 * 1024
"""Bytes of the first piece of a stream, at least."""
_MEMBERS = 100
"""Of a gzip stream, at most; producers write one. For each, what is behind it is copied."""
_BLOCKS, _BYTES_A_BLOCK = 100, 64
"""Of a snappy stream: how many blocks it may have at most, and one more for so many bytes. Producers fill them."""
_XERIAL = struct.Struct(">16si")
"""What a snappy stream of blocks begins with, and the size of the first one."""
_XERIAL_HEAD = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
_INT32, _UINT64 = struct.Struct(">i"), struct.Struct("<Q")
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
LZ4_FLAGS_AT, LZ4_SIZE, _LZ4_SIZE_AT, _LZ4_LEAST, LZ4_RATIO = 4, 0x08, 6, 15, 255
"""Of a frame: where its flags are, the one for the content's size, where that is, bytes of a header with one, and how
many times as large as itself its content can be."""
lz4_frame: Callable[[memoryview], bytes] = lz4.frame.decompress
"""Decodes a frame, however much it says to hold."""
_ZSTD_RATIO = 1 << 15
"""How many times as large as itself a frame's content can be: 128 KiB in a block of 4 bytes."""
_decompressor = zstandard.ZstdDecompressor()
_FAST, _LZ4_LEAST_LEVEL, _LZ4_MOST_LEVEL = 1, 3, 12
"""Levels of lz4: the fast way, which Java means by its default, and the others as far as the library has them."""
_JAVA_LZ4_DEFAULT = 9


def decoded(codec: int, data: memoryview, room: int) -> BytesLike:
    """Decompresses at most `room` bytes. Raises Overlarge for more, ValueError for a codec that nobody knows, and what
    the library does for what it can't decode."""
    if codec >= len(_CODERS):
        raise ValueError(f"unknown compression codec {codec}")
    return _CODERS[codec].decode(data, room)


def _gzip(data: memoryview, room: int) -> bytes:
    pieces, size, rest = list[bytes](), 0, data
    for _ in range(_MEMBERS):
        member = zlib.decompressobj(31)
        pieces.append(member.decompress(rest, room + 1 - size))
        size += len(pieces[-1])
        if size > room:
            raise Overlarge(room)
        if not member.eof:
            raise ValueError("the stream is cut short")
        if not (rest := memoryview(member.unused_data.lstrip(b"\0"))):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
    raise ValueError(f"it has more than {_MEMBERS} members")


def _snappy(data: memoryview, room: int) -> bytes | bytearray:
    if data[: len(_XERIAL_HEAD)] != _XERIAL_HEAD or len(data) <= _XERIAL.size:
        return _snappy_block(data, room)
    if _XERIAL.unpack_from(data)[1] == len(data) - _XERIAL.size:
        return _snappy_block(data[_XERIAL.size :], room)  # most have one block
    pieces, position = list[bytearray](), len(_XERIAL_HEAD)
    blocks = _BLOCKS + len(data) // _BYTES_A_BLOCK
    while position < len(data):
        begin = position + _INT32.size
        size: int = _INT32.unpack_from(data, position)[0]
        if not 0 < size <= len(data) - begin:
            raise ValueError("a block does not end where it says")
        if len(pieces) == blocks:
            raise ValueError("it has too many blocks")
        position = begin + size
        pieces.append(_snappy_block(data[begin:position], room))
        room -= len(pieces[-1])
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _snappy_block(data: memoryview, room: int) -> bytearray:
    # As much as it says to hold is allocated.
    if (size := cramjam.snappy.decompress_raw_len(data)) > room:
        raise Overlarge(room)
    content = bytearray(size)
    if cramjam.snappy.decompress_raw_into(data, content) != size:
        raise ValueError("a block does not hold what it says")
    return content


def _lz4(data: memoryview, room: int) -> bytes:
    content = 0
    if len(data) >= _LZ4_LEAST and data[:4] == _LZ4_MAGIC and data[LZ4_FLAGS_AT] & LZ4_SIZE:
        content = _UINT64.unpack_from(data, _LZ4_SIZE_AT)[0]
    if content > room:
        raise Overlarge(room)
    if LZ4_RATIO * len(data) <= room:
        return lz4_frame(data)
    frame, rest = lz4.frame.LZ4FrameDecompressor(), data

    def read(size: int) -> bytes:
        nonlocal rest
        if frame.eof:
            return b""
        piece: bytes = frame.decompress(rest, size)
        rest = data[:0]
        return piece

    decompressed = _stream(read, len(data), room)
    if not frame.eof:
        raise ValueError("the frame is cut short")
    return decompressed


def _zstd(data: memoryview, room: int) -> bytes:
    content = zstandard.frame_content_size(data)
    if content > room:
        raise Overlarge(room)
    if _ZSTD_RATIO * len(data) <= room:
        return _decompressor.decompressobj(read_across_frames=True).decompress(data)
    if content > 0:
        try:
            return _decompressor.decompress(data, allow_extra_data=False)
        except zstandard.ZstdError:
            pass  # several frames, or wrong
    # Frames of Java producers do not say how large their content is.
    return _stream(_decompressor.stream_reader(data, read_across_frames=True).read, len(data), room)


def _stream(read: Callable[[int], bytes], size: int, room: int) -> bytes:
    """Joins all that is read of `size` compressed bytes."""
    pieces, length, step = list[bytes](), 0, max(_FIRST, 8 * size)
    while length <= room:
        piece = read(min(step, room + 1 - length))
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        length += len(piece)
        step = max(step, length)
    raise Overlarge(room)


def _encode_lz4(data: bytes, level: int | None) -> bytes:
    if level in (None, _JAVA_LZ4_DEFAULT):
        return codecs.lz4_encode(data, _FAST)
    return codecs.lz4_encode(data, min(max(level, _LZ4_LEAST_LEVEL), _LZ4_MOST_LEVEL))


class _Coder(NamedTuple):
    """How a codec decodes at most so many bytes, and encodes at a level."""

    decode: Callable[[memoryview, int], BytesLike]
    encode: Callable[[bytes, int | None], bytes]


_BY_NAME = {
    "none": _Coder(lambda data, _: data, lambda data, _: data),
    "gzip": _Coder(_gzip, lambda data, level: codecs.gzip_encode(data, 6 if level in (None, -1) else level)),
    "snappy": _Coder(_snappy, lambda data, _: codecs.snappy_encode(data)),
    "lz4": _Coder(_lz4, _encode_lz4),
    "zstd": _Coder(_zstd, lambda data, level: codecs.zstd_encode(data, 3 if level is None else level)),
}
_CODERS = tuple(_BY_NAME[name] for name in CODEC_NAMES)


def stored_codec(compression_type: str | None) -> int | None:
    """Returns the codec's number that a topic's compression.type stores batches in; None where it keeps theirs."""
    name = "none" if compression_type == "uncompressed" else compression_type
    return CODEC_NAMES.index(name) if name in CODEC_NAMES else None


class Compression(NamedTuple):
    """A codec by its number. `level`: as Java producers are given it; None: their default."""

    codec: int
    level: int | None = None

    @classmethod
    def named(cls, name: str, level: int | None = None) -> Self:
        return cls(CODEC_NAMES.index(name), level)

    def encode(self, data: bytes) -> bytes:
        return _CODERS[self.codec].encode(data, self.level)
