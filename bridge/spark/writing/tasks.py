"""Writes the rows of a Spark task, or compares them with what was written for it already."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.gc_tuning import collect_seldom
from bridge.spark.reading import event_loop
from bridge.spark.rejected import SourceRejected
from bridge.spark.writing.commits import SinkTask, TaskCommits, WrittenTotals, verify
from bridge.spark.writing.encoding import Encoder
from bridge.spark.writing.messages import Wrote
from bridge.spark.writing.options import SinkOptions
from bridge.spark.writing.sending import TaskTransaction

if TYPE_CHECKING:
    import pyarrow as pa

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


def batch_task(job: str) -> SinkTask:
    """The task that this process runs, of a batch job."""
    context = TaskContext.get()
    if context is None:
        raise SourceRejected("this is no task of Spark's")
    return SinkTask(job, context.partitionId())


def write_task(
    options: SinkOptions, task: SinkTask, batches: Iterator[pa.RecordBatch], since: int = 0
) -> Wrote:
    """Writes the rows of a task, all of them or none, unless they were written before. Raises SourceRejected and
    KafkaFailure."""
    collect_seldom()
    batches = (rows.rename_columns([name.lower() for name in rows.schema.names]) for rows in batches)
    first = next((each for each in batches if each.num_rows), None)
    if first is None:
        return Wrote(task, WrittenTotals(0, 0))  # nothing to write, and nothing to look up
    try:
        with event_loop() as run:
            transaction = run(_made(options, task, since))
            try:
                return _written(options, task, transaction, first, batches, run)
            except BaseException:
                run(transaction.abort())
                raise
            finally:
                run(transaction.close())
    except KafkaFailure as error:
        raise explained(error, options, task) from None


async def _made(options: SinkOptions, task: SinkTask, since: int) -> TaskTransaction:
    return TaskTransaction(options, task, since)  # inside of its event loop


def _written(
    options: SinkOptions,
    task: SinkTask,
    transaction: TaskTransaction,
    first: pa.RecordBatch,
    batches: Iterator[pa.RecordBatch],
    run: Callable[[Coroutine[Any, Any, Any]], Any],
) -> Wrote:
    commits: TaskCommits = run(transaction.open())
    topics: dict[str, int] = {}

    def partitions_of(topic: str) -> int:
        if topic not in topics:
            topics[topic] = run(transaction.partitions(topic))
        return topics[topic]

    encoder = Encoder(options, partitions_of, task.partition)
    if commits.own is not None:
        # To the end in any case: what rows are made of, a state store say, is kept only by who reads all of them.
        encoder.count(first)
        for rows in batches:
            encoder.count(rows)
        verify(commits.own, task, encoder.written)
        return Wrote(task, encoder.written, commits.others, again=True)
    run(transaction.add(list(encoder.add(first))))
    for rows in batches:
        run(transaction.add(list(encoder.add(rows))))
    run(transaction.add(list(encoder.last_batches())))
    run(transaction.commit(encoder.written))
    return Wrote(task, encoder.written, commits.others)


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
