"""What the commits topic says: which epoch a query has written last, and which Spark partitions a batch job. Pure.

A stream has a record for each query: the decision that its last epoch is written, with the transactions of it (see
epochs). A task of a batch job has a commit record of its own, written in the transaction of the rows that it stands
for. One without a value says that its job is over, so that nobody may write for it any more.

Messages of tasks to the driver when they have written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql.datasource import WriterCommitMessage

from bridge.kafka.record.batch import CONTROL, TRANSACTIONAL, CorruptBatch, RawBatch, is_abort
from bridge.kafka.record.decoding import decode_log
from bridge.spark.rejected import SourceRejected

KeyValue = tuple[bytes | None, bytes | None]
_VERSION = 1


class SinkTask(NamedTuple):
    """A task of a sink: a Spark partition of an epoch. `query`: the id that Spark keeps in the checkpoint, or a batch
    job's."""

    query: str
    partition: int
    epoch: int = 0

    @property
    def key(self) -> bytes:
        """The key of its commit record."""
        return _packed({"version": _VERSION, "query": self.query, "partition": self.partition})


class Prepared(NamedTuple):
    """The transaction that the task of a Spark partition has left open, by the producer id and epoch that it had."""

    partition: int
    producer_id: int
    producer_epoch: int


class Decision(NamedTuple):
    """An epoch of a query is written: the transactions are committed, or are going to be."""

    query: str
    epoch: int
    transactions: tuple[Prepared, ...]

    @property
    def packed(self) -> tuple[bytes, bytes]:
        """Key and value."""
        key = {"version": _VERSION, "query": self.query}
        return _packed(key), _packed({"epoch": self.epoch, "transactions": self.transactions})


class WrittenTotals(NamedTuple):
    """How much a task has written: rows, and bytes of keys, values and headers together."""

    rows: int
    size: int


class CommitRecord(NamedTuple):
    """What a task has committed. `written`: None when the job is over."""

    task: SinkTask
    written: WrittenTotals | None

    @property
    def packed(self) -> tuple[bytes, bytes | None]:
        """Key and value."""
        if self.written is None:
            return self.task.key, None
        return self.task.key, _packed({"epoch": self.task.epoch, **self.written._asdict()})


def unpacked(key: bytes | None, value: bytes | None) -> CommitRecord | None:
    """Decodes a commit record; None for another kind of record, or version."""
    try:
        names = json.loads(key or b"")
        if names["version"] != _VERSION:
            return None
        query, partition = str(names["query"]), int(names["partition"])
        if value is None:
            return CommitRecord(SinkTask(query, partition), None)
        fields = json.loads(value)
        written = WrittenTotals(int(fields["rows"]), int(fields["size"]))
        return CommitRecord(SinkTask(query, partition, int(fields["epoch"])), written)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def decided(records: Iterable[KeyValue], query: str) -> Decision | None:
    """Returns the newest decision of a query among committed records, in the log's order."""
    last: Decision | None = None
    for key, value in records:
        try:
            names, fields = json.loads(key or b""), json.loads(value or b"")
            if names != {"version": _VERSION, "query": query}:
                continue
            transactions = tuple(Prepared(*map(int, pair)) for pair in fields["transactions"])
            last = Decision(query, int(fields["epoch"]), transactions)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            continue
    return last


def committed(batches: Iterable[RawBatch]) -> list[KeyValue]:
    """The records of batches whose transactions are committed, in the order of that.

    By the markers in the log, not by the broker's last stable offset: that one stands still at the oldest open
    transaction of whatever task, and hides what this one has committed behind it. Whoever has taken over a
    transactional id finds the markers of all earlier transactions of that id. Raises CorruptBatch."""
    undecided: dict[int, list[KeyValue]] = {}
    done: list[KeyValue] = []
    for batch in batches:
        if batch.attributes & CONTROL:
            records = undecided.pop(batch.producer_id, [])
            if not is_abort(batch):
                done += records
        elif batch.attributes & TRANSACTIONAL:
            undecided.setdefault(batch.producer_id, []).extend(_records(batch))
        else:
            done += _records(batch)
    return done


def find_commit(records: Iterable[KeyValue], task: SinkTask) -> CommitRecord | None:
    """Returns the newest commit record of a task of a batch job among committed records, in the log's order."""
    found = (unpacked(key, value) for key, value in records)
    own = [record for record in found if record is not None and record.task == task]
    return own[-1] if own else None


def newest_of_tasks(records: Iterable[KeyValue], query: str) -> int | None:
    """Returns the newest epoch of a stream that tasks have committed one by one, as the sink did before epochs were
    decided (0080); None where there is none."""
    found = (unpacked(key, value) for key, value in records)
    epochs = [
        record.task.epoch
        for record in found
        if record is not None and record.task.query == query and record.written is not None
    ]
    return max(epochs, default=None)


def verify(record: CommitRecord, task: SinkTask, written: WrittenTotals) -> None:
    """Verifies that what a task of a batch job would write is what was written for it already. Raises
    SourceRejected."""
    what = f"partition {task.partition} of job {task.query}"
    if record.written is None:
        raise SourceRejected(f"the job of this task is over: {what} is not written any more")
    if record.written != written:
        raise SourceRejected(
            f"{what} was written with {_amount(record.written)}, and has {_amount(written)} now: a task that runs "
            "again must have the same rows"
        )


def unknown_query(task: SinkTask, transactional_id: str, topic: str) -> SourceRejected:
    """Makes the error of a commits topic that has no decision of a query whose task has committed before."""
    return SourceRejected(
        f"transactional id {transactional_id} has committed before, and {topic} has nothing of query {task.query}: "
        "commitsTopic was changed, or the topic was deleted, and an epoch that is not finished would be written twice; "
        "name the topic that it was, or, where all epochs are finished, another transactionalIdPrefix too"
    )


def partly_written(task: SinkTask, transactional_id: str) -> SourceRejected:
    """Makes the error of an epoch that tasks of an older version have begun to commit, one by one."""
    return SourceRejected(
        f"epoch {task.epoch} of query {task.query} was begun by an older version of the sink, which has committed "
        f"some of its tasks each by itself (transactional id {transactional_id}): run the query with that version "
        "until the epoch is finished, or give another transactionalIdPrefix, which writes the epoch as a whole: what "
        "is there of it is there twice then"
    )


def over(query: str, partitions: int) -> Sequence[KeyValue]:
    """Records that end a batch job: none of its tasks writes after them."""
    return [CommitRecord(SinkTask(query, partition), None).packed for partition in range(partitions)]


def _records(batch: RawBatch) -> list[KeyValue]:
    log = decode_log(batch.data, batch.base_offset)
    if log is None or log.unreadable:
        raise CorruptBatch(batch.base_offset)
    return [(record.key, record.value) for record in log.records]


def _amount(written: WrittenTotals) -> str:
    return f"{written.rows} row(s) of {written.size} bytes"


def _packed(fields: dict[str, object]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


@dataclass(frozen=True)
class Wrote(WriterCommitMessage):
    """The message of one task. `again`: it was written before, and is not written again. `prepared`: the transaction
    that a task of an epoch has left open; None where it had no rows, and of a batch job, which has committed."""

    task: SinkTask
    written: WrittenTotals
    again: bool = False
    prepared: Prepared | None = None
