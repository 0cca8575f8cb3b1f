"""`mirror-records`: the records of a cluster as a data source, in a batch or a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.types import StructType

from bridge.kafka.network.client import NetworkClient
from bridge.model.values import TopicPartition
from bridge.spark.offsets import LogEdge, OffsetRange
from bridge.spark.options import RecordsOptions, for_batch, for_stream, read_options
from bridge.spark.planning import client_of, patiently, planned, sampled, split
from bridge.spark.pushdown import Limits, pushed
from bridge.spark.rejected import SourceRejected, in_one_line, verify_streams
from bridge.spark.schema import NEVER_NULL, RECORDS, WITHOUT_HEADERS, chosen

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "mirror-records"


@dataclass(frozen=True)
class RecordsPartition(InputPartition):
    """The ranges that one Spark task reads."""

    ranges: tuple[OffsetRange, ...]


class MirrorRecords(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        with in_one_line(NAME):
            options = read_options(self.options)  # so that what is wrong is known at load()
            return RECORDS if options.include_headers else WITHOUT_HEADERS

    def reader(self, schema: StructType) -> DataSourceReader:
        with in_one_line(NAME):
            return RecordsReader(for_batch(self.options), chosen(schema, never_null=NEVER_NULL))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        def made() -> DataSourceStreamReader:
            verify_streams()
            from bridge.spark.stream import RecordsStreamReader

            columns = chosen(schema, never_null=NEVER_NULL)
            return RecordsStreamReader(NAME, for_stream(self.options), columns)

        return stream_reader(NAME, made)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from bridge.spark.writing.writers import batch_writer

        return batch_writer(NAME, dict(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        from bridge.spark.writing.writers import stream_writer

        return stream_writer(NAME, dict(self.options), schema, overwrite=overwrite)


def stream_reader(name: str, make: Callable[[], DataSourceStreamReader]) -> DataSourceStreamReader:
    """Makes a reader; one that raises when Spark first asks it, where that is rejected: of what `streamReader` raises
    Spark shows an UnboundLocalError of its own."""
    try:
        with in_one_line(name):
            return make()
    except SourceRejected as rejected:
        return _RejectedStream(str(rejected))


class _RejectedStream(DataSourceStreamReader):
    def __init__(self, error: str) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:
        raise SourceRejected(self._error)

    def latestOffset(self, *_: object) -> dict[str, Any]:
        raise SourceRejected(self._error)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        raise SourceRejected(self._error)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        raise SourceRejected(self._error)


class RecordsReader(DataSourceReader):
    """Reads a batch."""

    def __init__(self, options: RecordsOptions, schema: StructType) -> None:
        self._options, self._schema = options, schema
        self._limits = Limits()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._limits, rest = pushed(filters)
        return rest

    def partitions(self) -> Sequence[InputPartition]:
        with in_one_line(NAME):
            return batch_partitions(self._options, self._limits)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self._options, self._schema, partition)


def batch_partitions(options: RecordsOptions, limits: Limits) -> list[RecordsPartition]:
    """Returns what each Spark task of a batch reads. Raises SourceRejected and KafkaFailure."""

    async def plan(client: NetworkClient) -> list[RecordsPartition]:
        ranges = await planned(client, options, options.start or LogEdge.EARLIEST, limits)
        return divided(ranges, await sampled(client, ranges), options)

    async def connected() -> list[RecordsPartition]:
        client = client_of(options)
        try:
            return await patiently(lambda: plan(client), options.patience)
        finally:
            await client.close()

    return asyncio.run(connected())


def divided(
    ranges: Sequence[OffsetRange], sizes: Mapping[TopicPartition, float], options: RecordsOptions
) -> list[RecordsPartition]:
    """Spark partitions for the ranges."""
    parts = split(
        ranges,
        sizes,
        max_bytes=options.max_partition_bytes,
        min_partitions=options.min_partitions,
        max_offsets=options.max_records_per_partition,
    )
    return [RecordsPartition(part) for part in parts]


def read_partition(
    options: RecordsOptions, schema: StructType, partition: InputPartition
) -> Iterator[pa.RecordBatch]:
    """The records of a Spark partition; one without ranges has none."""
    from bridge.spark.decoding import arrow_batches  # loads the compiled loops, which planning does not need

    if not isinstance(partition, RecordsPartition):
        return
    with in_one_line(NAME):
        yield from arrow_batches(options, schema, partition.ranges)
