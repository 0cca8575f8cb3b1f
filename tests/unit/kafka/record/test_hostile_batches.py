"""Batches that hold more than there may be, or less than they say: unreadable, and never a burden."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache

import pytest
from aiokafka import codec as codecs
from aiokafka.record.util import encode_varint

from bridge.kafka.consumer.record_lookups import scanned
from bridge.kafka.protocol.log_requests import PartitionData
from bridge.kafka.record.batch import CorruptBatch, DataFilter, parse
from bridge.kafka.record.coalescing import DataBatches
from bridge.kafka.record.columns import Records
from bridge.kafka.record.decoding import decode_log, messages, opened, window
from bridge.kafka.record.rebuilding import BatchPolicy, CodecSizes, UnreadableBatch, chunks, refused
from bridge.model.copying import MOST_BYTES, Overlarge
from bridge.model.lookups import Scan
from bridge.model.values import Side
from tests.support.messages import message_pattern
from tests.unit.kafka.record.guard_pages import guarded_copy
from tests.unit.kafka.record.raw_batches import GZIP, LZ4, NOW, ZSTD, batch, legacy, marker, sealed

MIB = 1 << 20
POLICY = BatchPolicy(2 * MIB, 2 * MIB, CodecSizes.all(1 << 20))
ENCODE: dict[int, Callable[[bytes], bytes]] = {
    GZIP: lambda data: codecs.gzip_encode(data, 6),
    LZ4: lambda data: codecs.lz4_encode(data, 1),
    ZSTD: codecs.zstd_encode,
}
EACH = pytest.mark.parametrize("codec", ENCODE)


def varint(value: int) -> bytes:
    collected = bytearray()
    encode_varint(value, collected.append)
    return bytes(collected)


def record(value: int, headers: bytes = varint(0)) -> bytes:
    """With so many bytes of value, all 0."""
    body = b"\0\0\0" + varint(-1) + varint(value) + bytes(value) + headers
    return varint(len(body)) + body


def of(content: bytes, count: int, base: int = 0, *, codec: int = 0, append: bool = False) -> bytes:
    """A batch around what may be no records."""
    encoded = bytes(ENCODE[codec](content)) if codec else content
    return around(encoded, count, base, codec=codec, append=append)


def around(encoded: bytes, count: int, base: int, *, codec: int, append: bool) -> bytes:
    data = bytearray(batch(base, 1, codec=codec)[:61])
    data += encoded
    data[22] |= 0x08 if append else 0
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">i", data, 23, max(0, count - 1))
    struct.pack_into(">i", data, 57, count)
    return sealed(data)


@cache
def expanding(codec: int) -> bytes:
    """A record of a little more than there may be, in 4 KB of zstd."""
    return bytes(ENCODE[codec](record(MOST_BYTES + 8 * MIB)))


def bomb(base: int, codec: int = ZSTD, *, append: bool = False) -> bytes:
    return around(expanding(codec), 1, base, codec=codec, append=append)


@contextmanager
def using(most: int) -> Iterator[None]:
    """At most so many bytes."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


@EACH
def test_a_batch_of_which_too_much_becomes_passes_as_it_is(codec: int) -> None:
    data = bytearray(batch(0, 2, codec=codec) + bomb(2, codec) + batch(3, 2, codec=codec))
    with using(80 * MIB if codec == ZSTD else 300 * MIB):
        for join in (None, POLICY):
            batches = DataBatches.committed(bytes(data), 0, (), join).batches
            assert [each.segments for each in chunks(batches, POLICY, 0)] == [((0, 2),), ((2, 1),), ((3, 2),)]


@EACH
def test_where_it_can_not_pass_it_is_unreadable(codec: int) -> None:
    data = batch(0, 2, codec=codec, append_time=NOW) + bomb(2, codec, append=True)
    with using(80 * MIB if codec == ZSTD else 300 * MIB):
        for join in (None, POLICY):
            batches = DataBatches.committed(data, 0, (), join).batches
            result = chunks(batches, POLICY, 0)
            assert next(result).segments == ((0, 2),)
            with pytest.raises(
                UnreadableBatch, match=message_pattern("copying.undecodable_range", first=2, last=2)
            ):
                next(result)


def test_a_higher_limit_allows_it() -> None:
    content = record(20 * MIB)
    (raw,) = parse(of(content, 1, codec=ZSTD))
    with pytest.raises(Overlarge, match=message_pattern("copying.overlarge", limit=16 * MIB)):
        Records.from_batch(raw)
    assert Records.from_batch(raw, 8 * MOST_BYTES).size == len(content) - 7
    assert Records.from_batch(next(parse(of(content, 1))), 32 * MIB).count == 1


def test_a_passed_batch_that_the_broker_refuses_is_named_by_its_own_offsets() -> None:
    (chunk,) = chunks(DataBatches.committed(bomb(700), 0, ()).batches, POLICY, 0)
    assert refused(chunk) == ()
    many = of(record(20 * MIB) * 10, 10, 700, codec=ZSTD)
    (chunk,) = chunks(DataBatches.committed(many, 0, ()).batches, POLICY, 0)
    with pytest.raises(UnreadableBatch, match="offsets 700 to 709") as error:
        refused(chunk)
    assert (error.value.offset, error.value.last_offset) == (700, 709)


def test_small_batches_that_hold_much_are_not_held_together() -> None:
    """Of 15 MiB in 500 bytes each, 20 of them: 300 MiB."""
    data = b"".join(of(record(15 * MIB), 1, base, codec=ZSTD, append=True) for base in range(20))
    policy = replace(POLICY, max_message_bytes=64 * MIB)
    with using(200 * MIB):
        for join in (None, POLICY):
            batches = DataBatches.committed(data, 0, (), join).batches
            assert sum(each.count for each in chunks(batches, policy, 0)) == 20


@pytest.mark.parametrize(
    ("count", "error"),
    [(MOST_BYTES // 32 + 1, Overlarge), ((1 << 31) - 1, Overlarge), (-1, ValueError), (3, ValueError)],
)
@pytest.mark.parametrize("codec", [0, ZSTD])
def test_more_records_than_there_can_be(codec: int, count: int, error: type[ValueError]) -> None:
    data = bytearray(of(record(1) * 2, 2, codec=codec))
    struct.pack_into(">i", data, 57, count)
    (raw,) = parse(sealed(data))
    with using(MIB):
        with pytest.raises(error, match=r"more|negative|offsets|end"):
            Records.from_batch(raw)
        if count > 0:
            with pytest.raises(ValueError, match="more"):
                window(bytes(data), 0, 100, ())
        decoded = decode_log(sealed(data), 0)
        assert decoded is not None
        assert (list(decoded.records), decoded.unreadable) == ([], 1)


@pytest.mark.parametrize("size", [2 * MIB, 30 * MIB])
def test_headers_without_end(size: int) -> None:
    """A header may take two bytes, and as an object a hundred."""
    headers = size // 2
    data = of(record(0, varint(headers) + bytes(2 * headers)), 1)
    with using(500 * MIB):
        decoded = decode_log(data, 0)
    assert decoded is not None
    assert (len(decoded.records), decoded.unreadable) == ((1, 0) if size < 8 * MIB else (0, 1))


def test_large_batches_of_few_headers_are_read() -> None:
    data = of(record(1000, varint(1) + b"\2a\2b") * 9_000, 9_000)
    result = window(data, 0, 9_000, ())
    assert result is not None
    assert len(result.records) == 9_000
    broken = bytearray(data)
    broken[61] = 0xFF
    with pytest.raises(ValueError, match="does not end where it says"):
        window(bytes(broken), 0, 9_000, ())


def test_a_window_ends_before_what_nobody_can_decode() -> None:
    data = batch(0, 3) + bomb(3) + batch(4, 3)
    with using(100 * MIB):
        result = window(data, 0, 7, ())
        assert result is not None
        assert (result.start, result.end, [each.offset for each in result.records]) == (0, 3, [0, 1, 2])
        with pytest.raises(Overlarge):
            window(bomb(3) + batch(4, 3), 3, 7, ())
        after = window(batch(4, 3), 4, 7, ())
    assert after is not None
    assert after.end == 7


def test_windows_and_stretches_hold_a_bounded_number_of_bytes() -> None:
    data = b"".join(of(record(3 * MIB), 1, base, codec=ZSTD) for base in range(30))
    with using(120 * MIB):
        result, size = opened(data, 0, 30, ())
        assert result is not None
        assert (result.start, result.end, size) == (0, 10, sum(len(record(3 * MIB)) for _ in range(10)))
        read = decode_log(data, 0)
        assert read is not None
        assert (read.end, len(read.records), read.unreadable) == (10, 10, 0)


def test_a_state_topic_steps_over_it() -> None:
    data = batch(0, 2) + bomb(2) + batch(3, 2)
    with using(60 * MIB):
        decoded = decode_log(data, 0)
    assert decoded is not None
    assert ([each.offset for each in decoded.records], decoded.end, decoded.unreadable) == (
        [0, 1, 3, 4],
        5,
        1,
    )


# -- messages from before 0.11 -----------------------------------------------------------------------------------------


def wrapped(content: bytes, codec: int = GZIP, magic: int = 1) -> bytes:
    value = bytes(ENCODE[codec](content))
    data = bytearray(struct.pack(">qiIbb", 9, 0, 0, magic, codec) + (bytes(8) if magic else b""))
    data += struct.pack(">ii", -1, len(value)) + value
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">I", data, 12, zlib.crc32(data[16:]))
    return bytes(data)


def test_a_message_around_too_much() -> None:
    data = wrapped(bytes(100 * MIB))
    with using(80 * MIB):
        (raw,) = parse(data, checked=True)
        with pytest.raises(Overlarge):
            Records.from_batch(raw)
        with pytest.raises(Overlarge):
            window(data, 9, 10, ())


@pytest.mark.parametrize("length", [-12, -13, 0, 5, 1 << 30, -(1 << 31)])
def test_messages_inside_that_do_not_end_where_they_say(length: int) -> None:
    """The library is busy for ever with a length of -12."""
    inner = bytearray(legacy(1, 0, 0, 1))
    struct.pack_into(">i", inner, 8, length)
    with pytest.raises(ValueError, match="does not end where it says"):
        messages(memoryview(wrapped(bytes(inner))), MOST_BYTES)


@pytest.mark.parametrize("at", [26, 33])
@pytest.mark.parametrize("size", [-2, -100, 1 << 30])
def test_keys_and_values_that_do_not_end_where_they_say(at: int, size: int) -> None:
    data = bytearray(legacy(1, 0, 0, 1))
    struct.pack_into(">i", data, at, size)
    with pytest.raises(ValueError, match="does not end where it says"):
        messages(memoryview(data), MOST_BYTES)


def test_messages_compressed_twice_or_in_no_known_way() -> None:
    with pytest.raises(ValueError, match="compressed twice"):
        messages(memoryview(wrapped(legacy(1, GZIP, 0))), MOST_BYTES)
    for magic, codec in ((1, ZSTD), (0, LZ4)):
        with pytest.raises(ValueError, match=f"codec {codec} in messages of format {magic}"):
            messages(memoryview(wrapped(legacy(1, 0, 0), codec, magic)), MOST_BYTES)


# -- headers of batches ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "value"),
    [(0, -1), (0, (1 << 63) - 1), (23, -1), (23, -(1 << 31))],
    ids=["offset below 0", "offset at the end", "ends before it begins", "far before"],
)
def test_offsets_that_no_batch_has(at: int, value: int) -> None:
    data = bytearray(batch(5, 3))
    struct.pack_into(">q" if at == 0 else ">i", data, at, value)
    with pytest.raises(CorruptBatch):
        list(parse(sealed(data), checked=True))


@pytest.mark.parametrize("magic", [-1, 3, 127])
def test_formats_that_nobody_knows(magic: int) -> None:
    data = bytearray(batch(5, 3))
    struct.pack_into(">b", data, 16, magic)
    with pytest.raises(CorruptBatch):
        list(parse(bytes(data)))


def broken_marker(content: bytes, codec: int = 0) -> bytes:
    data = bytearray(of(content, 1, 3, codec=codec))
    data[22] |= 0x30
    struct.pack_into(">q", data, 43, 7)
    return sealed(data)


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff" * 20, record(100_000), b"\x20" + bytes(5)],
    ids=["nothing", "no record", "much too large", "cut short"],
)
def test_a_marker_that_can_not_be_read_is_damage(content: bytes) -> None:
    data = batch(0, 1, producer=7) + broken_marker(content) + batch(4, 1, producer=7)
    aborted = ((7, 0),)
    with pytest.raises(CorruptBatch):
        DataBatches.committed(data, 0, aborted)
    assert decode_log(data, 0, aborted) is None
    got = PartitionData(0, 5, 5, 0, aborted, data)
    with pytest.raises(CorruptBatch):
        scanned(got, Scan(Side.SOURCE, 0, 1000), committed_only=True)
    with pytest.raises(CorruptBatch):
        window(data, 0, 5, aborted)


def test_a_marker_that_expands_is_not_decompressed() -> None:
    data_filter = DataFilter([(7, 0)])
    with using(MIB):
        batches = list(parse(batch(0, 1, producer=7) + broken_marker(b"", ZSTD)))
        assert not data_filter.is_data(batches[0])
        with pytest.raises(CorruptBatch):
            data_filter.is_data(batches[1])
    assert DataFilter([(7, 0)]).is_data(next(parse(marker(3, 1, 9)))) is False


@pytest.mark.parametrize("deltas", [(1, 0), (0, 0), (-1, 1), (0, 2), (0, 1 << 40), (-(1 << 40), 1)])
def test_records_of_other_offsets_than_their_batch(deltas: tuple[int, int]) -> None:
    records = [b"\0\0" + varint(delta) + varint(-1) + varint(-1) + varint(0) for delta in deltas]
    data = of(b"".join(varint(len(each)) + each for each in records), 2)
    (raw,) = parse(data)
    with pytest.raises(ValueError, match="other offsets than it says"):
        Records.from_batch(raw)
    if deltas[0] < 0 or deltas[1] > 1:
        with pytest.raises(ValueError, match="other offsets than it says"):
            window(data, 0, 2, ())
        log = decode_log(data, 0)
        assert log is not None
        assert (len(log.records), list(log.records), log.unreadable) == (0, [], 1)


@pytest.mark.parametrize("bases", [(0, 5, 1), (0, 2), (3, 3), (5, 0)])
def test_batches_that_begin_before_the_one_in_front_ends(bases: tuple[int, ...]) -> None:
    data = b"".join(batch(base, 3) for base in bases)
    for join in (None, POLICY):
        with pytest.raises(CorruptBatch):
            DataBatches.committed(data, 0, (), join)
    with pytest.raises(CorruptBatch):
        window(data, bases[0], 10, ())
    assert decode_log(data, 0) is None


@pytest.mark.parametrize("offsets", [(1, 0), (0, 0), (5, 20), (-3, 9)])
def test_messages_inside_of_other_offsets(offsets: tuple[int, int]) -> None:
    inner = bytearray()
    for offset in offsets:
        one = bytearray(legacy(1, 0, 0, 1))
        struct.pack_into(">q", one, 0, offset)
        inner += one
    with pytest.raises(ValueError, match="other offsets than it says"):
        messages(memoryview(wrapped(bytes(inner))), MOST_BYTES)


def test_an_lz4_frame_that_states_more_than_there_is_room_for_is_not_allocated() -> None:
    data = bytearray(batch(0, 1, codec=LZ4))
    data[61:] = b"\x04\x22\x4d\x18\x48\x40" + struct.pack("<Q", 1 << 62) + bytes(20)
    struct.pack_into(">i", data, 8, len(data) - 12)
    (result,) = parse(sealed(data))
    with pytest.raises(Overlarge):
        Records.from_batch(result)


def test_a_record_of_fewer_headers_than_it_says_is_not_read_behind_its_end() -> None:
    """The library looks there for the next one; what was fetched may be the end of what a process may touch."""
    data = bytearray(batch(0, 3))
    assert data[-5:] == b"\x02\x02h\x021"
    data[-5] = 0x42
    fetched = guarded_copy(sealed(data)).data
    with pytest.raises(Exception, match=r"."):
        window(fetched, 0, 10, ())
    result = decode_log(fetched, 0)
    assert result is not None
    assert result.unreadable == 1
    assert len(result.records) == 0


def test_of_a_batch_that_breaks_off_no_record_counts() -> None:
    """And all of those around it."""
    broken = bytearray(batch(3, 3))
    broken[-5] = 0x42
    log = decode_log(batch(0, 3) + bytes(sealed(broken)) + batch(6, 2), 1)
    assert log is not None
    assert ([each.offset for each in log.records], log.end, log.unreadable) == ([1, 2, 6, 7], 8, 1)


def test_records_of_a_log_outlive_what_was_fetched() -> None:
    fetched = bytearray(batch(0, 3) + batch(3, 2, codec=LZ4) + legacy(1, GZIP, 5))
    log = decode_log(fetched, 0)
    assert log is not None
    before = list(log.records)
    fetched[:] = bytes(len(fetched))
    assert list(log.records) == before
    assert [each.offset for each in before] == list(range(8))
