"""Tells committed records from others by the markers of their transactions, behind a log's last stable offset. Pure.

    T1 T1 T2 N T2 C2 N           N: outside of transactions    C2: commit marker of T2
    ^ last stable offset: T1 is open
          decided: T2 N T2 N     undecided: T1 T1

Where a broker answers read_committed, it tells of nothing behind the beginning of the oldest open transaction, which
somebody else may never end. What stands there is told apart here: a transaction's records count once its commit marker
is read. All transactions that began before that place have ended, so that their markers stand behind it too, or before
all of their records there.
"""

from __future__ import annotations

from typing import NamedTuple

from bridge.kafka.protocol.wire import BytesLike
from bridge.kafka.record.batch import CONTROL, TRANSACTIONAL, CorruptBatch, RawBatch, is_abort, parse
from bridge.kafka.record.decoding import decode_log
from bridge.model.values import LogRecord


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
