"""Commit records: which epochs of which query each Spark partition has written. Pure.

Each is a record of the commits topic, written in the transaction of the rows that it stands for. A batch job counts as
a query with epoch 0. A commit record without a value says that its job is over, so that nobody may write for it any
more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

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


class TaskCommits(NamedTuple):
    """The records of a commits topic that concern a task, as far as it was read. `own`: the newest commit record of the
    task's partition, at its epoch or later; `others`: of the other partitions of the epoch. `whole`: nothing older can
    say more. `known`: whether there is any record of the query."""

    own: CommitRecord | None
    others: frozenset[int]
    whole: bool
    known: bool


def unpacked(key: bytes | None, value: bytes | None) -> CommitRecord | None:
    """Decodes a commit record; None for another kind of record, or version."""
    try:
        names = json.loads(key or b"")
        if names["version"] != _VERSION:
            return None
        query, partition = str(names["query"]), int(names["partition"])
        if value is None:
            return CommitRecord(SinkTask(query, partition), None)
        told = json.loads(value)
        written = WrittenTotals(int(told["rows"]), int(told["size"]))
        return CommitRecord(SinkTask(query, partition, int(told["epoch"])), written)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


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


def task_commits(records: Iterable[KeyValue], task: SinkTask) -> TaskCommits:
    """Finds what committed records, in the log's order, say to a task. An epoch begins when all tasks of the one before
    it have committed: with a record of an earlier epoch of the query, all of this epoch's have been seen."""
    own: CommitRecord | None = None
    others: set[int] = set()
    whole = known = False
    for key, value in records:
        record = unpacked(key, value)
        if record is None or record.task.query != task.query:
            continue
        known = True
        if record.written is not None and record.task.epoch < task.epoch:
            whole = True
        elif record.task.partition == task.partition:
            own = record
        elif record.task.epoch == task.epoch:
            others.add(record.task.partition)
    return TaskCommits(own, frozenset(others), whole or own is not None, known)


def verify(record: CommitRecord, task: SinkTask, written: WrittenTotals) -> None:
    """Verifies that what a task would write is what was written for it already. Raises SourceRejected."""
    what = f"partition {task.partition} of epoch {task.epoch}"
    if record.written is None:
        raise SourceRejected(
            f"the job of this task is over: {what} of job {task.query} is not written any more"
        )
    if record.task.epoch > task.epoch:
        raise SourceRejected(
            f"query {task.query} has already written epoch {record.task.epoch}, and is at epoch {task.epoch} now: its "
            "checkpoint is older than what it has written, or another query has a copy of it; restore the newest one, "
            "or begin with a new checkpoint"
        )
    if record.written != written:
        raise SourceRejected(
            f"{what} of query {task.query} was written with {_amount(record.written)}, and has {_amount(written)} now: "
            "a replayed epoch must have the same rows in the same Spark partitions"
        )


def verify_known(commits: TaskCommits, task: SinkTask, transactional_id: str, topic: str) -> None:
    """Verifies that the commits topic is the one of what a transactional id has committed. Raises SourceRejected."""
    if not commits.known:
        raise SourceRejected(
            f"transactional id {transactional_id} has committed before, and {topic} has nothing of query {task.query}: "
            "commitsTopic was changed, or the topic was deleted, and an epoch that is not finished would be written "
            "twice; name the topic that it was, or, where all epochs are finished, another transactionalIdPrefix too"
        )


def verify_partitions(others: Iterable[int], task: SinkTask, partitions: int) -> None:
    """Verifies that no commit record of the epoch is of a Spark partition that it does not have now. Raises
    SourceRejected."""
    most = max(others, default=-1)
    if most >= partitions:
        raise SourceRejected(
            f"epoch {task.epoch} of query {task.query} has {partitions} Spark partition(s), and was written with at "
            f"least {most + 1} before: a replayed epoch must have the same rows in the same Spark partitions; rows of "
            "this epoch may be there twice"
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
