"""Record batches as brokers send them: made by the library's builders, then cut, joined and marked."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Literal, NamedTuple

from aiokafka import codec as codecs
from aiokafka.record.default_records import DefaultRecordBatch, _DefaultRecordBatchBuilderPy
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from bridge.kafka.protocol.wire import BytesLike

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
ABORT, COMMIT = 0, 1
NOW = 1_700_000_000_000


_ENCODE = (bytes, codecs.gzip_encode, codecs.snappy_encode, codecs.lz4_encode, codecs.zstd_encode)


class Plain(NamedTuple):
    """The fields of a record that a batch keeps."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def batch_of(
    records: Sequence[Plain | None],
    base: int = 0,
    *,
    codec: int = NONE,
    producer: int = -1,
    epoch: int = 5,
    append_time: int | None = None,
    delete_horizon: int | None = None,
) -> bytes:
    """Returns a batch of `records` at the offsets from `base` on; None for one that compaction has taken, the last one
    perhaps."""
    # Not the compiled builder: it takes a first timestamp of -1 for none (aiokafka 0.14).
    builder = _DefaultRecordBatchBuilderPy(
        magic=2,
        compression_type=NONE,
        is_transactional=producer >= 0,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        batch_size=1 << 30,
    )
    if delete_horizon is not None:
        builder._first_timestamp, builder._max_timestamp = delete_horizon, -1
    for delta, record in enumerate(records):
        if record is not None:
            builder.append(delta, record.timestamp, record.key, record.value, list(record.headers))
    data = bytearray(builder.build())
    # Compressed as Java does, which keeps the codec when that gains nothing.
    data[61:] = _ENCODE[codec](bytes(data[61:]))
    data[22] |= codec
    struct.pack_into(">q", data, 0, base)
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">i", data, 12, epoch)
    struct.pack_into(">i", data, 23, len(records) - 1)
    if append_time is not None:
        data[22] |= 0x08
        struct.pack_into(">q", data, 35, append_time)
    if delete_horizon is not None:
        data[22] |= 0x40
    return sealed(data)


def batch(
    base: int,
    count: int = 3,
    *,
    codec: int = NONE,
    producer: int = -1,
    epoch: int = 5,
    without: Sequence[int] = (),
    append_time: int | None = None,
) -> bytes:
    """Returns a batch of `count` offsets from `base`; `without`: deltas that compaction has taken."""
    records = [
        None
        if delta in without
        else Plain(NOW + base + delta, b"key", b"value-%d" % (base + delta), (("h", b"1"),))
        for delta in range(count)
    ]
    return batch_of(records, base, codec=codec, producer=producer, epoch=epoch, append_time=append_time)


def sealed(data: bytearray) -> bytes:
    """Returns the batch with the checksum that its content has now."""
    struct.pack_into(">I", data, 17, calc_crc32c(bytes(data[21:])))
    return bytes(data)


def marker(offset: int, kind: int, producer: int) -> bytes:
    """A control batch: the end of a transaction."""
    builder = _DefaultRecordBatchBuilderPy(
        magic=2,
        compression_type=NONE,
        is_transactional=True,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    builder.append(0, NOW, struct.pack(">hh", 0, kind), b"\0\0\0\0\0\0", [])
    data = bytearray(builder.build())
    struct.pack_into(">q", data, 0, offset)
    struct.pack_into(">h", data, 21, 0x30)
    return sealed(data)


def legacy(magic: Literal[0, 1], codec: int, base: int, count: int = 3, value: bytes = b"value") -> bytes:
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=codec, batch_size=1 << 20)
    for number in range(count):
        # From 0.10 on, the records inside a compressed message are numbered from 0.
        inside = number if codec and magic == 1 else base + number
        builder.append(inside, NOW + number if magic else None, b"key", value)
    data = bytearray(builder.build())
    if codec:
        struct.pack_into(">q", data, 0, base + count - 1)
    return bytes(data)


def plain_records(data: BytesLike) -> list[Plain]:
    """As the library reads the batch that `data` is."""
    return [
        Plain(each.timestamp, each.key, each.value, tuple(each.headers))
        for each in DefaultRecordBatch(bytes(data))
    ]
