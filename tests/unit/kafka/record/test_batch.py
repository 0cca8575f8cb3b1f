"""Batches parsed, told apart and given a new header, against the library's reader."""

from __future__ import annotations

import struct

import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from hypothesis import given
from hypothesis import strategies as st

from bridge.kafka.record.batch import CorruptBatch, parse, passed, stamp
from bridge.kafka.record.coalescing import DataBatches
from bridge.kafka.record.decoding import window
from bridge.kafka.record.rebuilding import passes
from tests.unit.kafka.record.raw_batches import (
    ABORT,
    COMMIT,
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
    marker,
    plain_records,
    sealed,
)

INT64 = st.integers(-(2**63), 2**63 - 1)
BYTES = st.none() | st.binary(max_size=20)
RECORDS = st.lists(
    st.builds(
        Plain,
        st.integers(-(2**62), 2**62) | st.sampled_from([-1, 0, NOW]),
        BYTES,
        BYTES,
        st.lists(st.tuples(st.text("ab", max_size=2), BYTES), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=8,
)


@given(
    RECORDS,
    st.sampled_from([NONE, GZIP, SNAPPY, LZ4, ZSTD]),
    st.integers(0, 2**62),
    st.integers(-1, 5),
    INT64,
    st.integers(-(2**15), 2**15 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.booleans(),
)
def test_a_passed_batch_keeps_its_bytes_under_a_new_header(
    records: list[Plain],
    codec: int,
    base: int,
    owner: int,
    producer: int,
    epoch: int,
    sequence: int,
    transactional: bool,
) -> None:
    data = batch_of(records, base, codec=codec, producer=owner)
    (raw,) = parse(data)
    assert passes(raw, base, len(data))
    chunk = passed(raw)
    assert bytes(chunk.data[21:23]) == bytes((0, codec))
    stamp(chunk.data, 1, 2, 3, not transactional)
    stamp(chunk.data, producer, epoch, sequence, transactional)  # another try

    read = DefaultRecordBatch(bytes(chunk.data))
    assert read.validate_crc()
    assert bytes(chunk.data[61:]) == data[61:]
    assert (read.base_offset, read.last_offset_delta, read.magic) == (0, len(records) - 1, 2)
    assert (read.producer_id, read.producer_epoch, read.base_sequence) == (producer, epoch, sequence)
    assert read.attributes == data[22] & 7 | (0x10 if transactional else 0)
    assert struct.unpack_from(">i", chunk.data, 12) == (-1,)
    assert plain_records(chunk.data) == records
    assert (chunk.count, chunk.segments, chunk.leader_epoch) == (len(records), ((base, len(records)),), 5)
    assert chunk.last_timestamp == max(each.timestamp for each in records)


@given(
    st.lists(st.sampled_from("dctTaAm"), max_size=12), st.integers(0, 30), st.integers(0, 40), st.booleans()
)
def test_what_is_to_be_copied_is_what_a_consumer_reads(
    kinds: list[str], offset: int, cut: int, committed: bool
) -> None:
    """Data, compacted and legacy batches, and two producers' transactions; `window` decodes what a reader sees."""
    data, at, open_since, aborted = b"", 0, dict[int, int](), list[tuple[int, int]]()
    for kind in kinds:
        producer = 8 if kind in "TA" else 7
        if kind in "tT":
            open_since.setdefault(producer, at)
            data += batch(at, 2, producer=producer)
        elif kind in "aA":
            if producer in open_since:
                aborted.append((producer, open_since.pop(producer)))
            data += marker(at, ABORT, producer)
        elif kind == "m":
            data += legacy(1, GZIP, at)
        else:
            data += batch(at, 3, without=(0, 2) if kind == "c" else ())
        at = next(reversed(list(parse(data)))).last_offset + 1
    data = data[: len(data) - cut] if cut < len(data) else data
    batches = DataBatches.committed(data, offset, aborted if committed else None)
    seen = window(data, offset, offset, aborted if committed else ())
    assert batches.incomplete == (seen is None and not any(parse(data)))
    if seen is not None:
        last = max((each.last_offset for each in parse(data)), default=-1)
        assert batches.next_offset == max(offset, last + 1)
        copied = b"".join(each.data for each in batches.batches)
        again = window(copied, offset, offset, ())
        assert again is not None
        assert [each.offset for each in again.records if each.offset >= offset] == [
            each.offset for each in seen.records if each.offset >= offset
        ]


def test_the_epoch_and_the_next_offset_count_control_batches_too() -> None:
    batches = DataBatches.committed(batch(10, 2, producer=7, epoch=4) + marker(12, COMMIT, 7), 10, ())
    assert [(each.base_offset, each.last_offset, each.count) for each in batches.batches] == [(10, 11, 2)]
    assert (batches.next_offset, batches.leader_epoch, batches.incomplete) == (13, -1, False)


def test_aborted_data_is_copied_where_uncommitted_data_is() -> None:
    data = batch(10, 2, producer=7) + marker(12, ABORT, 7)
    assert DataBatches.committed(data, 10, [(7, 10)]).batches == []
    assert len(DataBatches.committed(data, 10, None).batches) == 1


def test_a_window_tells_which_offsets_never_held_data() -> None:
    """Not those that compaction has emptied: a record may have stood there."""
    data = batch(10, 2, producer=7) + marker(12, ABORT, 7) + batch(13, 3, without=(1,)) + batch(16, 1)
    committed, all_data = window(data, 10, 17, [(7, 10)]), window(data, 10, 17, ())
    assert committed is not None
    assert all_data is not None
    assert list(committed.without_data) == [(10, 12), (12, 13)]
    assert list(all_data.without_data) == [(12, 13)]
    assert [each.offset for each in committed.records] == [13, 15, 16]


def test_a_batch_below_the_offset_is_not_copied() -> None:
    batches = DataBatches.committed(batch(10, 3) + batch(13, 3), 13, ())
    assert [each.base_offset for each in batches.batches] == [13]
    assert DataBatches.committed(batch(10, 3), 20, ()) == ([], 20, 5, False)


def test_a_batch_that_compaction_has_emptied_holds_no_data() -> None:
    empty = bytearray(batch(10, 1))[:61]
    struct.pack_into(">i", empty, 8, len(empty) - 12)
    struct.pack_into(">i", empty, 57, 0)
    batches = DataBatches.committed(sealed(empty) + batch(11, 1), 10, ())
    assert [each.base_offset for each in batches.batches] == [11]
    assert DataBatches.committed(sealed(empty), 10, ()) == ([], 11, 5, False)


def test_nothing_fetched_and_too_little_fetched_are_told_apart() -> None:
    assert DataBatches.committed(b"", 10, ()) == ([], 10, -1, False)
    for cut in (1, 17, 61):
        assert DataBatches.committed(batch(10)[:cut], 10, ()) == ([], 10, -1, True)


@pytest.mark.parametrize(
    "last",
    [batch(13), legacy(0, NONE, 13, 1), legacy(1, GZIP, 12, 2)],
    ids=["v2", "v0", "v1, compressed"],  # the bytes themselves have the time in them
)
def test_changed_bytes_are_seen_and_the_offset_is_named(last: bytes) -> None:
    changed = bytearray(last)
    changed[-1] ^= 1
    with pytest.raises(CorruptBatch, match="offset 13 "):
        DataBatches.committed(batch(10, 3) + changed, 10, ())


@pytest.mark.parametrize("length", [-(2**31), -13, -12, 0, 13])
def test_a_length_that_can_not_be_is_seen(length: int) -> None:
    changed = bytearray(batch(13))
    struct.pack_into(">i", changed, 8, length)
    with pytest.raises(CorruptBatch, match="offset 13 "):
        DataBatches.committed(batch(10, 3) + changed, 10, ())


def test_what_does_not_pass() -> None:
    def passing(data: bytes, start: int = 10, limit: int = 10_000) -> bool:
        (raw,) = parse(data)
        return passes(raw, start, limit)

    whole = batch(10, 3)
    assert passing(whole)
    assert passing(whole, limit=len(whole))
    assert passing(batch_of([Plain(NOW, None, None)], 10, delete_horizon=NOW + 5))
    assert not passing(whole, limit=len(whole) - 1)
    assert not passing(whole, start=11)
    assert not passing(batch(10, 3, without=(1,)))
    assert not passing(batch(10, 3, without=(0,)))
    assert not passing(batch(10, 3, without=(2,)))
    assert not passing(batch(10, 3, append_time=NOW))
    assert not passing(legacy(1, NONE, 10, 1))


def test_a_delete_horizon_is_cleared_and_the_timestamps_stay() -> None:
    records = [Plain(NOW, b"k", None), Plain(NOW + 1, b"l", b"v")]
    (raw,) = parse(batch_of(records, 10, delete_horizon=NOW + 90_000))
    assert raw.attributes == 0x40
    chunk = passed(raw)
    stamp(chunk.data, 1, 0, 0, False)
    assert bytes(chunk.data[21:23]) == b"\0\0"
    assert plain_records(chunk.data) == records


def test_a_batch_is_passed_where_it_lies_unless_it_may_not_be_written_to() -> None:
    whole = batch_of([Plain(NOW, b"k", b"v")] * 3)
    fetched = bytearray(whole)
    (mine,), (theirs,) = parse(fetched), parse(whole)
    here, copied = passed(mine), passed(theirs)
    assert here.data == copied.data
    assert isinstance(here.data, memoryview)
    assert here.data.obj is fetched
    assert whole == batch_of([Plain(NOW, b"k", b"v")] * 3)
