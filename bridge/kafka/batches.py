"""Record batches as fetched, into the data records of a Window (no control records, none of aborted transactions) or
of a log that is read through (no control records)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from aiokafka.record._protocols import LegacyRecordProtocol
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.legacy_records import LegacyRecordBatch

from bridge.kafka.raw_batches import CorruptBatch, DataFilter, RawBatch, parse
from bridge.kafka.wire import Piece
from bridge.translation.lookups import Window
from bridge.translation.model import LogRecord, RecordView


class _Legacy:
    """A record of a log older than 0.11: no headers, perhaps no timestamp."""

    def __init__(self, record: LegacyRecordProtocol) -> None:
        self.offset = record.offset
        self.timestamp = -1 if record.timestamp is None else record.timestamp
        self.key, self.value = record.key, record.value
        self.headers: list[object] = []


def window(data: Piece, offset: int, log_end: int, aborted: Sequence[tuple[int, int]]) -> Window | None:
    """The window that a fetch at `offset` has opened.

    `log_end` is what could be read (high watermark or last stable offset). `aborted` is the broker's list of (producer
    id, first offset). None when `data` has bytes but no complete batch: ask for more.
    """
    records: list[RecordView] = []
    without_data: list[tuple[int, int]] = []
    start, end, epoch = offset, offset, -1
    data_filter = DataFilter(aborted)
    for batch in parse(data):
        if end == offset and batch.base_offset < start:
            start = batch.base_offset
        epoch = batch.leader_epoch if end == offset or batch.leader_epoch == epoch else -1
        end = batch.last_offset + 1
        if not data_filter.is_data(batch):
            without_data.append((batch.base_offset, batch.last_offset + 1))
            continue
        inner = _records(batch)
        if batch.magic < 2 and inner:
            start = min(start, inner[0].offset)
        records += inner
    if end == offset:
        # Nothing at or after the offset: what could be read ends here (or is a compacted tail).
        return None if data else Window(offset, max(offset, log_end), (), epoch)
    return Window(start, end, records, epoch, without_data)


class Stretch(NamedTuple):
    """What a log holds from an offset on, as far as it was fetched. `end`: the offset to go on at."""

    records: list[LogRecord]
    end: int
    leader_epoch: int
    """Of the last batch; -1 when there is none, or from a log older than 0.11."""
    unreadable: int
    """Batches that arrived as they were written, and that nobody can decode."""


def stretch(data: Piece, offset: int, aborted: Sequence[tuple[int, int]] = ()) -> Stretch | None:
    """All data records at or after `offset` but those of `aborted` (producer id, first offset) transactions, which a
    broker lists for read_committed. None when a checksum is wrong: the bytes are not those that were written, and may
    be better when fetched again."""
    records: list[LogRecord] = []
    end, epoch, unreadable = offset, -1, 0
    data_filter = DataFilter(aborted)
    try:
        batches = list(parse(data, checked=True))
    except CorruptBatch:
        return None
    for batch in batches:
        end, epoch = max(end, batch.last_offset + 1), batch.leader_epoch
        if not data_filter.is_data(batch):
            continue
        try:
            found = [
                LogRecord(record.offset, record.timestamp, record.key, record.value)
                for record in _records(batch)
            ]
        except Exception:  # each codec has exceptions of its own
            unreadable += 1
            continue
        records += found if batch.base_offset >= offset else [each for each in found if each.offset >= offset]
    return Stretch(records, end, epoch, unreadable)


def _records(batch: RawBatch) -> Sequence[RecordView]:
    """Raises whatever the codec raises."""
    if batch.magic >= 2:
        return list(DefaultRecordBatch(bytes(batch.data)))
    return [_Legacy(record) for record in LegacyRecordBatch(bytes(batch.data), batch.magic)]
