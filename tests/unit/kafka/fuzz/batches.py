"""Batches of every codec and format, as the copy, look-ups, audits and followers of topics read them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from random import Random
from typing import Literal

from crc32c import crc32c

from bridge.kafka.consumer.record_lookups import scanned
from bridge.kafka.protocol.log_requests import PartitionData
from bridge.kafka.record import arrow_columns
from bridge.kafka.record.arrow_columns import BrokenRecord
from bridge.kafka.record.batch import CorruptBatch, parse
from bridge.kafka.record.coalescing import DataBatches
from bridge.kafka.record.columns import Records
from bridge.kafka.record.compression import Compression
from bridge.kafka.record.decoding import decode_log, window
from bridge.kafka.record.hashes import OFFSET, digested
from bridge.kafka.record.rebuilding import (
    BatchPolicy,
    CodecSizes,
    RecordTooLarge,
    UnreadableBatch,
    chunks,
    refused,
)
from bridge.model.copying import MOST_BYTES
from bridge.model.lookups import Scan
from bridge.model.values import Side
from tests.unit.kafka.fuzz.mutation import mutated
from tests.unit.kafka.record.guard_pages import guarded_copy
from tests.unit.kafka.record.raw_batches import ABORT, NOW, Plain, batch, batch_of, legacy, marker

_MAGICS: tuple[Literal[0, 1], ...] = (0, 1)
_LARGE = [Plain(NOW, b"k", bytes(20_000)) for _ in range(20)]
_MANY = [Plain(NOW + at, b"k%d" % at, b"some value %d" % at, (("h", b"v"), ("", None))) for at in range(200)]
_GOLDEN = (
    *(batch(0, 3, codec=codec) for codec in range(5)),
    *(batch_of(_MANY, codec=codec) for codec in range(5)),
    *(batch_of(_LARGE, codec=codec) for codec in range(5)),
    *(batch(0, 4, codec=codec, without=(1, 3)) for codec in range(5)),
    *(batch(0, 2, codec=codec, append_time=NOW) for codec in range(5)),
    *(legacy(magic, codec, 0) for magic in _MAGICS for codec in range(3)),
    legacy(1, 3, 0),
    batch(0, 2, producer=7),
    batch(0, 2, producer=8, codec=4),
    marker(0, ABORT, 7),
    marker(0, 1, 8),
)
_HEAD, _CRC_FROM, _LEGACY_CRC_FROM = 61, 21, 16


def case(dice: Random) -> None:
    """Raises for what must not be."""
    data, at = bytearray(), dice.choice((0, 0, 5_000_000_000, (1 << 62)))
    for _ in range(dice.randint(1, 5)):
        one = bytearray(dice.choice(_GOLDEN))
        struct.pack_into(">q", one, 0, at)
        at += 1 + dice.randrange(5)
        if dice.random() < 0.7:
            # Of most only what comes behind the head, so that it is opened; a checksum that is right, nearly always.
            one = mutated(dice, one, _GOLDEN, start=dice.choice((0, 17, 57, _HEAD, _HEAD)))
        data += _sealed(one) if dice.random() < 0.95 else one
    offset = dice.choice((0, 0, 1, at))
    most = dice.choice((MOST_BYTES, 1 << 20, 4096))
    aborted = dice.choice(((), ((7, 0),), ((7, 0), (8, 1))))
    _copy(dice, data, offset, most, aborted)
    _look_up(data, offset, most, aborted)


def _sealed(data: bytearray) -> bytearray:
    """With the length and the checksum that it has now."""
    if len(data) >= _HEAD:
        struct.pack_into(">i", data, 8, len(data) - 12)
        if data[16] == 2:
            struct.pack_into(">I", data, 17, crc32c(bytes(data[_CRC_FROM:])))
        else:
            struct.pack_into(">I", data, 12, zlib.crc32(data[_LEGACY_CRC_FROM:]))
    return data


def _copy(
    dice: Random, data: bytearray, offset: int, most: int, aborted: tuple[tuple[int, int], ...]
) -> None:
    join = dice.choice((None, BatchPolicy(1 << 20, 1 << 20, CodecSizes.all(1 << 20))))
    compression = dice.choice((None, None, Compression(dice.randrange(5))))
    policy = BatchPolicy(1 << 20, 1 << 20, CodecSizes.all(dice.choice((0, 1 << 20))), compression, most)
    try:
        batches = DataBatches.committed(guarded_copy(data).data, offset, aborted, join)
    except CorruptBatch:
        return
    position = offset
    for _ in range(1000):
        try:
            for chunk in chunks(batches.batches, policy, position):
                first, (last, count) = chunk.segments[0][0], chunk.segments[-1]
                assert chunk.count == sum(each for _, each in chunk.segments)
                if dice.random() < 0.1:
                    _halved(bytearray(chunk.data), chunk, most)
                # Of messages from before 0.11 nobody knows the first offset before they are decoded.
                assert first <= last + count or any(each.magic < 2 for each in batches.batches)
                position = max(position, last + count)
            break
        except (UnreadableBatch, RecordTooLarge) as wrong:
            position = (
                max(position, wrong.last_offset if isinstance(wrong, UnreadableBatch) else wrong.offset) + 1
            )
    else:
        raise AssertionError("it comes to no end")
    for batch_ in batches.batches:
        try:
            records = Records.from_batch(batch_, most)
        except MemoryError:
            raise
        except Exception:  # each codec has exceptions of its own
            continue
        _fields(Records(guarded_copy(records.data.tobytes()), records.columns), timed=dice.random() < 0.5)


def _fields(records: Records, *, timed: bool) -> None:
    """Reads them as transforms cut them and audits digest them: both find the same record broken, or none."""

    def digest() -> None:
        assert digested(records, timed=timed)[OFFSET].tolist() == records.columns[0].tolist()

    assert _broken(digest) == _broken(lambda: arrow_columns.cut(records))


def _broken(read: Callable[[], object]) -> int:
    """Returns which record it finds broken, -1 for none."""
    try:
        read()
    except BrokenRecord as wrong:
        return wrong.row
    return -1


def _halved(data: bytearray, chunk: object, most: int) -> None:
    try:
        refused(chunk._replace(data=data) if hasattr(chunk, "_replace") else chunk, most)  # type: ignore[arg-type]
    except UnreadableBatch:
        return


def _look_up(data: bytearray, offset: int, most: int, aborted: tuple[tuple[int, int], ...]) -> None:
    whole = guarded_copy(data).data
    try:
        result = window(whole, offset, offset + 100, aborted, most)
        assert result is None or result.start <= result.end
    except (MemoryError, RecursionError):
        raise
    except Exception:  # as look-ups do: each codec has exceptions of its own
        result = None
    read = decode_log(whole, offset, aborted, most)
    if read is not None:
        log = list(read.records)
        assert all(each.offset >= offset for each in log)
        assert len(read.records) == len(log)
        assert list(read.records) == log
        if result is not None and not read.unreadable and read.end == result.end:
            assert [each.offset for each in result.records if each.offset >= offset] == [
                each.offset for each in log
            ]
    got = PartitionData(0, offset + 100, offset + 100, 0, aborted, bytes(whole))
    try:
        scanned(got, Scan(Side.SOURCE, offset, 1000), committed_only=True)
        list(parse(whole))
    except CorruptBatch:
        return
