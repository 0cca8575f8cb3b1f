"""Decompression within limits: what the libraries make of it, and never more than there is room for."""

from __future__ import annotations

import gzip
import random
import struct
import tracemalloc
from collections.abc import Callable
from functools import cache

import lz4.frame
import pytest
import zstandard
from aiokafka import codec as codecs

from bridge.kafka.record.compression import decoded
from bridge.model.copying import MOST_BYTES, Overlarge, limit
from tests.support.forms import mostly_long

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
MIB = 1 << 20


def _streamed(data: bytes) -> bytes:
    """As Java's producers: without the size of the content in front."""
    made = zstandard.ZstdCompressor(level=3).compressobj()
    return made.compress(data) + made.flush()


ENCODE: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "none": (NONE, bytes),
    "gzip": (GZIP, lambda data: codecs.gzip_encode(data, 6)),
    "gzip, members": (GZIP, lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:]) + bytes(9)),
    "snappy": (SNAPPY, lambda data: codecs.snappy_encode(data, xerial_compatible=False)),
    "snappy, blocks": (SNAPPY, codecs.snappy_encode),
    "lz4": (LZ4, lambda data: codecs.lz4_encode(data, 1)),
    "lz4, with size": (LZ4, lambda data: lz4.frame.compress(data, store_size=True)),
    "lz4, without size": (LZ4, lambda data: lz4.frame.compress(data, store_size=False)),
    "zstd": (ZSTD, lambda data: zstandard.ZstdCompressor(level=3).compress(data)),
    "zstd, streamed": (ZSTD, _streamed),
    "zstd, frames": (ZSTD, lambda data: _streamed(data[:9]) + _streamed(b"") + _streamed(data[9:])),
    "zstd, empty in front": (ZSTD, lambda data: zstandard.compress(b"") + zstandard.compress(data)),
    "zstd, skipped in front": (
        ZSTD,
        lambda data: struct.pack("<II", 0x184D2A50, 3) + b"abc" + _streamed(data),
    ),
}
EACH = pytest.mark.parametrize("way", ENCODE)


@cache
def sample(size: int) -> bytes:
    dice = random.Random(size)
    words = [dice.randbytes(dice.randint(1, 20)) for _ in range(200)]
    return b"".join(dice.choice(words) for _ in range(size))[:size]


@EACH
@pytest.mark.parametrize("size", [0, 1, 100, 5_000, 300_000])
def test_what_fits_comes_back_whole(way: str, size: int) -> None:
    codec, encode = ENCODE[way]
    for data in (sample(size), bytes(size)):
        if data or way == "none":
            for room in (size, size + 1, MOST_BYTES):
                assert bytes(decoded(codec, memoryview(encode(data)), room)) == data


@EACH
@pytest.mark.parametrize("size", [100, 5_000, 300_000])
def test_what_is_larger_by_a_byte_is_not(way: str, size: int) -> None:
    codec, encode = ENCODE[way]
    if codec != NONE:
        for data in (sample(size), bytes(size)):
            with pytest.raises(Overlarge, match="it holds more than"):
                decoded(codec, memoryview(encode(data)), size - 1)


@pytest.mark.parametrize("way", [way for way in ENCODE if not way.startswith(("none", "snappy"))])
@pytest.mark.parametrize("size", mostly_long([64, 200]))
def test_what_expands_takes_no_more_memory_than_the_limit(way: str, size: int) -> None:
    """MiB of zeros; 200 are 6 KB of zstd."""
    codec, encode = ENCODE[way]
    bomb = memoryview(encode(bytes(size * MIB)))
    tracemalloc.start()
    try:
        with pytest.raises(Overlarge):
            decoded(codec, bomb, 8 * MIB)
        assert tracemalloc.get_traced_memory()[1] < 40 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("codec", "head"),
    [
        (SNAPPY, b"\xff\xff\xff\xff\x0f" + b"\x00a"),
        (SNAPPY, b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, 7) + b"\xff\xff\xff\xff\x0f\x00a"),
        (LZ4, b"\x04\x22\x4d\x18\x48\x40" + struct.pack("<Q", 1 << 62) + bytes(20)),
        (ZSTD, b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 1 << 62) + bytes(20)),
    ],
    ids=["snappy", "snappy, blocks", "lz4", "zstd"],
)
def test_a_size_that_is_said_to_be_huge_is_believed_at_once(codec: int, head: bytes) -> None:
    with pytest.raises(Overlarge):
        decoded(codec, memoryview(head), MOST_BYTES)


@pytest.mark.parametrize("size", [-1, 0, 100, -(1 << 31)])
def test_blocks_of_snappy_that_do_not_end_where_they_say(size: int) -> None:
    head = b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, size)
    with pytest.raises(ValueError, match="does not end where it says"):
        decoded(SNAPPY, memoryview(head + bytes(9)), MOST_BYTES)


def test_what_has_countless_parts_is_not_decoded() -> None:
    with pytest.raises(ValueError, match="more than 100 members"):
        decoded(GZIP, memoryview(gzip.compress(b"") * 101), MOST_BYTES)
    block = codecs.snappy_encode(b"a")[16:]
    with pytest.raises(ValueError, match="too many blocks"):
        decoded(SNAPPY, memoryview(codecs.snappy_encode(b"a") + block * 1_000), MOST_BYTES)


@EACH
def test_what_is_cut_short_or_wrong_raises_or_is_short(way: str) -> None:
    codec, encode = ENCODE[way]
    data = bytes(encode(sample(5_000)))
    dice = random.Random(3)
    for _ in range(300 if codec else 0):
        broken = bytearray(data[: dice.randint(0, len(data))])
        for _ in range(dice.randint(0, 3)):
            if broken:
                broken[dice.randrange(len(broken))] = dice.randrange(256)
        try:
            assert len(decoded(codec, memoryview(broken), 10_000)) <= 10_000
        except MemoryError:
            raise
        except Exception:  # each codec has exceptions of its own
            continue


def test_codecs_that_nobody_knows() -> None:
    for codec in (5, 6, 7):
        with pytest.raises(ValueError, match=f"unknown compression codec {codec}"):
            decoded(codec, memoryview(b"abc"), MOST_BYTES)


def test_the_limit_of_what_is_small_of_what_expands_and_of_all() -> None:
    assert limit(0, MOST_BYTES) == limit(6_000, MOST_BYTES) == MOST_BYTES // 8
    assert limit(100_000, MOST_BYTES) == 100_000_000
    assert limit(1 << 30, MOST_BYTES) == MOST_BYTES
