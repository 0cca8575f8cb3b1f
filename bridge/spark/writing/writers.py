"""The writers that Spark calls: in tasks to write, and on the driver when all tasks are done, or one has failed.

Which columns the sink takes.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from bridge.errors import KafkaFailure
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.producer.producer import SyncProducer, fence
from bridge.spark.planning import patiently
from bridge.spark.rejected import SourceRejected, in_one_line
from bridge.spark.writing.commits import Prepared, Wrote, over
from bridge.spark.writing.commits_topic import end_of, ensure, verify
from bridge.spark.writing.epochs import abort_epoch, commit_epoch, network_client, partitions_of
from bridge.spark.writing.options import HEAL, SavedVersion, SinkOptions, read_sink_options

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)


HEADERS = "array<struct<key:string,value:binary>>"
COLUMNS: dict[str, tuple[str, ...]] = {
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "headers": (HEADERS,),
}
"""With the types that each may have; nothing says more than Spark's own name of a type."""
LEFT_OUT = frozenset({"offset", "timestamp_type", "timestamptype", "leader_epoch"})
"""What sources say of a record, and only the target's broker decides: `timestampType` is that of Spark's own source."""
_AT_A_TIME = 50
"""Transactional ids that are taken over together."""


def verify_schema(schema: StructType, topic: str) -> None:
    """Verifies the columns. `topic`: that of the option, "" for none. Raises SourceRejected, which names each column
    that does not fit."""
    wrong = []
    for field in schema:
        kind = field.dataType.simpleString()
        if field.name.lower() in LEFT_OUT:
            continue
        if field.name.lower() not in COLUMNS:
            near = get_close_matches(field.name.lower(), COLUMNS, 1, 0.75)
            wrong.append(
                f"there is no column {field.name} ({kind})" + (f"; did you mean {near[0]}?" if near else "")
            )
        elif kind not in (kinds := COLUMNS[field.name.lower()]):
            wrong.append(f"column {field.name} has type {kind}, and must be {' or '.join(kinds)}")
    names = [name.lower() for name in schema.names]
    wrong += [
        f"column {name} is there {names.count(name)} times" for name in COLUMNS if names.count(name) > 1
    ]
    if "value" not in names:
        wrong.append("column value is missing (binary or string)")
    if "topic" not in names and not topic:
        wrong.append("column topic is missing (string): without it the option topic is required")
    if wrong:
        may = ", ".join(f"{name} {' or '.join(kinds)}" for name, kinds in COLUMNS.items())
        raise SourceRejected(f"the schema does not fit: {'; '.join(wrong)}; columns are {may}")


def batch_writer(
    name: str, raw: dict[str, str], schema: StructType, *, overwrite: bool
) -> DataSourceArrowWriter:
    """`name`: of the sink, for errors. Raises SourceRejected."""
    with in_one_line(name):
        if overwrite:
            raise SourceRejected('records are appended: use mode("append")')
        options = read_sink_options(raw)
        verify_schema(schema, options.topic)
        since = asyncio.run(_prepared(options))
        if options.saved is not None:
            return VersionWriter(name, options, options.saved)
        return BatchWriter(name, options, since)


def stream_writer(
    name: str, raw: dict[str, str], schema: StructType, *, overwrite: bool
) -> DataSourceStreamArrowWriter:
    """`name`: of the sink, for errors. Raises SourceRejected."""
    with in_one_line(name):
        if overwrite:
            raise SourceRejected("records are appended: use output mode append or update, not complete")
        options = read_sink_options(raw, stream=True)
        verify_schema(schema, options.topic)
        return StreamWriter(name, options)


class BatchWriter(DataSourceArrowWriter):
    """Writes a batch. `since`: where the commits topic ended before the job."""

    def __init__(self, name: str, options: SinkOptions, since: int) -> None:
        self._name, self._options, self._since = name, options, since
        self.job = str(uuid.uuid4())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from bridge.spark.writing.tasks import batch_task, write_batch_task  # loads the compiled loops

        with in_one_line(self._name):
            return write_batch_task(self._options, batch_task(self.job), iterator, self._since)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        with in_one_line(self._name):
            asyncio.run(self._over(len(messages)))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Ends what tasks of the job have open; what others have committed stays."""
        asyncio.run(self._ended(len(messages)))

    async def _ended(self, partitions: int) -> None:
        await self._over(partitions)
        ids = [self._options.transactional_id(self.job, number) for number in range(partitions)]
        try:
            for start in range(0, partitions, _AT_A_TIME):
                await fence(self._options.settings(), ids[start : start + _AT_A_TIME])
        except KafkaFailure as error:
            log.warning(
                "could not abort the failed job's transactions, transaction.timeout.ms ends them: %s", error
            )

    async def _over(self, partitions: int) -> None:
        """Says that the job is over, so that no attempt that lingers writes."""
        producer = SyncProducer(self._options.settings())
        try:
            await producer.write(self._options.commits_topic, over(self.job, partitions))
        except KafkaFailure as error:
            # The commit records stay, and keep lingering attempts from writing just as well.
            log.warning(
                "could not delete the commit records of job %s from %s (harmless): %s",
                self.job,
                self._options.commits_topic,
                error,
            )
        finally:
            await producer.close()


class VersionWriter(DataSourceArrowWriter):
    """Writes a batch that is there once however often it is saved, in `foreachBatch` say, as a whole."""

    def __init__(self, name: str, options: SinkOptions, saved: SavedVersion) -> None:
        self._name, self._options, self._saved = name, options, saved

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from bridge.spark.writing.tasks import batch_task, write_epoch_task  # loads the compiled loops

        with in_one_line(self._name):
            return write_epoch_task(self._options, batch_task(*self._saved), iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        with in_one_line(self._name):
            asyncio.run(commit_epoch(self._options, *self._saved, _prepared_by(messages)))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if _prepared_by(messages):
            with in_one_line(self._name):
                asyncio.run(abort_epoch(self._options, *self._saved))


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the epochs of a stream."""

    def __init__(self, name: str, options: SinkOptions) -> None:
        self._name, self._options = name, options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from bridge.spark.writing.tasks import stream_task, write_epoch_task  # loads the compiled loops

        with in_one_line(self._name):
            return write_epoch_task(self._options, stream_task(), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        if query := _query_of(messages):
            with in_one_line(self._name):
                asyncio.run(commit_epoch(self._options, query, batchId, _prepared_by(messages)))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Ends what tasks have left open: readers of committed records would wait for it."""
        if _prepared_by(messages):
            with in_one_line(self._name):
                asyncio.run(abort_epoch(self._options, _query_of(messages), batchId))


def _query_of(messages: Iterable[WriterCommitMessage | None]) -> str:
    """Returns the id of the query, "" where no task has told."""
    return next((message.task.query for message in messages if isinstance(message, Wrote)), "")


def _prepared_by(messages: Iterable[WriterCommitMessage | None]) -> list[Prepared]:
    """Returns the transactions that tasks have left open, as far as they have told."""
    wrote = (message for message in messages if isinstance(message, Wrote))
    return [message.prepared for message in wrote if message.prepared is not None]


async def _prepared(options: SinkOptions) -> int:
    """Returns where the commits topic ends, which is created if need be. Raises SourceRejected and KafkaFailure."""

    async def prepare(client: NetworkClient) -> int:
        if options.topic:
            await partitions_of(client, options.topic)
        await ensure(client, options)
        await verify(client, options)
        return await end_of(client, options.commits_topic)

    client = network_client(options)
    try:
        return await patiently(lambda: prepare(client), options.patience, HEAL)
    finally:
        await client.close()
