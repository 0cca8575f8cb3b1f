"""The internal topics of mirrors as streams: every record as it comes."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql.datasource import InputPartition

from bridge.spark.internal_topics import Row, table_rows
from bridge.spark.stream import RecordsStreamReader


class TableStreamReader(RecordsStreamReader):
    def read(self, partition: InputPartition) -> Iterator[Row]:
        return table_rows(self._name, self._options, self._schema, partition, newest_only=False)
