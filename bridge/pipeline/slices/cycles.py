"""Notices that records of a partition come back to it, because something copies the target back to the source.

    source   a b | a b | a b | a b        every round is the copy of the one before
    target   a b | a b | a b

With the default replication policy names tell what came from where, and between connectors of this project the claims
do (layouts.elsewhere). What neither shows, stock's MirrorMaker on the way back or a ring of three clusters, the records
show: the same key, value, headers and timestamp come again after they were copied, and again after that.

- A record has come back when it is fetched after a transaction that had it. A producer that repeats itself does so with
  a new timestamp, or within the same transaction.
- Records that have come back three times count for a cycle, new ones against it: an application that sends a record
  again and again, or a file that is read in twice, is none.
- A sample of the records is remembered, chosen by their content so that every round chooses the same ones, and for a
  share of the time only: a cycle grows, and is found a little later.

Nothing is noticed where the topic has the time of the broker (LogAppendTime) or no timestamps, and where a round takes
longer than what is remembered.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from bridge.kafka.record.batch import APPEND_TIME, RawBatch
from bridge.kafka.record.columns import Records
from bridge.kafka.record.rebuilding import decoded_each
from bridge.model.values import TopicPartition

_RETURNS = 3
"""Times that a record has come back, from which on it counts."""
_ENOUGH = 50
"""Records that count, beyond the new ones: then it is a cycle."""
_SAMPLE = 256
"""Records of a partition that are remembered at most."""
_REMEMBERED = 30.0
"""Seconds after which the sample is chosen anew."""
_SHARE, _FREE = 0.02, 0.05
"""Of the time, and in seconds: what looking at records may take."""


@dataclass(slots=True)
class _Partition:
    began: float
    next_offset: int = 0
    """Behind the records that were looked at: what is fetched once more has not come back."""
    mask: int = 0
    """Bits that are zero in the hash of a record that is remembered."""
    returns: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By hash: the transaction that had the record last, and how often it has come back."""
    evidence: int = 0


class CycleDetector:
    """One for each life of a slice. Pure but for the clock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._began, self._spent = clock, clock(), 0.0
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._transaction = 0

    def commit(self) -> None:
        """Notes that what was fetched until now is on the target."""
        self._transaction += 1

    def forget(self, tp: TopicPartition) -> None:
        """Takes the partition for one that is in no cycle, until its records come back again."""
        self._partitions.pop(tp, None)

    def goes_round(self, tp: TopicPartition, batches: Sequence[RawBatch], position: int, most: int) -> bool:
        """Looks at records from `position` on; whether those of the partition go round. `most`: bytes of a batch."""
        now = self._clock()
        partition = self._partitions.setdefault(tp, _Partition(now))
        if partition.evidence < _ENOUGH and self._spent <= _FREE + _SHARE * (now - self._began):
            self._look(partition, decoded_each(_timed(batches), max(position, partition.next_offset), most))
            self._spent += self._clock() - now
        return partition.evidence >= _ENOUGH

    def _look(self, partition: _Partition, decoded: Iterable[tuple[RawBatch, object]]) -> None:
        if self._clock() - partition.began >= _REMEMBERED:
            partition.began, partition.mask = self._clock(), 0
            partition.returns = {key: known for key, known in partition.returns.items() if known[1]}
        for _, records in decoded:
            if not isinstance(records, Records):
                continue
            for hashed in _hashes(records.since(partition.next_offset)):
                if not hashed & partition.mask:
                    self._count(partition, hashed)
            partition.next_offset = records.last + 1

    def _count(self, partition: _Partition, hashed: int) -> None:
        last, returns = partition.returns.get(hashed, (self._transaction, -1))
        if last < self._transaction or returns < 0:
            returns += 1
            partition.returns[hashed] = self._transaction, returns
            grows = returns >= _RETURNS
            if grows or returns == 0:
                partition.evidence = max(0, partition.evidence + (1 if grows else -1))
        while len(partition.returns) > _SAMPLE:
            partition.mask = partition.mask << 1 | 1
            partition.returns = {
                key: known for key, known in partition.returns.items() if not key & partition.mask
            }


def _timed(batches: Iterable[RawBatch]) -> Iterator[RawBatch]:
    return (batch for batch in batches if not batch.attributes & APPEND_TIME and batch.max_timestamp >= 0)


def _hashes(records: Records) -> Iterator[int]:
    """Of timestamp, key, value and headers."""
    data = records.data.tobytes()
    for timestamp, begin, end in records.columns[1:4].T.tolist():
        yield hash((timestamp, data[begin:end]))
