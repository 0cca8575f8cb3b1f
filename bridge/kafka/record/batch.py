"""Parses record batches, tells data from markers, and writes the headers of a producer of ours. Decompresses nothing.

Format v2: https://kafka.apache.org/documentation/#recordbatch. What a broker makes of a rewritten batch was found by
sending it: tests/integration/test_batch.py.

Reads what the header of a batch tells of its records, where no more than the header may have come.

Finds out how far a batch reaches that nobody can read: one that bytes were lost of where it is stored. Pure.

    [ base, length ][ … checksum … last offset delta … records ] [ the next batch ]

The checksum covers neither the base offset nor the length, and what it covers may be what is damaged. So what follows a
damaged batch is known only by what stands there: the next batch, if that is whole, or the end of the log.
"""

from __future__ import annotations

import heapq
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatch
from crc32c import crc32c

from bridge.kafka.protocol.wire import BytesLike, Writable

if TYPE_CHECKING:
    from bridge.kafka.record.loops import Numbers


HEADER_SIZE = 61
"""Of a v2 batch; its records follow, compressed together."""
CODEC, APPEND_TIME, TRANSACTIONAL, CONTROL = 0x07, 0x08, 0x10, 0x20
"""Bits of the attributes. 0x40 says that the first timestamp is a delete horizon, which is the cleaner's own; the
records' timestamps are still relative to it."""

_PREFIX = struct.Struct(">qiib")
"""What every format begins with: offset, length, epoch (a checksum before 0.11) and magic."""
_HEADER = struct.Struct(">Ihiqqqhii")
"""The rest of a v2 header, from the checksum on."""
_WHOLE = struct.Struct(">qiibIhiqqq6xi")
"""Both, without the producer's epoch and sequence: read in one go, for batches of one record come by the thousand."""
_MAGIC_AT = 16
CHECKED_FROM = 21
"""Where in a v2 batch what its checksum is of begins."""
_CRC_AT, _FLAGS_AT, _PRODUCER_AT = 17, 22, 43
_TIMESTAMPS, _TIMESTAMPS_AT = struct.Struct(">qq"), 27
_LOG_OVERHEAD = 12
_SMALLEST, _LEGACY_CRC_FROM, _LEGACY_FLAGS = 26, 16, 0x0F
"""Of a message of format v0 without key and value: its bytes; where what its checksum is of begins; and the attributes
that there were."""
_MOST_OFFSET, _MOST_MARKER = (1 << 63) - 2, 4096
"""The last offset that one can follow, and the bytes of a control batch, which are some eighty."""
_FRONT, _PRODUCER, _CRC = struct.Struct(">qii"), struct.Struct(">qhi"), struct.Struct(">I")
_ABORT = b"\0\0\0\0"
"""Key of an abort marker: version 0, type 0."""
_INT32, _FORMAT_AT = struct.Struct(">i"), 16
_LENGTH_AT, _DELTA_AT, _OVERHEAD = 8, 23, 12
_LENGTH, _LAST_DELTA = struct.Struct(">qi"), struct.Struct(">i")
_LAST_DELTA_AT = 23


class CorruptBatch(ValueError):
    """The bytes are not those that were written; they may be better when fetched again."""

    def __init__(self, offset: int) -> None:
        super().__init__(
            f"The checksum, the length or another number of the batch at offset {offset} is wrong"
        )
        self.offset = offset


@dataclass(slots=True)  # not frozen: that doubles the cost of a batch
class RawBatch:
    """Header and bytes of a batch, or of a message from before 0.11 (magic 0 or 1). Timestamps in ms, -1 for none.

    Of such a message the offset is that of its last inner one, `count` is -1 (not known), and there is no epoch (-1).
    `heads`: of several neighbours that are coalesced, a row each (loops); `data` is that of all of them.
    """

    base_offset: int
    last_offset: int
    count: int
    leader_epoch: int
    attributes: int
    producer_id: int
    first_timestamp: int
    max_timestamp: int
    magic: int
    data: memoryview
    heads: Numbers | None = None


def parse(data: BytesLike, *, checked: bool = False) -> Iterator[RawBatch]:
    """The complete batches in `data`; a fetch may end in the middle of one. Raises CorruptBatch for a length, a format
    or offsets that no batch can have, for one that begins before the one in front of it ends, and when `checked` for a
    wrong checksum."""
    view, position, end = memoryview(data), 0, 0
    while (batch := batch_at(view, position, checked=checked)) is not None:
        if batch.base_offset < end:
            raise CorruptBatch(batch.base_offset)
        end = batch.last_offset + 1
        yield batch
        position += len(batch.data)


def batch_at(view: memoryview, at: int, *, checked: bool) -> RawBatch | None:
    """The batch that begins there; None when it is not complete. Raises as `parse` does."""
    end = len(view)
    if at + HEADER_SIZE > end or view[at + _MAGIC_AT] != 2:
        return _other_at(view, at, checked=checked)
    base, length, epoch, _, crc, flags, delta, first, greatest, producer, count = _WHOLE.unpack_from(view, at)
    following: int = at + length + _LOG_OVERHEAD
    if following < at + HEADER_SIZE or base < 0 or base > _MOST_OFFSET:
        raise CorruptBatch(base)
    if following > end:
        return None
    last: int = base + delta
    if delta < 0 or last > _MOST_OFFSET:
        raise CorruptBatch(base)
    if checked and crc != crc32c(view[at + CHECKED_FROM : following]):
        raise CorruptBatch(base)
    return RawBatch(base, last, count, epoch, flags, producer, first, greatest, 2, view[at:following])


def _other_at(view: memoryview, at: int, *, checked: bool) -> RawBatch | None:
    """A message from before 0.11, or None for the beginning of a batch. Raises CorruptBatch."""
    if at + _PREFIX.size > len(view):
        return None
    base, length, _, magic = _PREFIX.unpack_from(view, at)
    following = at + length + _LOG_OVERHEAD
    if (
        length + _LOG_OVERHEAD < (_SMALLEST if magic < 2 else HEADER_SIZE)
        or not 0 <= magic <= 2
        or not 0 <= base <= _MOST_OFFSET
    ):
        raise CorruptBatch(base)
    if following > len(view):
        return None
    piece = view[at:following]
    if checked and _CRC.unpack_from(piece, _LOG_OVERHEAD)[0] != zlib.crc32(piece[_LEGACY_CRC_FROM:]):
        raise CorruptBatch(base)
    timestamp = int.from_bytes(piece[18:26], "big", signed=True) if magic == 1 else -1
    attributes = piece[_PREFIX.size] & _LEGACY_FLAGS
    return RawBatch(base, base, -1, -1, attributes, -1, timestamp, timestamp, magic, piece)


class DataFilter:
    """Tells data from control batches and those of aborted transactions, in the order of the log.

    `aborted`: the broker's list of (producer id, first offset) with a read_committed fetch. Each of these ends at its
    producer's next abort marker. Where a marker can't be read nobody can tell what is data behind it: CorruptBatch.
    """

    def __init__(self, aborted: Sequence[tuple[int, int]]) -> None:
        self._pending = [(first, producer) for producer, first in aborted]
        heapq.heapify(self._pending)
        self._aborting: set[int] = set()

    def is_data(self, batch: RawBatch) -> bool:
        if not batch.attributes & (CONTROL | TRANSACTIONAL):
            return True
        while self._pending and self._pending[0][0] <= batch.last_offset:
            self._aborting.add(heapq.heappop(self._pending)[1])
        if batch.attributes & CONTROL:
            if batch.producer_id in self._aborting and is_abort(batch):
                self._aborting.discard(batch.producer_id)
            return False
        return not (batch.attributes & TRANSACTIONAL and batch.producer_id in self._aborting)


def is_abort(batch: RawBatch) -> bool:
    """Whether a control batch is the marker of an aborted transaction. Raises CorruptBatch for what is no marker."""
    if batch.attributes & CODEC or len(batch.data) > _MOST_MARKER:
        raise CorruptBatch(batch.base_offset)
    try:
        return any((record.key or b"")[:4] == _ABORT for record in DefaultRecordBatch(bytes(batch.data)))
    except Exception:  # whatever the library does with what is no record
        raise CorruptBatch(batch.base_offset) from None


@dataclass(frozen=True, slots=True)
class Chunk:
    """One batch that is ready to be produced once it is stamped: v2, base offset 0, without holes.

    `segments`: (upstream offset of the first, count) of records that follow each other on the source, in order.
    `last_timestamp`: of the last record, in ms, -1 for none; of a batch that was passed the greatest, because only its
    header is read. `leader_epoch` is the source's.
    """

    data: Writable
    count: int
    segments: tuple[tuple[int, int], ...]
    last_timestamp: int
    leader_epoch: int

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def timestamps(self) -> tuple[int, int]:
        """The first and the greatest in its header, -1 for none. The first may be the cleaner's delete horizon."""
        first, greatest = _TIMESTAMPS.unpack_from(self.data, _TIMESTAMPS_AT)
        return first, greatest


def passed(batch: RawBatch) -> Chunk:
    """The batch's own records under a new header. Of its flags only the codec is left: the target's cleaner would
    take a delete horizon for its own. Overwrites the batch, if it is where it can be written to."""
    data = memoryview(bytearray(batch.data)) if batch.data.readonly else batch.data
    _FRONT.pack_into(data, 0, 0, len(data) - _LOG_OVERHEAD, -1)
    data[_FLAGS_AT - 1 : _FLAGS_AT + 1] = bytes((0, batch.attributes & CODEC))
    _PRODUCER.pack_into(data, _PRODUCER_AT, -1, -1, -1)
    segments = ((batch.base_offset, batch.count),)
    return Chunk(data, batch.count, segments, batch.max_timestamp, batch.leader_epoch)


def headed(data: Writable, codec: int, count: int, first_timestamp: int, max_timestamp: int) -> None:
    """Writes the header of a producer's batch to where `data` has room for it, in front of `count` records, which are
    encoded and compressed already. Timestamps in ms."""
    _PREFIX.pack_into(data, 0, 0, len(data) - _LOG_OVERHEAD, -1, 2)
    _HEADER.pack_into(data, _CRC_AT, 0, codec, count - 1, first_timestamp, max_timestamp, -1, -1, -1, count)


def stamp(data: Writable, producer_id: int, epoch: int, sequence: int, transactional: bool) -> None:
    """Writes producer, sequence of the first record and transactional bit into a chunk's data, and then its checksum.
    May be done again, for another try."""
    _PRODUCER.pack_into(data, _PRODUCER_AT, producer_id, epoch, sequence)
    data[_FLAGS_AT] = data[_FLAGS_AT] & CODEC | (TRANSACTIONAL if transactional else 0)
    _CRC.pack_into(data, _CRC_AT, crc32c(memoryview(data)[CHECKED_FROM:]))


def bytes_an_offset(data: BytesLike) -> float | None:
    """Bytes that an offset of the first batch takes, as it is stored; None for what is no whole header of a batch of
    format v2."""
    view = memoryview(data)
    if len(view) < HEADER_SIZE or view[_FORMAT_AT] != 2:
        return None
    (length,), (delta,) = _INT32.unpack_from(view, _LENGTH_AT), _INT32.unpack_from(view, _DELTA_AT)
    if length <= 0 or delta < 0:
        return None
    return float((length + _OVERHEAD) / (delta + 1))


class Damage(NamedTuple):
    """A damaged batch. `offset`: of its first record that is needed; `end`: of what follows, None for not known."""

    offset: int
    end: int | None
    why: str


def damage(data: BytesLike, offset: int, log_end: int) -> Damage:
    """Describes the damaged batch with which `data` begins, of a fetch at `offset`; `log_end`: where what may be read
    of the log ends."""
    view = memoryview(data)
    base, length = _LENGTH.unpack_from(view)
    following = _LENGTH.size + length
    if not HEADER_SIZE <= following <= len(view):
        said = f"the batch at offset {offset} says that it has {following} bytes, and {len(view)} have come"
        return Damage(offset, None, said)
    why = str(CorruptBatch(offset))
    try:
        after = batch_at(view, following, checked=True)
    except CorruptBatch:
        return Damage(offset, None, why)
    if after is not None:
        return Damage(offset, after.base_offset if after.base_offset > offset else None, why)
    (delta,) = _LAST_DELTA.unpack_from(view, _LAST_DELTA_AT)
    is_last = following == len(view) and base + delta + 1 == log_end
    return Damage(offset, log_end if is_last and log_end > offset else None, why)
