"""Record batches as bytes: parsed, told apart, and rewritten for a producer of ours. Nothing is decompressed.

Format v2: https://kafka.apache.org/documentation/#recordbatch. What a broker makes of a rewritten batch was found by
sending it: tests/integration/test_raw_batches.py.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.legacy_records import LegacyRecordBatch
from crc32c import crc32c

from bridge.kafka.codecs import DECODE
from bridge.kafka.wire import Piece, Writable

HEADER_SIZE = 61
"""Of a v2 batch; its records follow, compressed together."""
_NO_HEADER = bytes(HEADER_SIZE)
CODEC, APPEND_TIME, TRANSACTIONAL, CONTROL = 0x07, 0x08, 0x10, 0x20
"""Bits of the attributes. 0x40 says that the first timestamp is a delete horizon, which is the cleaner's own; the
records' timestamps are still relative to it."""

_PREFIX = struct.Struct(">qiib")
"""What every format begins with: offset, length, epoch (a checksum before 0.11) and magic."""
_HEADER = struct.Struct(">Ihiqqqhii")
"""The rest of a v2 header, from the checksum on."""
_WHOLE = struct.Struct(">qiibIhiqqqhii")
"""All of a v2 header."""
_CRC_AT, _CHECKED_FROM, _FLAGS_AT, _PRODUCER_AT = 17, 21, 22, 43
_LOG_OVERHEAD = 12
_SMALLEST = 26
"""Bytes of a message of format v0 without key and value."""
_FRONT, _PRODUCER, _CRC = struct.Struct(">qii"), struct.Struct(">qhi"), struct.Struct(">I")
_STRETCH = 32
"""Records that are joined at most: as few as a batch of a backlog may have to be rebuilt with its neighbours."""
_STRETCH_BYTES = 4096
_FIRST_RECORD = b"\0\0\0"
"""What the first record of a batch has behind its length: no attributes, and no distance to the batch's timestamp and
offset."""
_ABORT = b"\0\0\0\0"
"""Key of an abort marker: version 0, type 0."""


Record = tuple[int, int, bytes]
"""Offset, timestamp, and key, value and headers as a v2 batch has them. A bare tuple: there are many."""


class CorruptBatch(ValueError):
    """The bytes are not those that were written; they may be better when fetched again."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"The checksum or the length of the batch at offset {offset} is wrong")
        self.offset = offset


@dataclass(slots=True)  # not frozen: that doubles the cost of a batch
class RawBatch:
    """Header and bytes of a batch, or of a message from before 0.11 (magic 0 or 1). Timestamps in ms, -1 for none.

    Of such a message the offset is that of its last inner one, `count` is -1 (not known), and there is no epoch (-1).
    `joined`: the records of several batches of one, decoded already; `data` is that of all of them.
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
    joined: list[Record] | None = None


def parse(data: Piece, *, checked: bool = False, join: bool = False) -> Iterator[RawBatch]:
    """The complete batches in `data`; a fetch may end in the middle of one. Raises CorruptBatch for a length that no
    batch can have, and when `checked` for a wrong checksum. `join`: neighbours of one plain record each as one."""
    view, at = memoryview(data), 0
    end = len(view)
    while at + _PREFIX.size <= end:
        base, length, epoch, magic = _PREFIX.unpack_from(view, at)
        size = length + _LOG_OVERHEAD
        if size < (_SMALLEST if magic < 2 else HEADER_SIZE):
            raise CorruptBatch(base)
        following = at + size
        if following > end:
            return
        piece = view[at:following]
        if magic < 2:
            if checked and not LegacyRecordBatch(bytes(piece), magic).validate_crc():
                raise CorruptBatch(base)
            timestamp = int.from_bytes(piece[18:26], "big", signed=True) if magic == 1 else -1
            yield RawBatch(base, base, -1, -1, piece[_PREFIX.size], -1, timestamp, timestamp, magic, piece)
        else:
            crc, flags, delta, first, greatest, producer, _, _, count = _HEADER.unpack_from(
                view, at + _CRC_AT
            )
            if checked and crc != crc32c(view[at + _CHECKED_FROM : following]):
                raise CorruptBatch(base)
            if join and count == 1 and 0 <= flags < len(DECODE):
                stretch = _stretch(data, view, at, flags, epoch)
                if stretch is not None:
                    yield stretch
                    at += len(stretch.data)
                    continue
            yield RawBatch(base, base + delta, count, epoch, flags, producer, first, greatest, magic, piece)
        at = following


def _stretch(data: Piece, view: memoryview, start: int, flags: int, epoch: int) -> RawBatch | None:
    """Batches of one record each, of one codec and in no transaction, as many as stand side by side. Producers that
    send each record at once make them by the thousand, and to take each apart by itself costs three times as much.
    None when it would be one only, or something is odd about the first. Raises CorruptBatch."""
    records: list[Record] = []
    at, end, decode = start, min(len(data), start + _STRETCH_BYTES), DECODE[flags] if flags else None
    while at + HEADER_SIZE < end and len(records) < _STRETCH:
        base, length, its_epoch, magic, crc, its_flags, delta, timestamp, _, _, _, _, count = (
            _WHOLE.unpack_from(data, at)
        )
        following = at + length + _LOG_OVERHEAD
        if count != 1 or its_flags != flags or delta or magic != 2 or its_epoch != epoch:
            break
        if not at < following <= end:
            break
        if crc != crc32c(view[at + _CHECKED_FROM : following]):
            raise CorruptBatch(base)
        if decode is None:
            rest = _rest(data, at + HEADER_SIZE, following)
        else:
            try:
                decoded = bytes(decode(view[at + HEADER_SIZE : following]))
            except (
                Exception
            ):  # each codec has exceptions of its own; whoever takes the batch apart says what is wrong
                break
            rest = _rest(decoded, 0, len(decoded))
        if rest is None:
            break
        records.append((base, timestamp, rest))
        at = following
    if len(records) < 2:
        return None
    (first, first_timestamp, _), (last, _, _) = records[0], records[-1]
    greatest = max(timestamp for _, timestamp, _ in records)
    return RawBatch(
        first, last, len(records), epoch, flags, -1, first_timestamp, greatest, 2, view[start:at], records
    )


def _rest(data: Piece, at: int, end: int) -> bytes | None:
    """Key, value and headers of the only record of a batch, which ends at `end`; None when it is not as short and plain
    as most are: a length of two bytes at most, no attributes, at the batch's own timestamp and offset."""
    if end - at < 5:
        return None
    low = data[at]
    begin = at + 1 + (low >> 7)
    twice = 2 * (end - begin)  # lengths are zigzag varints
    long = twice > 0x7F
    if low != (twice & 0x7F | 0x80 if long else twice) or (long and data[at + 1] != twice >> 7):
        return None
    if data[begin : begin + 3] != _FIRST_RECORD:
        return None
    return bytes(data[begin + 3 : end])


class DataFilter:
    """Tells data from control batches and those of aborted transactions, in the order of the log.

    `aborted`: the broker's list of (producer id, first offset) with a read_committed fetch. Each of these ends at its
    producer's next abort marker.
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
            if batch.producer_id in self._aborting and _is_abort(batch):
                self._aborting.discard(batch.producer_id)
            return False
        return not (batch.attributes & TRANSACTIONAL and batch.producer_id in self._aborting)


def _is_abort(batch: RawBatch) -> bool:
    return any((record.key or b"")[:4] == _ABORT for record in DefaultRecordBatch(bytes(batch.data)))


class DataBatches(NamedTuple):
    """The data of one fetch. `next_offset`: past the last complete batch, control and aborted ones too; the fetch's
    own offset when there is none. `leader_epoch`: of that batch, -1 for none or unknown. `incomplete`: bytes have
    come, and no complete batch among them: ask for more."""

    batches: list[RawBatch]
    next_offset: int
    leader_epoch: int
    incomplete: bool

    @classmethod
    def committed(
        cls, data: Piece, offset: int, aborted: Sequence[tuple[int, int]] | None, *, join: bool = False
    ) -> DataBatches:
        """What is to be copied of a fetch at `offset`: batches that hold data at or after it. `aborted` is None where
        data of open and aborted transactions is copied too. `join`: neighbours of one plain record each as one, which
        is how they will be sent. Raises CorruptBatch."""
        batches: list[RawBatch] = []
        following, epoch, complete = offset, -1, False
        data_filter = DataFilter(aborted or ())
        for batch in parse(data, checked=True, join=join):
            complete = True
            if batch.last_offset >= following:
                following = batch.last_offset + 1
            epoch = batch.leader_epoch
            # A batch without records is what compaction keeps of a producer's last sequence.
            if data_filter.is_data(batch) and batch.count and batch.last_offset >= offset:
                batches.append(batch)
        return cls(batches, following, epoch, bool(data) and not complete)


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


def passes(batch: RawBatch, start_offset: int, max_message_bytes: int) -> bool:
    """Whether the broker takes the batch's own bytes under a new header, and keeps what they say.

    Not with a hole (rejected), nor with append time (the bit is dropped, and the producers' timestamps reappear), nor
    when it begins below `start_offset` or is larger than the target's max.message.bytes.
    """
    return (
        batch.magic == 2
        and batch.joined is None
        and batch.last_offset - batch.base_offset + 1 == batch.count
        and not batch.attributes & APPEND_TIME
        and batch.base_offset >= start_offset
        and len(batch.data) <= max_message_bytes
    )


def passed(batch: RawBatch) -> Chunk:
    """The batch's own records under a new header. Of its flags only the codec is left: the target's cleaner would
    take a delete horizon for its own. Overwrites the batch, if it is where it can be written to."""
    data = memoryview(bytearray(batch.data)) if batch.data.readonly else batch.data
    _FRONT.pack_into(data, 0, 0, len(data) - _LOG_OVERHEAD, -1)
    data[_FLAGS_AT - 1 : _FLAGS_AT + 1] = bytes((0, batch.attributes & CODEC))
    _PRODUCER.pack_into(data, _PRODUCER_AT, -1, -1, -1)
    segments = ((batch.base_offset, batch.count),)
    return Chunk(data, batch.count, segments, batch.max_timestamp, batch.leader_epoch)


def headed(
    records: Iterable[bytes], codec: int, count: int, first_timestamp: int, max_timestamp: int
) -> bytearray:
    """A batch of `count` records, encoded and compressed already, in pieces, as a producer makes it. Timestamps in
    ms."""
    data = bytearray().join((_NO_HEADER, *records))
    _PREFIX.pack_into(data, 0, 0, len(data) - _LOG_OVERHEAD, -1, 2)
    _HEADER.pack_into(data, _CRC_AT, 0, codec, count - 1, first_timestamp, max_timestamp, -1, -1, -1, count)
    return data


def stamp(data: Writable, producer_id: int, epoch: int, sequence: int, transactional: bool) -> None:
    """Writes producer, sequence of the first record and transactional bit into a chunk's data, and then its checksum.
    May be done again, for another try."""
    _PRODUCER.pack_into(data, _PRODUCER_AT, producer_id, epoch, sequence)
    data[_FLAGS_AT] = data[_FLAGS_AT] & CODEC | (TRANSACTIONAL if transactional else 0)
    _CRC.pack_into(data, _CRC_AT, crc32c(memoryview(data)[_CHECKED_FROM:]))
