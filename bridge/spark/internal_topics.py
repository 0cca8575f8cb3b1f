"""The internal topics of mirrors, ours and stock's, as data sources: `mirror-runs`, `mirror-gaps`, `mirror-groups`,
`mirror-checkpoints`, `mirror-offset-syncs` and `mirror-heartbeats`.

A batch has the newest record of each key, as compaction leaves it; with `history`, and in a stream, all records come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from bridge.spark.group_options import CONFIG, config_path
from bridge.spark.options import RecordsOptions, for_batch, for_stream, read_options
from bridge.spark.pushdown import Limits
from bridge.spark.records import RecordsPartition, batch_partitions, stream_reader
from bridge.spark.rejected import SourceRejected, in_one_line, verify_streams
from bridge.spark.schema import chosen, columns_of
from bridge.spark.tables import TABLES, Table, renewed, task_rounds

_WHOLE = 1 << 62
"""Bytes of a partition that is not divided: the newest record of a key is known where all of them are read."""
Row = tuple[Any, ...]


class InternalTopic(DataSource):
    """Each source has a class of its own: Spark asks the class for its name."""

    table_name: ClassVar[str]

    @classmethod
    def name(cls) -> str:
        return cls.table_name

    @property
    def _table(self) -> Table:
        return TABLES[self.table_name]

    def schema(self) -> StructType:
        with in_one_line(self.table_name):
            read_options(self.options, self._table.pattern)  # so that what is wrong is known at load()
            return self._table.schema

    def reader(self, schema: StructType) -> DataSourceReader:
        with in_one_line(self.table_name):
            options = for_batch(self.options, self._table.pattern)
            return TableReader(self.table_name, options, chosen(schema, self._table.columns))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        def made() -> DataSourceStreamReader:
            verify_streams()
            self._verify_stream()
            from bridge.spark.stream import TableStreamReader

            options = for_stream(self.options, self._table.pattern)
            return TableStreamReader(self.table_name, options, chosen(schema, self._table.columns))

        return stream_reader(self.table_name, made)

    def _verify_stream(self) -> None:
        """Raises SourceRejected."""


class MirrorRuns(InternalTopic):
    table_name = "mirror-runs"


class MirrorGaps(InternalTopic):
    table_name = "mirror-gaps"


class MirrorGroups(InternalTopic):
    """Groups as a table. With the option `config` rows are worked out when they are read; else they are those of the
    readiness topic."""

    table_name = "mirror-groups"

    def schema(self) -> StructType:
        with in_one_line(self.table_name):
            if (path := config_path(self.options)) is not None:
                from bridge.spark.translating.groups import load_flow

                load_flow(path)
                return self._table.schema
        return super().schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        with in_one_line(self.table_name):
            if (path := config_path(self.options)) is not None:
                from bridge.spark.translating.groups import GroupsReader

                return GroupsReader(self.table_name, path, chosen(schema, self._table.columns))
        return super().reader(schema)

    def _verify_stream(self) -> None:
        if config_path(self.options) is not None:
            raise SourceRejected(f"option {CONFIG} is for a batch only: a stream has what the service writes")


class MirrorCheckpoints(InternalTopic):
    table_name = "mirror-checkpoints"


class MirrorOffsetSyncs(InternalTopic):
    table_name = "mirror-offset-syncs"


class MirrorHeartbeats(InternalTopic):
    table_name = "mirror-heartbeats"


SOURCES = (MirrorRuns, MirrorGaps, MirrorGroups, MirrorCheckpoints, MirrorOffsetSyncs, MirrorHeartbeats)


class TableReader(DataSourceReader):
    """Reads a batch."""

    def __init__(self, name: str, options: RecordsOptions, schema: StructType) -> None:
        self._name, self._schema = name, schema
        self._options = (
            options if options.history else replace(options, max_partition_bytes=_WHOLE, min_partitions=1)
        )

    def partitions(self) -> Sequence[InputPartition]:
        with in_one_line(self._name):
            return batch_partitions(self._options, Limits())

    def read(self, partition: InputPartition) -> Iterator[Row]:
        return table_rows(
            self._name, self._options, self._schema, partition, newest_only=not self._options.history
        )


def table_rows(
    name: str, options: RecordsOptions, schema: StructType, partition: InputPartition, *, newest_only: bool
) -> Iterator[Row]:
    """The rows of a Spark partition, with the columns of the schema."""
    from bridge.spark.decoding import StoredRecord, newest, records  # loads the compiled loops

    if not isinstance(partition, RecordsPartition):
        return
    table = TABLES[name]
    columns = columns_of(schema, table.columns)
    with in_one_line(name):
        stored: Iterator[StoredRecord] = records(options, partition.ranges)
        if not newest_only:
            for record in stored:
                for fields in table.read(*record):
                    yield tuple(map(fields.get, columns))
            return
        kept = newest(stored)
        rounds = task_rounds(record[:3] for record in kept) if name == MirrorGroups.table_name else {}
        for record in kept:
            for fields in table.read(*record):
                yield tuple(map(renewed(fields, rounds).get, columns))
