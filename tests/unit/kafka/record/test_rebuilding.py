"""Batches into chunks: whatever a log holds, the same records in the same order, in batches that brokers take."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from hypothesis import given
from hypothesis import strategies as st

from bridge.kafka.record.batch import Chunk, CorruptBatch, stamp
from bridge.kafka.record.coalescing import DataBatches
from bridge.kafka.record.compression import Compression
from bridge.kafka.record.rebuilding import (
    NONE_COALESCED,
    BatchPolicy,
    CodecSizes,
    RecordTooLarge,
    UnreadableBatch,
    chunks,
    refused,
)
from tests.support.messages import message_pattern
from tests.unit.kafka.record.raw_batches import (
    GZIP,
    LZ4,
    NONE,
    NOW,
    SNAPPY,
    ZSTD,
    Plain,
    batch,
    batch_of,
    legacy,
    plain_records,
    sealed,
)

CODECS = [NONE, GZIP, SNAPPY, LZ4, ZSTD]
WIDE = BatchPolicy(1_000_000, 16_384)
SMALL = CodecSizes.all(4096)
BACKLOG = replace(WIDE, coalesced=SMALL)
JOINED = pytest.mark.parametrize("join", [None, BACKLOG], ids=["apart", "joined"])
BYTES = st.none() | st.binary(max_size=30)
PLAIN = st.builds(
    Plain,
    # The library's builder takes no delta of 2**63.
    st.integers(1 - 2**62, 2**62) | st.sampled_from([-1, 0, NOW, NOW + 1]),
    BYTES,
    BYTES,
    st.lists(st.tuples(st.text("aä", max_size=2), BYTES), max_size=3).map(tuple),
)


class Log:
    """Batches one after the other, and what a reader finds in them."""

    def __init__(self) -> None:
        self.data, self.end = b"", 0
        self.records: dict[int, Plain] = {}
        self.codecs: dict[int, int] = {}
        self.epochs: dict[int, int] = {}

    def add(
        self, records: Sequence[Plain | None], codec: int, epoch: int, append_time: int | None, gap: int
    ) -> None:
        self.end += gap
        self.data += batch_of(records, self.end, codec=codec, epoch=epoch, append_time=append_time)
        for at, record in enumerate(records):
            if record is not None:
                time = record.timestamp if append_time is None else append_time
                self.records[self.end + at] = record._replace(timestamp=time)
                self.codecs[self.end + at], self.epochs[self.end + at] = codec, epoch
        self.end += len(records)


SIZES = st.integers(60, 1000)
SMALLS = st.just(NONE_COALESCED) | st.builds(CodecSizes, SIZES, SIZES, SIZES, SIZES, SIZES)
BATCHES = st.lists(
    st.tuples(
        # What compaction has left: at least one record.
        st.lists(st.none() | PLAIN, min_size=1, max_size=6).filter(any),
        st.sampled_from(CODECS),
        st.integers(3, 4),
        st.none() | st.sampled_from([NOW, NOW + 5]),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=6,
)


def made(
    data: bytes, policy: BatchPolicy = WIDE, start: int = 0, join: BatchPolicy | None = None
) -> list[Chunk]:
    return list(chunks(DataBatches.committed(data, start, (), join).batches, policy, start))


def read(chunk: Chunk) -> dict[int, Plain]:
    """Its records by their upstream offsets, from what a broker would take."""
    stamp(chunk.data, 7, 0, 0, True)
    result = DefaultRecordBatch(bytes(chunk.data))
    assert result.validate_crc()
    assert (result.base_offset, result.last_offset_delta, result.attributes & 0xF8) == (
        0,
        chunk.count - 1,
        0x10,
    )
    assert struct.unpack_from(">i", chunk.data, 8) == (len(chunk.data) - 12,)
    assert struct.unpack_from(">i", chunk.data, 57) == (chunk.count,)
    assert [each.offset for each in result] == list(range(chunk.count))
    records = plain_records(chunk.data)
    times = [each.timestamp for each in records]
    assert result.max_timestamp == max(times)
    assert chunk.last_timestamp in (times[-1], result.max_timestamp)
    offsets = [start + at for start, count in chunk.segments for at in range(count)]
    assert all(
        end + count < start
        for (end, count), (start, _) in zip(chunk.segments, chunk.segments[1:], strict=False)
    )
    return dict(zip(offsets, records, strict=True))


@given(
    BATCHES,
    st.integers(0, 30),
    SMALLS,
    st.integers(90, 400),
    st.integers(0, 2000),
    SMALLS,
    st.none() | st.sampled_from(CODECS),
    st.none() | st.sampled_from(CODECS),
)
def test_every_record_once_in_order_and_as_it_was(
    batches: list[tuple[list[Plain | None], int, int, int | None, int]],
    start: int,
    coalesced: CodecSizes,
    most: int,
    batch_size: int,
    joined: CodecSizes,
    wanted_codec: int | None,
    stored: int | None,
) -> None:
    log = Log()
    for each in batches:
        log.add(*each)
    compression = None if wanted_codec is None else Compression(wanted_codec)
    policy, copied, at, too_large = (
        BatchPolicy(most, batch_size, coalesced, compression, stored=stored),
        dict[int, Plain](),
        start,
        dict[int, int](),
    )
    while at <= log.end:
        reading = replace(policy, coalesced=joined)
        fetched = DataBatches.committed(log.data, at, (), reading).batches
        before, at = at, log.end + 1
        try:
            for chunk in chunks(fetched, policy, before):
                records = read(chunk)
                assert chunk.size <= most
                assert list(records) == sorted(records)
                assert min(records) > max(copied, default=-1)
                codecs = (
                    {log.codecs[offset] for offset in records} if wanted_codec is None else {wanted_codec}
                )
                assert codecs == {chunk.data[22] & 7}
                if stored not in (None, *codecs) and len(records) > 1:
                    assert len(batch_of(list(records.values()))) <= most
                assert {log.epochs[offset] for offset in records} == {chunk.leader_epoch}
                copied |= records
        except RecordTooLarge as error:
            # All before it has been handed out; go on behind it.
            at = error.offset + 1
            too_large[error.offset] = error.size
        assert at > before
    expected = {offset: record for offset, record in log.records.items() if offset >= start}
    assert copied == {offset: record for offset, record in expected.items() if offset not in too_large}
    assert set(too_large) <= set(expected)
    assert all(size > most for size in too_large.values())


@pytest.mark.parametrize("codec", CODECS)
def test_a_whole_batch_is_passed_and_not_rebuilt(codec: int) -> None:
    data = batch(10, 50, codec=codec)
    (chunk,) = made(data, start=10)
    assert bytes(chunk.data[61:]) == data[61:]


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_what_brokers_store_without_compression_is_cut_by_that_size(codec: int) -> None:
    """They would refuse the whole batch, which is small as it comes."""
    records = [Plain(NOW, b"key", b"x" * 1000) for _ in range(100)]
    data = batch_of(records, codec=codec)
    results = made(data, BatchPolicy(20_000, 16_384, stored=NONE))
    assert [each for chunk in results for each in read(chunk).values()] == records
    for chunk in results:
        assert len(batch_of(list(read(chunk).values()))) <= 20_000
        assert chunk.data[22] & 7 == codec, "it is sent as small as it came"
    assert len(results) <= 8
    (passed,) = made(data, BatchPolicy(200_000, 16_384, stored=NONE))
    assert bytes(passed.data[61:]) == data[61:], "what fits is passed"


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("without", [(0,), (1, 2), (4,)])
def test_a_batch_with_a_hole_is_rebuilt_without_it(codec: int, without: tuple[int, ...]) -> None:
    (chunk,) = made(batch(10, 5, codec=codec, without=without), start=10)
    assert [int((each.value or b"")[6:]) for each in read(chunk).values()] == list(read(chunk))
    assert list(read(chunk)) == [10 + delta for delta in range(5) if delta not in without]
    assert chunk.data[22] & 7 == codec


def test_segments_follow_the_holes() -> None:
    (chunk,) = made(batch(10, 8, without=(0, 3, 4)), start=10)
    assert chunk.segments == ((11, 2), (15, 3))


def test_append_time_becomes_the_time_of_each_record() -> None:
    (chunk,) = made(batch(10, 3, append_time=NOW * 2), start=10)
    assert [each.timestamp for each in read(chunk).values()] == [NOW * 2] * 3
    assert chunk.last_timestamp == NOW * 2


def test_a_batch_that_begins_below_the_start_is_cut() -> None:
    (chunk,) = made(batch(10, 5), start=13)
    assert chunk.segments == ((13, 2),)
    assert [each.value for each in read(chunk).values()] == [b"value-13", b"value-14"]
    batches = DataBatches.committed(batch(10, 5) + batch(15, 1), 10, ()).batches
    assert [each.segments for each in chunks(batches, WIDE, 15)] == [((15, 1),)]


@pytest.mark.parametrize("codec", CODECS)
def test_a_codec_that_is_wanted_is_given_to_batches_of_another_only(codec: int) -> None:
    data = batch_of([Plain(NOW, b"k", b"v" * 100)] * 50, 10, codec=codec)
    for chosen in CODECS:
        (chunk,) = made(data, replace(WIDE, compression=Compression(chosen)), 10)
        assert (chunk.data[22] & 7, chunk.segments) == (chosen, ((10, 50),))
        assert (bytes(chunk.data[61:]) == data[61:]) is (chosen == codec)
        assert list(read(chunk).values()) == plain_records(data)


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_levels_are_as_of_java_producers(codec: int) -> None:
    """From the least to the greatest that Java takes; -1 is gzip's default, and 9 of lz4 its quick way."""
    rng = random.Random(0)
    words = [b"w%d" % rng.randrange(300) for _ in range(4000)]
    data = batch_of([Plain(NOW, None, b" ".join(words))], 0)
    levels = {GZIP: (-1, 1, 9), LZ4: (9, 1, 17), ZSTD: (-131072, 3, 22)}[codec]
    sizes = []
    for level in levels:
        (chunk,) = made(data, replace(WIDE, compression=Compression(codec, level)))
        assert list(read(chunk).values()) == plain_records(data)
        sizes.append(chunk.size)
    (default,) = made(data, replace(WIDE, compression=Compression(codec)))
    assert default.size == (sizes[1] if codec == ZSTD else sizes[0])
    assert sizes[2] < default.size


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_too_large_is_split(codec: int) -> None:
    records = [
        Plain(NOW + at, b"k", bytes((at * 7 + step * step) % 251 for step in range(900))) for at in range(40)
    ]
    data = batch_of(records, 10, codec=codec)
    limit = len(data) // 3
    split = made(data, replace(WIDE, max_message_bytes=limit), 10)
    assert len(split) >= 3
    assert max(each.size for each in split) <= limit
    assert [record for each in split for record in read(each).values()] == records
    assert {each.data[22] & 7 for each in split} == {codec}


def test_only_a_single_record_can_be_too_large_and_it_is_named() -> None:
    data = batch_of([Plain(NOW, None, b"small"), Plain(NOW, None, bytes(500)), Plain(NOW, None, b"too")], 10)
    batches = DataBatches.committed(data, 10, ()).batches
    collected: list[tuple[tuple[int, int], ...]] = []
    policy = replace(WIDE, max_message_bytes=200)
    said = message_pattern("copying.too_large", offset=11, size=570, limit=200)
    with pytest.raises(RecordTooLarge, match=said) as error:
        collected.extend(each.segments for each in chunks(batches, policy, 10))
    assert collected == [((10, 1),)]
    assert (error.value.offset, error.value.size, error.value.limit) == (11, 570, 200)
    assert [each.segments for each in chunks(batches, policy, 12)] == [((12, 1),)]


def test_small_neighbours_become_one_batch_when_there_is_a_backlog() -> None:
    data = b"".join(batch(10 + at, 1) for at in range(20)) + batch(40, 2)
    assert [each.count for each in made(data, WIDE, 10)] == [*[1] * 20, 2]
    (chunk,) = made(data, BACKLOG, 10)
    assert chunk.segments == ((10, 20), (40, 2))
    assert [each.value for each in read(chunk).values()] == [
        b"value-%d" % at for at in (*range(10, 30), 40, 41)
    ]


def test_neighbours_fill_a_batch_and_no_more() -> None:
    one = len(batch(10, 1))
    data = b"".join(batch(10 + at, 1) for at in range(10))
    for policy in (BatchPolicy(1_000_000, one * 4, SMALL), BatchPolicy(one * 4, 1_000_000, SMALL)):
        assert [each.count for each in made(data, policy, 10)] == [4, 4, 2]


def test_large_batches_are_passed_in_a_backlog_too() -> None:
    large = batch(11, 40)
    data = batch(10, 1) + large + batch(51, 1)
    result = made(data, BatchPolicy(1_000_000, len(large) * 2 - 1, CodecSizes.all(10**6)), 10)
    assert [each.count for each in result] == [1, 40, 1]
    assert bytes(result[1].data[61:]) == large[61:]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("start", [10, 25, 70])
def test_neighbours_of_one_record_are_joined_as_they_are_read(start: int, codec: int) -> None:
    """Those of another codec or leader epoch, or of a transaction, are not among them."""
    others = batch(60, 1, codec=LZ4) + batch(61, 1, epoch=6) + batch(62, 1, producer=7)
    data = (
        b"".join(batch(10 + 2 * at, 1, codec=codec) for at in range(20))
        + others
        + batch(70, 1)
        + batch(72, 1)
    )
    apart, joined = (DataBatches.committed(data, start, (), join).batches for join in (None, BACKLOG))
    assert len(joined) < len(apart)
    assert sum(len(each.data) for each in apart) <= sum(len(each.data) for each in joined)
    policy = BatchPolicy(1_000_000, 16_384, coalesced=SMALL)
    one, other = (
        [(each.segments, bytes(each.data), each.last_timestamp) for each in chunks(batches, policy, start)]
        for batches in (apart, joined)
    )
    assert one == other


@pytest.mark.parametrize("odd", [bytes(9000), None], ids=["long", "null"])
def test_odd_records_among_neighbours_are_copied_too(odd: bytes | None) -> None:
    values = [b"a", b"b", odd, b"c", odd, odd, b"d", b"e"]
    data = b"".join(batch_of([Plain(NOW, None, value)], at) for at, value in enumerate(values))
    batches = chunks(DataBatches.committed(data, 0, (), BACKLOG).batches, BACKLOG, 0)
    assert [record.value for chunk in batches for record in read(chunk).values()] == values


def test_transactions_are_joined_where_none_was_aborted_and_told_apart_where_one_was() -> None:
    """Batches of several producers stand side by side, and only their producer says which were aborted."""
    data = b"".join(batch(10 + at, 1, producer=7 + at % 2) for at in range(6))
    whole, apart = (DataBatches.committed(data, 10, aborted, BACKLOG).batches for aborted in ((), [(7, 10)]))
    assert [each.count for each in whole] == [6]
    assert [each.base_offset for each in apart] == [11, 13, 15]


def test_append_time_of_joined_neighbours_is_each_batchs_own() -> None:
    data = b"".join(batch(10 + 2 * at, 2, append_time=NOW * 2 + at) for at in range(3))
    (chunk,) = made(data, BACKLOG, 10, BACKLOG)
    assert [each.timestamp - NOW * 2 for each in read(chunk).values()] == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("size", [5, 600])
def test_damage_in_joined_neighbours_is_found(size: int) -> None:
    data = bytearray(b"".join(batch_of([Plain(NOW, None, bytes(size))], 10 + at) for at in range(5)))
    data[-1] ^= 1
    with pytest.raises(CorruptBatch) as error:
        DataBatches.committed(bytes(data), 10, (), BACKLOG)
    assert error.value.offset == 14


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("joined", [False, True], ids=["apart", "joined"])
def test_each_codec_has_a_size_of_its_own_up_to_which_batches_are_put_together(
    codec: int, joined: bool
) -> None:
    data = batch(0, 2, codec=codec) + batch(2, 2, codec=codec)
    for which in range(len(CODECS)):
        small = CodecSizes(*(61 if each == which else 4096 for each in CODECS))
        join = replace(BACKLOG, coalesced=small) if joined else None
        result = made(data, replace(BACKLOG, coalesced=small), join=join)
        assert [each.count for each in result] == ([2, 2] if which == codec else [4])


def test_neighbours_of_another_codec_or_leader_epoch_stay_apart() -> None:
    data = batch(0, 1) + batch(1, 1, codec=LZ4) + batch(2, 1, codec=LZ4) + batch(3, 1, codec=LZ4, epoch=6)
    result = made(data, BACKLOG)
    assert [(each.count, each.data[22] & 7, each.leader_epoch) for each in result] == [
        (1, NONE, 5),
        (2, LZ4, 5),
        (1, LZ4, 6),
    ]


@pytest.mark.parametrize("times", [(-1, NOW, -5), (2**62, -(2**62) - 5), (-(2**63), 2**63 - 1, -1)])
def test_any_timestamp_survives_rebuilding(times: tuple[int, ...]) -> None:
    # The second time what was rebuilt is cut again: its deltas have wrapped, as they do on brokers and clients.
    records = [Plain(time, None, b"v") for time in times]
    data = b"".join(batch_of([each], at) for at, each in enumerate(records))
    (chunk,) = made(data, BACKLOG)
    assert list(read(chunk).values()) == records
    assert [record for half in refused(chunk) for record in read(half).values()] == records


def test_header_keys_that_are_not_utf_8_survive_rebuilding() -> None:
    def with_key(key: bytes, base: int, **how: int) -> bytes:
        data = bytearray(batch_of([Plain(NOW, b"k", b"v", (("key", b"1"), ("key", None)))] * 2, base, **how))
        return sealed(data.replace(b"\x06key", b"\x06" + key))

    (chunk,) = made(with_key(b"\xff\xfe\x80", 0) + with_key(b"\xff\xfe\x80", 2), BACKLOG)
    plain = made(with_key(b"KEY", 0) + with_key(b"KEY", 2), BACKLOG)[0]
    assert chunk.count == 4
    assert bytes(chunk.data).replace(b"\xff\xfe\x80", b"KEY") == bytes(plain.data)


@pytest.mark.parametrize(
    ("magic", "codec"),
    # Before 0.10 there was no LZ4 that others could read (KAFKA-3160).
    [(0, NONE), (0, GZIP), (0, SNAPPY), (1, NONE), (1, GZIP), (1, SNAPPY), (1, LZ4)],
)
def test_messages_from_before_0_11_are_rebuilt(magic: Literal[0, 1], codec: int) -> None:
    data = legacy(magic, codec, 10) + legacy(magic, codec, 13, 2)
    result = made(data, WIDE, 11)
    records = {offset: record for each in result for offset, record in read(each).items()}
    assert list(records) == [11, 12, 13, 14]
    assert [each.timestamp for each in records.values()] == (
        [NOW + 1, NOW + 2, NOW, NOW + 1] if magic else [-1] * 4
    )
    assert {(each.key, each.value, each.headers) for each in records.values()} == {(b"key", b"value", ())}
    assert {each.data[22] & 7 for each in result} == {codec}
    assert {each.leader_epoch for each in result} == {-1}
    assert [each.count for each in made(data, BACKLOG, 11)] == [4]


def test_append_time_of_messages_from_before_0_11() -> None:
    data = bytearray(legacy(1, GZIP, 10))
    data[17] |= 0x08
    struct.pack_into(">q", data, 18, NOW * 2)
    struct.pack_into(">I", data, 12, zlib.crc32(data[16:]))
    (chunk,) = made(bytes(data), WIDE, 10)
    assert [each.timestamp for each in read(chunk).values()] == [NOW * 2] * 3


def unreadable(base: int, *, without: tuple[int, ...] = (), codec: int = GZIP) -> bytes:
    data = bytearray(batch(base, 3, codec=codec, without=without))
    data[61:] = b"\xff" * len(data[61:])
    return sealed(data)


@JOINED
def test_a_batch_that_nobody_can_decode_is_passed_where_it_may(join: BatchPolicy | None) -> None:
    data = batch(0, 1, codec=GZIP) + unreadable(1) + batch(4, 1, codec=GZIP) + batch(5, 1, codec=GZIP)
    result = made(data, BACKLOG, join=join)
    assert [each.segments for each in result] == [((0, 1),), ((1, 3),), ((4, 2),)]
    assert bytes(result[1].data[61:]) == unreadable(1)[61:]
    expected = made(data, replace(BACKLOG, compression=Compression(ZSTD)), join=join)
    assert [each.data[22] & 7 for each in expected] == [ZSTD, GZIP, ZSTD]


@JOINED
@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_nobody_can_decode_and_that_has_a_hole_is_named(
    codec: int, join: BatchPolicy | None
) -> None:
    data = batch(0, 1, codec=codec) + unreadable(1, without=(1,), codec=codec) + batch(4, 1, codec=codec)
    batches = DataBatches.committed(data, 0, (), join).batches
    collected: list[tuple[tuple[int, int], ...]] = []
    with pytest.raises(UnreadableBatch, match="offsets 1 to 3 can't be decoded") as error:
        collected.extend(each.segments for each in chunks(batches, BACKLOG, 0))
    assert collected == [((0, 1),)]
    assert [each.segments for each in chunks(batches, BACKLOG, error.value.last_offset + 1)] == [((4, 1),)]


@pytest.mark.parametrize(
    ("at", "byte"),
    [(61, 0x7E), (61, 0x01), (61, 0x02), (61, 0x00), (61, 0xFF), (-1, 0x80), (60, 2), (60, 4)],
    ids=["past the end", "negative", "short", "nothing", "endless", "tail", "fewer", "more"],
)
def test_records_that_do_not_end_where_they_say_are_not_copied(at: int, byte: int) -> None:
    record = Plain(NOW, b"k", b"v")
    data = bytearray(batch_of([record, None, None, record, record]))
    if at == -1:
        data += bytes([byte])
        struct.pack_into(">i", data, 8, len(data) - 12)
    else:
        data[at] = byte
    with pytest.raises(UnreadableBatch):
        made(sealed(data))


def test_a_record_shorter_than_its_own_numbers_is_not_copied() -> None:
    # The first says two bytes, so that its offset would be the second's length; both together end where they should.
    data = bytearray(batch_of([Plain(NOW, None, None), None]))[:61]
    data += bytes((4, 0, 0)) + bytes((12, 0, 0, 0, 1, 1, 0))
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">ii", data, 53, -1, 2)
    struct.pack_into(">i", data, 23, 2)
    with pytest.raises(UnreadableBatch, match="does not end where it says"):
        made(sealed(data))


def test_a_refused_chunk_is_halved_down_to_the_record() -> None:
    (chunk,) = made(batch(10, 9, codec=ZSTD, without=(2, 3)), start=10)
    offsets, halves = list(read(chunk)), [chunk]
    while any(each.count > 1 for each in halves):
        halves = [half for each in halves for half in (refused(each) or (each,))]
        assert [offset for each in halves for offset in read(each)] == offsets
    assert [each.segments for each in halves] == [((offset, 1),) for offset in offsets]
    assert {(each.leader_epoch, each.data[22] & 7) for each in halves} == {(5, ZSTD)}
    assert [record for each in halves for record in read(each).values()] == list(read(chunk).values())
