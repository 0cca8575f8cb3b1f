"""The records of a cluster as a stream: which offsets each micro-batch reads.

The offset of a micro-batch, which Spark keeps in the checkpoint, has the id of each topic beside its partitions'
offsets: a topic that was deleted and made again is noticed by it. Where the stream begins is kept with the first one.

The internal topics of mirrors as streams: every record as it comes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from bridge.kafka.network.client import NetworkClient
from bridge.model.values import TopicPartition
from bridge.spark.internal_topics import Row, table_rows
from bridge.spark.offsets import (
    INITIAL,
    Log,
    LogEdge,
    StreamPositions,
    admitted,
    begun,
    offsets_behind,
    packed,
    stream_ranges,
    unpacked,
    verify_there,
)
from bridge.spark.options import RecordsOptions
from bridge.spark.planning import client_of, described, offsets_at, patiently, sampled
from bridge.spark.records import divided, read_partition
from bridge.spark.rejected import in_one_line

if TYPE_CHECKING:
    import pyarrow as pa


T = TypeVar("T")


class RecordsStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream. Spark calls it in one process for as long as the query runs: connections stay open there. `read`
    is called in others."""

    def __init__(self, name: str, options: RecordsOptions, schema: StructType) -> None:
        """`name`: of the source, for errors."""
        self._name, self._options, self._schema = name, options, schema
        self._runner: asyncio.Runner | None = None
        self._client: NetworkClient | None = None
        self._last: StreamPositions | None = None
        """Where a query that reads what is available now ends."""
        self._triggered: float | None = None
        """When a micro-batch was last planned."""

    def initialOffset(self) -> dict[str, Any]:
        return dict(INITIAL)

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.max_offsets
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        with in_one_line(self._name):
            logs, before = self._logs(), unpacked(start)
            first = self._start(logs) if before is None else None
            end = admitted(
                before or first or StreamPositions(),
                logs,
                most=limit.max_rows if isinstance(limit, ReadMaxRows) else None,
                last=self._last,
                fail_on_data_loss=self._options.fail_on_data_loss,
            )
            # Not before: data that is lost is told though there is too little for a micro-batch.
            if before is not None and self._waits(before, logs):
                return start
            self._triggered = time.monotonic()
            return packed(replace(end, start=first))

    def prepareForTriggerAvailableNow(self) -> None:
        with in_one_line(self._name):
            logs = self._logs()
            self._last = begun({tp: log.end for tp, log in logs.items()}, logs)

    def reportLatestOffset(self) -> dict[str, Any]:
        with in_one_line(self._name):
            logs = self._logs()
            return packed(begun({tp: log.end for tp, log in logs.items()}, logs))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        with in_one_line(self._name):
            first, last = unpacked(start), unpacked(end) or StreamPositions()
            if first is not None and first.offsets == last.offsets and first.topic_ids == last.topic_ids:
                return []
            logs = self._logs()
            if first is None:
                # The end has no start where a version before 0.1.0 has written the checkpoint.
                first = last.start or self._start(logs)
            ranges = stream_ranges(first, last, logs, fail_on_data_loss=self._options.fail_on_data_loss)
            return divided(
                ranges, self._run(lambda client: sampled(client, ranges, strict=True)), self._options
            )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self._options, self._schema, partition)

    def stop(self) -> None:
        runner, client = self._runner, self._client
        self._runner = self._client = None
        if runner is not None:
            if client is not None:
                runner.run(client.close())
            runner.close()

    def _run(self, work: Callable[[NetworkClient], Awaitable[T]]) -> T:
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(self._with_client(work))

    async def _with_client(self, work: Callable[[NetworkClient], Awaitable[T]]) -> T:
        if self._client is None:
            self._client = client_of(self._options)
        client = self._client
        return await patiently(lambda: work(client), self._options.patience)

    def _waits(self, before: StreamPositions, logs: Mapping[TopicPartition, Log]) -> bool:
        """Whether there is too little for a micro-batch yet (minOffsetsPerTrigger, maxTriggerDelay)."""
        least = self._options.min_offsets
        if least is None or self._last is not None or self._triggered is None:
            return False
        if time.monotonic() - self._triggered >= self._options.max_trigger_delay:
            return False
        return offsets_behind(before, logs) < least

    def _start(self, logs: Mapping[TopicPartition, Log]) -> StreamPositions:
        """Returns where the stream begins, by the options and the logs as they are."""
        where, committed_only = self._options.start or LogEdge.LATEST, self._options.committed_only
        as_late = self._options.as_late
        starts = self._run(
            lambda client: offsets_at(client, where, logs, committed_only=committed_only, as_late=as_late)
        )
        if self._options.fail_on_data_loss:
            verify_there(starts, logs)
        return begun(starts, logs)

    def _logs(self) -> dict[TopicPartition, Log]:
        return self._run(lambda client: described(client, self._options))


class TableStreamReader(RecordsStreamReader):
    def read(self, partition: InputPartition) -> Iterator[Row]:
        return table_rows(self._name, self._options, self._schema, partition, newest_only=False)
