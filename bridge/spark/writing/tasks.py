"""Writes the rows of a Spark task, or compares them with what was written for it already."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pyspark import TaskContext

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.gc_tuning import collect_seldom
from bridge.spark.reading import event_loop
from bridge.spark.rejected import SourceRejected
from bridge.spark.writing.commits import SinkTask, WrittenTotals, Wrote, verify
from bridge.spark.writing.encoding import Encoder
from bridge.spark.writing.epochs import verify_newest
from bridge.spark.writing.options import SinkOptions
from bridge.spark.writing.sending import TaskTransaction

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
_QUERY, _EPOCH, _CONTINUOUS = "sql.streaming.queryId", "streaming.sql.batchId", "__is_continuous_processing"
"""What Spark tells tasks of a micro-batch (StreamExecution.QUERY_ID_KEY, MicroBatchExecution.BATCH_ID_KEY)."""


def stream_task() -> SinkTask:
    """The task that this process runs. Raises SourceRejected outside of a micro-batch."""
    context = TaskContext.get()
    query = context.getLocalProperty(_QUERY) if context else None
    epoch = context.getLocalProperty(_EPOCH) if context else None
    if context is None or not query or not epoch or context.getLocalProperty(_CONTINUOUS) == "true":
        raise SourceRejected(
            "a stream is written in micro-batches only: Spark does not say to which epoch this task belongs; use "
            "trigger(processingTime=...) or trigger(availableNow=True)"
        )
    return SinkTask(query, context.partitionId(), int(epoch))


def batch_task(job: str, version: int = 0) -> SinkTask:
    """The task that this process runs, of a batch."""
    context = TaskContext.get()
    if context is None:
        raise SourceRejected("this is no task of Spark's")
    return SinkTask(job, context.partitionId(), version)


def write_batch_task(
    options: SinkOptions, task: SinkTask, batches: Iterator[pa.RecordBatch], since: int
) -> Wrote:
    """Writes the rows of a task of a batch job, all of them or none, unless they were written before. Raises
    SourceRejected and KafkaFailure."""

    def write(sending: _Sending) -> Wrote:
        own = sending.run(sending.transaction.open())
        if own is not None:
            written = sending.count()
            verify(own, task, written)
            return Wrote(task, written, again=True)
        written = sending.send()
        sending.run(sending.transaction.commit(written))
        return Wrote(task, written)

    return _written(options, task, batches, write, since)


def write_epoch_task(options: SinkOptions, task: SinkTask, batches: Iterator[pa.RecordBatch]) -> Wrote:
    """Sends the rows of a task of an epoch, for the driver to commit, unless their epoch is written already. Raises
    SourceRejected and KafkaFailure."""

    def write(sending: _Sending) -> Wrote:
        last = sending.run(sending.transaction.decided())
        verify_newest(last, task.query, task.epoch)
        if last is not None and last.epoch == task.epoch:
            return Wrote(task, sending.count(), again=True)
        sending.run(sending.transaction.open_epoch(last))
        written = sending.send()
        return Wrote(task, written, prepared=sending.run(sending.transaction.prepare()))

    return _written(options, task, batches, write)


class _Run(Protocol):
    def __call__(self, work: Coroutine[Any, Any, T], /) -> T: ...


class _Sending:
    """The rows of a task on their way into its transaction."""

    def __init__(
        self,
        options: SinkOptions,
        task: SinkTask,
        transaction: TaskTransaction,
        batches: Iterator[pa.RecordBatch],
        run: _Run,
    ) -> None:
        self.transaction, self.run, self._batches = transaction, run, batches
        self._topics: dict[str, int] = {}
        self._encoder = Encoder(options, self._partitions_of, task.partition)

    def count(self) -> WrittenTotals:
        """Reads the rows, and sends none. To the end in any case: what rows are made of, a state store say, is kept
        only by who reads all of them."""
        for rows in self._batches:
            self._encoder.count(rows)
        return self._encoder.written

    def send(self) -> WrittenTotals:
        for rows in self._batches:
            self.run(self.transaction.add(list(self._encoder.add(rows))))
        self.run(self.transaction.add(list(self._encoder.last_batches())))
        return self._encoder.written

    def _partitions_of(self, topic: str) -> int:
        if topic not in self._topics:
            self._topics[topic] = self.run(self.transaction.partitions(topic))
        return self._topics[topic]


def _written(
    options: SinkOptions,
    task: SinkTask,
    batches: Iterator[pa.RecordBatch],
    write: Callable[[_Sending], Wrote],
    since: int = 0,
) -> Wrote:
    collect_seldom()
    batches = (rows.rename_columns([name.lower() for name in rows.schema.names]) for rows in batches)
    first = next((rows for rows in batches if rows.num_rows), None)
    if first is None:
        return Wrote(task, WrittenTotals(0, 0))  # nothing to write, and nothing to look up
    try:
        with event_loop() as run:
            transaction = run(_made(options, task, since))
            try:
                return write(_Sending(options, task, transaction, chain([first], batches), run))
            except BaseException:
                run(transaction.abort())
                raise
            finally:
                run(transaction.close())
    except KafkaFailure as error:
        raise explained(error, options, task) from None


async def _made(options: SinkOptions, task: SinkTask, since: int) -> TaskTransaction:
    return TaskTransaction(options, task, since)  # inside of its event loop


def explained(error: KafkaFailure, options: SinkOptions, task: SinkTask) -> KafkaFailure:
    """Adds what to do about an error, where the broker's words don't say that."""
    name = options.transactional_id(task.query, task.partition)
    if error.fault is KafkaFault.FENCED:
        text = (
            f"somebody else has taken over transactional id {name}, so this attempt has written nothing: a newer "
            f"attempt of the task, or another query with a copy of the same checkpoint ({error})"
        )
    elif error.fault is KafkaFault.RECORD_TOO_LARGE:
        text = (
            f"{error}: a record, or a batch of {options.batch_size} bytes before compression (kafka.batch.size), is "
            "larger than the topic's max.message.bytes; nothing was written"
        )
    elif "transaction timeout" in str(error).lower():
        text = (
            f"{error}: kafka.transaction.timeout.ms is {options.transaction_ms}, and may be at most what the "
            "brokers have as transaction.max.timeout.ms"
        )
    else:
        return error
    return KafkaFailure(error.fault, text, retriable=error.retriable)
