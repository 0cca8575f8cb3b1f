"""Decodes fetched record batches into the data records of a Window (no control records, none of aborted transactions)
or of a log that is read through (no control records).

What is decompressed at a time has a limit. The library reads the records of what is decompressed already: its own way
has none.

Reads messages from before 0.11 (magic 0 and 1), one by itself or many in a compressed one.

The library's reader of these would not do: a length of -12 inside a compressed message keeps it busy for ever (aiokafka
0.14), and it has no limit to what it decompresses.

Tells committed records from others by the markers of their transactions, behind a log's last stable offset. Pure.

    T1 T1 T2 N T2 C2 N           N: outside of transactions    C2: commit marker of T2
    ^ last stable offset: T1 is open
          decided: T2 N T2 N     undecided: T1 T1

Where a broker answers read_committed, it tells of nothing behind the beginning of the oldest open transaction, which
somebody else may never end. What stands there is told apart here: a transaction's records count once its commit marker
is read. All transactions that began before that place have ended, so that their markers stand behind it too, or before
all of their records there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from aiokafka.record.default_records import DefaultRecordBatch

from bridge.kafka.protocol.wire import BytesLike
from bridge.kafka.record.batch import (
    APPEND_TIME,
    CODEC,
    CONTROL,
    HEADER_SIZE,
    TRANSACTIONAL,
    CorruptBatch,
    DataFilter,
    RawBatch,
    is_abort,
    parse,
)
from bridge.kafka.record.compression import LZ4, decoded
from bridge.model.codecs import CODEC_NAMES
from bridge.model.copying import BYTES_A_RECORD, MOST_BYTES, Overlarge, limit
from bridge.model.lookups import Window
from bridge.model.values import LogRecord, RecordView

_FRONT = struct.Struct(">qiIbb")
"""Offset, length, checksum, magic and attributes."""
_INT32, _INT64 = struct.Struct(">i"), struct.Struct(">q")
_LOG_OVERHEAD = 12
_CODEC, _APPEND_TIME = 0x07, 0x08
_KNOWN = len(CODEC_NAMES) - 1
"""The last codec's number."""
_PART = 4
"""Of the bytes that a batch may have, for one whose records are read one by one: as objects, which look-ups make of all
at once, they take some eight times as much memory."""
_LEAST_RECORD = 7
"""Its bytes without key, value and headers."""
_UNCOUNTED, _MOST_HEADERS = 8 * 1024 * 1024, 500_000
"""Bytes of records up to which their headers need not be counted, and how many a larger batch may have: one takes two
bytes, and a hundred as objects."""
_FLAGS_AT = 22
_MORE, _BEHIND = 0x80, bytes(16)
"""The bit of a byte that says that a number goes on, and what the library may look at where it does behind the end."""


class LegacyMessage(NamedTuple):
    """A message of formats 0 and 1. `timestamp` in ms, -1 for none."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None

    @property
    def headers(self) -> list[object]:
        """There were none yet."""
        return []


def messages(data: memoryview, most: int) -> list[LegacyMessage]:
    """Reads what one message holds. Raises ValueError for what is none, Overlarge for more than `most` bytes, and what
    codecs do."""
    outer, attributes, magic, end = _message(data, 0)
    if end != len(data):
        raise ValueError("a message does not end where it says")
    codec = attributes & _CODEC
    if not codec:
        return [outer]
    if outer.value is None or codec >= _KNOWN or (codec == LZ4 and not magic):
        raise ValueError(f"there is no compression codec {codec} in messages of format {magic}")
    inside = memoryview(decoded(codec, memoryview(outer.value), limit(len(outer.value), most)))
    messages_read, position = list[LegacyMessage](), 0
    while position < len(inside):
        message, inner, _, position = _message(inside, position)
        if inner & _CODEC:
            raise ValueError("a message is compressed twice")
        messages_read.append(
            message._replace(timestamp=outer.timestamp) if attributes & _APPEND_TIME else message
        )
    # From 0.10 on they are numbered from 0, and the one around them has the offset of the last.
    shift = outer.offset - messages_read[-1].offset if messages_read and magic else 0
    if shift > 0:
        messages_read = [message._replace(offset=message.offset + shift) for message in messages_read]
    offsets = [-1, *(message.offset for message in messages_read)]
    if any(one >= other for one, other in pairwise(offsets)) or (
        messages_read and offsets[-1] != outer.offset
    ):
        raise ValueError("its messages have other offsets than it says")
    return messages_read


def _message(data: memoryview, at: int) -> tuple[LegacyMessage, int, int, int]:
    """Reads a message, with its attributes, its magic, and where it ends."""
    if len(data) - at < _FRONT.size:
        raise ValueError("a message is cut short")
    offset, length, _, magic, attributes = _FRONT.unpack_from(data, at)
    end, begin = at + _LOG_OVERHEAD + length, at + _FRONT.size
    if magic not in (0, 1) or not begin <= end <= len(data):
        raise ValueError("a message does not end where it says")
    timestamp = -1
    if magic:
        (timestamp,), begin = _INT64.unpack_from(data[:end], begin), begin + _INT64.size
    key, begin = _bytes(data, begin, end)
    value, begin = _bytes(data, begin, end)
    if begin != end:
        raise ValueError("a message does not end where it says")
    return LegacyMessage(offset, timestamp, key, value), attributes, magic, end


def _bytes(data: memoryview, at: int, end: int) -> tuple[bytes | None, int]:
    """Reads a byte string, with where it ends."""
    (size,), begin = _INT32.unpack_from(data[:end], at), at + _INT32.size
    if not -1 <= size <= end - begin:
        raise ValueError("a message does not end where it says")
    return (None, begin) if size < 0 else (bytes(data[begin : begin + size]), begin + size)


_Decompressed = list[LegacyMessage] | bytes | bytearray | memoryview
"""Messages from before 0.11, or a whole v2 batch without its compression."""


def window(
    data: BytesLike, offset: int, log_end: int, aborted: Sequence[tuple[int, int]], most: int = MOST_BYTES
) -> Window | None:
    """The window that `opened` opens."""
    return opened(data, offset, log_end, aborted, most)[0]


def opened(
    data: BytesLike, offset: int, log_end: int, aborted: Sequence[tuple[int, int]], most: int = MOST_BYTES
) -> tuple[Window | None, int]:
    """The window that a fetch at `offset` has opened, and how many bytes its records take. It ends before a batch that
    nobody can decode, unless that is the first: then what is wrong is raised.

    `log_end` is what could be read (high watermark or last stable offset). `aborted` is the broker's list of (producer
    id, first offset). None when `data` has bytes but no complete batch: ask for more. `most`: bytes that a batch may
    have; a window has a part of it.
    """
    records: list[RecordView] = []
    without_data: list[tuple[int, int]] = []
    start, end, epoch, append_time = offset, offset, -1, False
    room = most = most // _PART
    data_filter = DataFilter(aborted)
    first = True
    for batch in parse(data):
        holds_data = data_filter.is_data(batch)
        if holds_data:
            try:
                inner, size = _records(batch, most, room)
            except Exception:  # each codec has exceptions of its own
                if first:
                    raise
                break
            room -= size
            records += inner
            append_time = append_time or bool(batch.attributes & APPEND_TIME)
            if batch.magic < 2 and inner:
                start = min(start, inner[0].offset)
        else:
            without_data.append((batch.base_offset, batch.last_offset + 1))
        if first:
            start, epoch, first = min(start, batch.base_offset), batch.leader_epoch, False
        elif batch.leader_epoch != epoch:
            epoch = -1
        end = batch.last_offset + 1
    if end == offset:
        # Nothing at or after the offset: what could be read ends here (or is a compacted tail).
        return (None if data else Window(offset, max(offset, log_end), (), epoch)), 0
    return Window(start, end, records, epoch, without_data, append_time), most - room


class DecodedRecords:
    """Records of a log in its order. Each is verified when its batch is added, and made anew whenever they are
    iterated: to have all as objects at once takes more than half of the time in which a long topic is read."""

    def __init__(self) -> None:
        self._batches: list[tuple[_Decompressed, int]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[LogRecord]:
        for content, start in self._batches:
            for view in _records_in(content):
                if view.offset >= start:
                    # A NamedTuple's own constructor takes twice as long, for each of a million records.
                    yield tuple.__new__(LogRecord, (view.offset, view.timestamp, view.key, view.value))

    def add(self, batch: RawBatch, content: _Decompressed, start: int) -> None:
        """Adds those from offset `start` on. Raises ValueError and what decoding a record raises, and adds nothing
        then."""
        offsets = [view.offset for view in _records_in(content)]
        if offsets:
            _verify_offsets(batch, offsets[0], offsets[-1])
        count = (
            len(offsets) if offsets and offsets[0] >= start else sum(offset >= start for offset in offsets)
        )
        if count:
            self._batches.append((content, start))
            self._count += count


class DecodedLog(NamedTuple):
    """Records of a log from an offset on, as far as they were fetched. `end`: the offset to go on at."""

    records: DecodedRecords
    end: int
    leader_epoch: int
    """The leader epoch of the last batch; -1 when there is none, or from a log older than 0.11."""
    unreadable: int
    """Batches that arrived as they were written, and that nobody can decode."""


def decode_log(
    data: BytesLike, offset: int, aborted: Sequence[tuple[int, int]] = (), most: int = MOST_BYTES
) -> DecodedLog | None:
    """Finds all data records at or after `offset` but those of `aborted` (producer id, first offset) transactions,
    which a broker lists for read_committed. None when a checksum is wrong: the bytes are not those that were written,
    and may be better when fetched again. `most`: bytes that a batch may have; where several have more together the
    answer ends between them."""
    records = DecodedRecords()
    end, epoch, unreadable = offset, -1, 0
    room = most = most // _PART
    data_filter = DataFilter(aborted)
    try:
        batches = [(batch, data_filter.is_data(batch)) for batch in parse(data, checked=True)]
    except CorruptBatch:
        return None
    for number, (batch, holds_data) in enumerate(batches):
        if holds_data:
            try:
                content, size = _decompressed(batch, most, room)
                records.add(batch, content, offset)
                room -= size
            except Exception as error:  # each codec has exceptions of its own
                if number and room < most and isinstance(error, Overlarge):
                    break  # it may have room in an answer of its own
                unreadable += 1
        end, epoch = max(end, batch.last_offset + 1), batch.leader_epoch
    return DecodedLog(records, end, epoch, unreadable)


def _records(batch: RawBatch, most: int, room: int) -> tuple[Sequence[RecordView], int]:
    """Decodes a batch's records, with how many bytes they take. Raises as `_decompressed`."""
    content, size = _decompressed(batch, most, room)
    records = list(_records_in(content))
    if records:
        _verify_offsets(batch, records[0].offset, records[-1].offset)
    return records, size


def _decompressed(batch: RawBatch, most: int, room: int) -> tuple[_Decompressed, int]:
    """Decompresses a batch: what `_records_in` reads, with how many bytes it takes, at most `most`, and `room` where it
    is compressed. Raises Overlarge, ValueError, and whatever the codec raises."""
    # Batches of one record come by the thousand: there each call and each slice of these counts.
    data, count = batch.data, batch.count
    if batch.magic < 2:
        return messages(data, min(most, room)), len(data)
    if count * BYTES_A_RECORD > most:
        raise Overlarge(most)
    size = 0
    whole: bytes | bytearray
    if codec := batch.attributes & CODEC:
        packed = data[HEADER_SIZE:]
        content = decoded(codec, packed, min(room, limit(len(packed), most)))
        size = len(content)
        whole = bytearray(data[:HEADER_SIZE])
        whole[_FLAGS_AT] &= ~CODEC
        whole += content
    else:
        whole = bytes(data)
    length = len(whole)
    if count * _LEAST_RECORD > length - HEADER_SIZE:
        raise ValueError("it has more records than bytes for them")
    if length > _UNCOUNTED and _has_more_headers(memoryview(whole)[HEADER_SIZE:], count):
        raise Overlarge(most)
    # Each is a copy of what was fetched, whose buffer may be gone when records are read. And the library looks behind
    # the end of a batch that has fewer records than it says, and of one that ends in the middle of a number, or seems
    # to.
    return whole if whole[-1] < _MORE else memoryview(b"".join((whole, _BEHIND)))[:length], size


def _records_in(content: _Decompressed) -> Iterable[RecordView]:
    return content if isinstance(content, list) else DefaultRecordBatch(content)


def _verify_offsets(batch: RawBatch, first: int, last: int) -> None:
    """Raises ValueError where records have other offsets than their batch. `messages` verifies those of older ones: of
    such a batch only the last offset is known."""
    if batch.magic >= 2 and (first < batch.base_offset or last > batch.last_offset):
        raise ValueError("its records have other offsets than it says")


def _has_more_headers(data: memoryview, records: int) -> bool:
    """Whether there are more headers than a batch may have. Raises ValueError for what is no record."""
    position = headers = 0
    for _ in range(records):
        length, begin = _varint(data, position)
        _, rest = _varint(data, begin + 1)
        _, rest = _varint(data, rest)
        for _ in range(2):
            size, rest = _varint(data, rest)
            rest += max(0, size)
        count, rest = _varint(data, rest)
        headers, position = headers + count, begin + length
        if count < 0 or length < 0 or rest > position:
            raise ValueError("a record does not end where it says")
        if headers > _MOST_HEADERS:
            return True
    return False


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """A zigzag varint, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value >> 1 ^ -(value & 1), at
    raise ValueError("a record does not end where it says")


class Decided(NamedTuple):
    """Records that are known to be committed since the last part of the log; `end`, `leader_epoch` and `unreadable` as
    of DecodedLog."""

    records: list[LogRecord]
    end: int
    leader_epoch: int
    unreadable: int


class OpenTransactions:
    """The transactions that are open, as far as a log is read from its last stable offset on."""

    def __init__(self) -> None:
        self._open: dict[int, list[LogRecord]] = {}
        """By producer id."""
        self._newest: dict[bytes | None, int] = {}
        """Offsets of records that were told, by key: one that is decided later does not follow a newer one."""

    def __bool__(self) -> bool:
        return bool(self._open)

    @property
    def begin(self) -> int:
        """Where the oldest one does. Only while there is one."""
        return min(records[0].offset for records in self._open.values())

    @property
    def undecided(self) -> list[LogRecord]:
        return sorted(record for records in self._open.values() for record in records)

    def read(self, data: BytesLike, offset: int, most: int) -> Decided | None:
        """Reads what follows, fetched with what is not committed. None when a checksum is wrong, as of decode_log; then
        nothing has changed."""
        decided: list[LogRecord] = []
        end, epoch, unreadable = offset, -1, 0
        try:
            batches = [(batch, _aborts(batch)) for batch in parse(data, checked=True)]
        except CorruptBatch:
            return None
        for batch, aborts in batches:
            if aborts is not None:
                ended = self._open.pop(batch.producer_id, [])
                decided += [] if aborts else ended
            else:
                log = decode_log(batch.data, offset, most=most)
                assert log is not None, "its checksum is right"
                unreadable += log.unreadable
                records = list(log.records)
                if not batch.attributes & TRANSACTIONAL:
                    decided += records
                elif records:
                    self._open.setdefault(batch.producer_id, []).extend(records)
            end, epoch = max(end, batch.last_offset + 1), batch.leader_epoch
        return Decided(self._newer(decided), end, epoch, unreadable)

    def _newer(self, decided: list[LogRecord]) -> list[LogRecord]:
        """Leaves out records that are older than what was told of their key."""
        told = []
        for record in sorted(decided):
            if self._newest.get(record.key, -1) < record.offset:
                self._newest[record.key] = record.offset
                told.append(record)
        return told


def _aborts(batch: RawBatch) -> bool | None:
    """Whether a marker is one of an abort; None for data. Raises CorruptBatch."""
    return is_abort(batch) if batch.attributes & CONTROL else None
