"""Record batches as fetched, into the data records of a Window (no control records, none of aborted transactions) or
of a log that is read through (no control records)."""

from __future__ import annotations

import heapq
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from aiokafka.record._protocols import LegacyRecordProtocol
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.legacy_records import LegacyRecordBatch

from bridge.translation.lookups import Window
from bridge.translation.model import LogRecord, RecordView

_HEADER = struct.Struct(">qiibIhiqqqhii")
_PREFIX = struct.Struct(">qiib")
"""What every format begins with: offset, length, epoch (a checksum before 0.11) and magic."""
_LOG_OVERHEAD = 12
_CONTROL, _TRANSACTIONAL = 0x20, 0x10
_ABORT = b"\0\0\0\0"
"""Key of an abort marker: version 0, type 0."""


class Batch(NamedTuple):
    """Header of a batch and where it lies in the bytes fetched."""

    base_offset: int
    end_offset: int
    leader_epoch: int
    magic: int
    attributes: int
    producer_id: int
    start: int
    size: int


class _Legacy:
    """A record of a log older than 0.11: no headers, perhaps no timestamp."""

    def __init__(self, record: LegacyRecordProtocol) -> None:
        self.offset = record.offset
        self.timestamp = -1 if record.timestamp is None else record.timestamp
        self.key, self.value = record.key, record.value
        self.headers: list[object] = []


def headers(data: bytes) -> Iterator[Batch]:
    """The complete batches in `data`; a fetch may end in the middle of one."""
    at = 0
    while at + _PREFIX.size <= len(data):
        base, length, epoch, magic = _PREFIX.unpack_from(data, at)
        size = length + _LOG_OVERHEAD
        if at + size > len(data):
            return
        if magic < 2:
            # Before 0.11: the offset is that of the (last inner) message, and there is no epoch. One message may be
            # smaller than a header of today.
            yield Batch(base, base + 1, -1, magic, 0, -1, at, size)
        else:
            _, _, _, _, _, attributes, last_delta, _, _, producer, _, _, _ = _HEADER.unpack_from(data, at)
            yield Batch(base, base + last_delta + 1, epoch, magic, attributes, producer, at, size)
        at += size


def window(data: bytes, offset: int, log_end: int, aborted: Sequence[tuple[int, int]]) -> Window | None:
    """The window that a fetch at `offset` has opened.

    `log_end` is what could be read (high watermark or last stable offset). `aborted` is the broker's list of (producer
    id, first offset). None when `data` has bytes but no complete batch: ask for more.
    """
    records: list[RecordView] = []
    pending = [(first, producer) for producer, first in aborted]
    heapq.heapify(pending)
    aborting: set[int] = set()
    start, end, epoch = offset, offset, -1
    for batch in headers(data):
        while pending and pending[0][0] < batch.end_offset:
            aborting.add(heapq.heappop(pending)[1])
        if end == offset and batch.base_offset < start:
            start = batch.base_offset
        epoch = batch.leader_epoch if end == offset or batch.leader_epoch == epoch else -1
        end = batch.end_offset
        piece = data[batch.start : batch.start + batch.size]
        if batch.attributes & _CONTROL:
            if _is_abort(piece):
                aborting.discard(batch.producer_id)
            continue
        if batch.attributes & _TRANSACTIONAL and batch.producer_id in aborting:
            continue
        inner = _records(batch, piece)
        if batch.magic < 2 and inner:
            start = min(start, inner[0].offset)
        records += inner
    if end == offset:
        # Nothing at or after the offset: what could be read ends here (or is a compacted tail).
        return None if data else Window(offset, max(offset, log_end), (), epoch)
    return Window(start, end, records, epoch)


class Stretch(NamedTuple):
    """What a log holds from an offset on, as far as it was fetched. `end`: the offset to go on at."""

    records: list[LogRecord]
    end: int
    leader_epoch: int
    """Of the last batch; -1 when there is none, or from a log older than 0.11."""
    unreadable: int
    """Batches that arrived as they were written, and that nobody can decode."""


def stretch(data: bytes, offset: int) -> Stretch | None:
    """All data records at or after `offset`, those of open and aborted transactions too (read_uncommitted). None when
    a checksum is wrong: the bytes are not those that were written, and may be better when fetched again."""
    records: list[LogRecord] = []
    end, epoch, unreadable = offset, -1, 0
    for batch in headers(data):
        piece = data[batch.start : batch.start + batch.size]
        if not _checked(batch, piece):
            return None
        end, epoch = max(end, batch.end_offset), batch.leader_epoch
        if batch.attributes & _CONTROL:
            continue
        try:
            found = [
                LogRecord(record.offset, record.timestamp, record.key, record.value)
                for record in _records(batch, piece)
            ]
        except Exception:  # each codec has exceptions of its own
            unreadable += 1
            continue
        records += found if batch.base_offset >= offset else [each for each in found if each.offset >= offset]
    return Stretch(records, end, epoch, unreadable)


def _checked(batch: Batch, piece: bytes) -> bool:
    if batch.magic >= 2:
        return DefaultRecordBatch(piece).validate_crc()
    return LegacyRecordBatch(piece, batch.magic).validate_crc()


def _records(batch: Batch, piece: bytes) -> Sequence[RecordView]:
    """Raises whatever the codec raises."""
    if batch.magic >= 2:
        return list(DefaultRecordBatch(piece))
    return [_Legacy(record) for record in LegacyRecordBatch(piece, batch.magic)]


def _is_abort(piece: bytes) -> bool:
    return any((record.key or b"")[:4] == _ABORT for record in DefaultRecordBatch(piece))
