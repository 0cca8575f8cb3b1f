"""Batches into chunks: passed as they are where that keeps what they say, else their records put together anew.

A record is cut at its key and copied from there on, so that key, value and headers stay bit for bit; only its length,
timestamp delta and offset delta are written again. The library's own builder would not do: it reads header keys as
UTF-8, and takes a first timestamp of -1 for none (aiokafka 0.14).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, cast

from aiokafka.record.legacy_records import LegacyRecordBatch
from aiokafka.record.util import decode_varint, encode_varint

from bridge.kafka.codecs import DECODE, ENCODE
from bridge.kafka.raw_batches import (
    APPEND_TIME,
    CODEC,
    HEADER_SIZE,
    Chunk,
    RawBatch,
    Record,
    headed,
    parse,
    passed,
    passes,
)

_decode_varint = cast(Callable[[bytes, int], tuple[int, int]], decode_varint)
"""The library's type says bytearray; every buffer will do."""
_PADDING = bytes(40)
"""Behind the records: the library reads numbers of ten bytes at most, without a look at the end."""
_INT64 = 1 << 63


def _wrapped(number: int) -> int:
    """As arithmetic in 64 bits wraps, which timestamps and their deltas do on brokers and clients."""
    return (number + _INT64) % (2 * _INT64) - _INT64


def _encoded(number: int) -> bytes:
    written = bytearray()
    encode_varint(_wrapped(number), written.append)
    return bytes(written)


_VARINTS = tuple(map(_encoded, range(8192)))
"""What most numbers of a record are."""


class RecordTooLarge(ValueError):
    """A single record that the target topic's max.message.bytes has no room for. Sizes in bytes."""

    def __init__(self, offset: int, size: int, limit: int) -> None:
        super().__init__(
            f"The record at offset {offset} takes {size} bytes; max.message.bytes allows {limit}"
        )
        self.offset, self.size, self.limit = offset, size, limit


class UnreadableBatch(ValueError):
    """Nobody can decode the batch though it arrived as it was written, and its own bytes can't be passed. `offset`: of
    its first record; -1 for one from before 0.11, whose header tells the last one only."""

    def __init__(self, offset: int, last_offset: int, why: str) -> None:
        where = (
            f"at offsets {offset} to {last_offset}" if offset >= 0 else f"that ends at offset {last_offset}"
        )
        super().__init__(f"The batch {where} can't be decoded: {why}")
        self.offset, self.last_offset = offset, last_offset


class Small(NamedTuple):
    """Batches of up to so many records and bytes; `compressed`: bytes of those that have to be decoded and encoded."""

    records: int
    bytes: int
    compressed: int


class Limits(NamedTuple):
    """In bytes. `coalesce`: neighbours as small as this are put together into batches of up to `batch_size`, as pays
    when a backlog exists; None: none are."""

    max_message_bytes: int
    batch_size: int
    coalesce: Small | None


def chunks(batches: Sequence[RawBatch], limits: Limits, start_offset: int) -> Iterator[Chunk]:
    """`batches` from `start_offset` on, ready to be produced, in order.

    Raises RecordTooLarge or UnreadableBatch when all before it has been handed out: to leave it out, ask again from
    behind it.
    """
    wanted = (batch for batch in batches if batch.last_offset >= start_offset)
    for group in _groups(wanted, limits):
        first = group[0]
        if len(group) == 1 and passes(first, start_offset, limits.max_message_bytes):
            yield passed(first)
        else:
            yield from _rebuilt(group, limits.max_message_bytes, start_offset)


def refused(chunk: Chunk) -> tuple[Chunk, ...]:
    """The halves of a chunk that the broker has rejected without saying for which record; none of a single record,
    which is the one (its offset is the chunk's first segment's)."""
    if chunk.count == 1:
        return ()
    (batch,) = parse(chunk.data)
    offsets = (start + at for start, count in chunk.segments for at in range(count))
    records = [
        (offset, timestamp, rest)
        for offset, (_, timestamp, rest) in zip(offsets, _decoded(batch), strict=True)
    ]
    codec, middle = batch.attributes & CODEC, chunk.count // 2
    return tuple(_chunk(half, codec, chunk.leader_epoch) for half in (records[:middle], records[middle:]))


def _groups(batches: Iterable[RawBatch], limits: Limits) -> Iterator[list[RawBatch]]:
    """Neighbours that become one batch together, small ones only: of larger ones a batch saved costs too much that is
    rebuilt. Not over a change of codec, nor of leader epoch, which a chunk has one of."""
    most = min(limits.batch_size, limits.max_message_bytes)
    few = limits.coalesce or Small(0, 0, 0)
    plain, compressed = min(few.bytes, most // 2), min(few.compressed, most // 2)
    group: list[RawBatch] = []
    kind: tuple[int, int] | None = None
    room = 0
    for batch in batches:
        size = len(batch.data)
        codec = batch.attributes & CODEC
        small = batch.joined is not None or (
            batch.count <= few.records and size <= (compressed if codec else plain)
        )
        its_kind = (codec, batch.leader_epoch)
        if group and (not small or size > room or its_kind != kind):
            yield group
            group = []
        if not group:
            room, kind = most if small else 0, its_kind
        group.append(batch)
        room -= size
    if group:
        yield group


def _rebuilt(group: Sequence[RawBatch], max_message_bytes: int, start_offset: int) -> Iterator[Chunk]:
    codec, epoch = group[0].attributes & CODEC, group[0].leader_epoch
    records: list[Record] = []
    for batch in group:
        try:
            found = _decoded(batch)
        except UnreadableBatch:
            yield from _fitting(records, codec, epoch, max_message_bytes)
            records = []
            if not passes(batch, start_offset, max_message_bytes):
                raise
            yield passed(batch)
            continue
        # The first offset of a batch from before 0.11 is in its records only.
        records += (
            found if found[0][0] >= start_offset else [each for each in found if each[0] >= start_offset]
        )
    yield from _fitting(records, codec, epoch, max_message_bytes)


def _fitting(
    records: Sequence[Record], codec: int, leader_epoch: int, max_message_bytes: int
) -> Iterator[Chunk]:
    """One chunk, or halves and their halves until each is small enough."""
    if not records:
        return
    whole = _chunk(records, codec, leader_epoch)
    if whole.size <= max_message_bytes:
        yield whole
        return
    if len(records) == 1:
        raise RecordTooLarge(records[0][0], whole.size, max_message_bytes)
    middle = len(records) // 2
    yield from _fitting(records[:middle], codec, leader_epoch, max_message_bytes)
    yield from _fitting(records[middle:], codec, leader_epoch, max_message_bytes)


def _chunk(records: Sequence[Record], codec: int, leader_epoch: int) -> Chunk:
    first_timestamp = records[0][1]
    parts: list[bytes] = []
    # Of all that is done for a record, this is most: no call that can be left out.
    known, known_to = _VARINTS, len(_VARINTS)
    for number, (_, timestamp, rest) in enumerate(records):
        delta = timestamp - first_timestamp
        after = known[delta] if 0 <= delta < known_to else _encoded(delta)
        place = known[number] if number < known_to else _encoded(number)
        size = 1 + len(after) + len(place) + len(rest)
        parts += (known[size] if size < known_to else _encoded(size), b"\0", after, place, rest)
    data = headed(
        (ENCODE[codec](b"".join(parts)),) if codec else parts,
        codec,
        len(records),
        first_timestamp,
        max(record[1] for record in records),
    )
    return Chunk(data, len(records), _segments(records), records[-1][1], leader_epoch)


def _varint(number: int) -> bytes:
    return _VARINTS[number] if 0 <= number < len(_VARINTS) else _encoded(number)


def _segments(records: Sequence[Record]) -> tuple[tuple[int, int], ...]:
    first, last = records[0][0], records[-1][0]
    if last - first + 1 == len(records):
        return ((first, len(records)),)
    segments: list[tuple[int, int]] = []
    start, following = first, first
    for offset, _, _ in records:
        if offset != following:
            segments.append((start, following - start))
            start = offset
        following = offset + 1
    return (*segments, (start, following - start))


def _decoded(batch: RawBatch) -> list[Record]:
    """Never empty. Raises UnreadableBatch."""
    if batch.joined is not None:
        return batch.joined
    first = batch.base_offset if batch.magic == 2 else -1
    try:
        records = _records(batch) if batch.magic == 2 else _legacy_records(batch)
    except Exception as error:  # each codec has exceptions of its own
        raise UnreadableBatch(first, batch.last_offset, str(error) or repr(error)) from error
    if not records:
        raise UnreadableBatch(first, batch.last_offset, "it has no records")
    return records


def _records(batch: RawBatch) -> list[Record]:
    data = b"".join((DECODE[batch.attributes & CODEC](batch.data[HEADER_SIZE:]), _PADDING))
    size, at = len(data) - len(_PADDING), 0
    base, first = batch.base_offset, batch.first_timestamp
    records: list[Record] = []
    for _ in range(batch.count):
        length, begin = _decode_varint(data, at)
        delta, at = _decode_varint(data, begin + 1)  # behind the record's attributes, which are unused
        offset, at = _decode_varint(data, at)
        end = begin + length
        if not at <= end <= size:
            raise ValueError("a record does not end where it says")
        timestamp = first + delta
        if not -_INT64 <= timestamp < _INT64:
            timestamp = _wrapped(timestamp)
        records.append((base + offset, timestamp, data[at:end]))
        at = end
    if at != size:
        raise ValueError(f"{size - at} bytes are left behind its records")
    if batch.attributes & APPEND_TIME:
        return [(offset, batch.max_timestamp, rest) for offset, _, rest in records]
    return records


def _legacy_records(batch: RawBatch) -> list[Record]:
    """Without headers; before 0.10 without a timestamp."""
    return [
        (record.offset, -1 if record.timestamp is None else record.timestamp, _rest(record.key, record.value))
        for record in LegacyRecordBatch(bytes(batch.data), batch.magic)
    ]


def _rest(key: bytes | None, value: bytes | None) -> bytes:
    parts = (_varint(-1 if part is None else len(part)) + (part or b"") for part in (key, value))
    return b"".join((*parts, _varint(0)))
