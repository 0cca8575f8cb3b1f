"""The columns of `mirror-records`, and which of them a schema of the user's chooses.

Records as Arrow batches of the columns of `mirror-records`. Nothing is done for each record in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from bridge.kafka.record import arrow_columns
from bridge.kafka.record.arrow_columns import Fields, Texts
from bridge.kafka.record.batch import APPEND_TIME, RawBatch
from bridge.kafka.record.columns import Records
from bridge.kafka.record.loops import Numbers
from bridge.model.values import TopicPartition
from bridge.spark.rejected import SourceRejected

_HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
COLUMNS: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": _HEADERS,
    "leader_epoch": IntegerType(),
}
"""In the names and the order of Spark's own Kafka source, as far as it has them."""
NEVER_NULL = frozenset({"topic", "partition", "offset", "timestampType", "leader_epoch"})
RECORDS = StructType([StructField(name, kind) for name, kind in COLUMNS.items()])
WITHOUT_HEADERS = StructType([field for field in RECORDS if field.name != "headers"])
_NAMES = {"timestamp_type": "timestampType", **{column.lower(): column for column in COLUMNS}}
CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP_TYPE = 0, 1, -1
"""Values of the column timestampType, as in Spark's own Kafka source."""
_NO_TIMESTAMP = -1
_LAST_MS = (1 << 63) // 1000 - 1
"""The last timestamp that Spark's microseconds have room for."""
_BYTES = frozenset({"key", "value", "headers"})


def column_of(name: str, columns: Iterable[str] = COLUMNS) -> str | None:
    """Returns the column of this name, in whatever case, as Spark resolves names; None where there is none."""
    names = _NAMES if columns is COLUMNS else {column.lower(): column for column in columns}
    return names.get(name.lower())


def columns_of(schema: StructType, columns: Iterable[str]) -> list[str]:
    """Returns the columns of a schema that was `chosen`, by their own names."""
    return [column_of(name, columns) or name for name in schema.names]


def chosen(
    schema: StructType, columns: Mapping[str, DataType] = COLUMNS, never_null: Collection[str] = ()
) -> StructType:
    """The schema, if all of its columns are among `columns`, by name and type. Raises SourceRejected, which names each
    that is not, and each that is declared `not null` and is not in `never_null`."""
    wrong, null = [], []
    for field in schema:
        column, kind = column_of(field.name, columns), field.dataType.simpleString()
        if column is None:
            wrong.append(f"column {field.name} has type {kind}, and does not exist")
        elif columns[column] != field.dataType:
            wrong.append(f"column {field.name} has type {kind}, and is {columns[column].simpleString()}")
        elif not field.nullable and column not in never_null:
            null.append(f"column {field.name} may be null: leave its `not null` out")
    names = f"the columns are {', '.join(columns)}"
    if wrong:
        raise SourceRejected(f"the schema does not fit: {'; '.join([*wrong, *null])}; {names}")
    if null:
        raise SourceRejected(f"the schema does not fit: {'; '.join(null)}")
    if not len(schema):
        raise SourceRejected(f"the schema has no column; {names}")
    return schema


class RecordsPart(NamedTuple):
    """Records that have leader epoch and timestamp type in common."""

    records: Records
    leader_epoch: int
    timestamp_type: int

    @classmethod
    def from_batch(cls, batch: RawBatch, records: Records) -> RecordsPart:
        kind = LOG_APPEND_TIME if batch.attributes & APPEND_TIME else CREATE_TIME
        return cls(records, batch.leader_epoch, kind if batch.magic else NO_TIMESTAMP_TYPE)


def as_batch(parts: Sequence[RecordsPart], tp: TopicPartition, schema: pa.Schema) -> pa.RecordBatch:
    """The columns that the schema names. Raises BrokenRecord."""
    records = Records.together([records_part.records for records_part in parts])
    table = _Table(records, parts, tp, schema)
    columns = [_COLUMN[column_of(field.name) or ""](table, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class _Table:
    """What columns are made of."""

    def __init__(
        self, records: Records, parts: Sequence[RecordsPart], tp: TopicPartition, schema: pa.Schema
    ) -> None:
        self.records, self.parts, self.tp = records, parts, tp
        self.rows = records.count
        # Cutting copies the bytes: left out where no column has them.
        cut = _BYTES & {column_of(name) for name in schema.names}
        self.fields: Fields = arrow_columns.cut(records if cut else _none(records))

    def repeated(self, values: Sequence[int]) -> pa.Array:
        if len(set(values)) == 1:
            return pa.repeat(pa.scalar(values[0], pa.int32()), self.rows)
        counts = [records_part.records.count for records_part in self.parts]
        return pa.array(np.repeat(np.array(values, np.int32), counts))

    def timestamps(self, kind: pa.DataType) -> pa.Array:
        times = self.records.columns[1]
        timed = (times != _NO_TIMESTAMP) & (np.abs(times) <= _LAST_MS)
        validity = None if timed.all() else pa.py_buffer(np.packbits(timed, bitorder="little"))
        return pa.Array.from_buffers(kind, self.rows, [validity, pa.py_buffer(times * 1000)])

    def headers(self, kind: pa.DataType) -> pa.Array:
        count = len(self.fields.header_keys.ends) - 1
        header = pa.StructArray.from_buffers(
            kind.value_type,
            count,
            [None],
            children=[
                _array(pa.string(), count, self.fields.header_keys),
                _array(pa.binary(), count, self.fields.header_values),
            ],
        )
        # Null where a record has none, as in Spark's own source.
        some = np.diff(self.fields.lists) > 0
        validity = None if some.all() else pa.py_buffer(np.packbits(some, bitorder="little"))
        return pa.Array.from_buffers(
            kind, self.rows, [validity, pa.py_buffer(self.fields.lists)], children=[header]
        )


_COLUMN: dict[str, Callable[[_Table, pa.DataType], Any]] = {
    "key": lambda table, _: _array(pa.binary(), table.rows, table.fields.keys),
    "value": lambda table, _: _array(pa.binary(), table.rows, table.fields.values),
    "topic": lambda table, _: pa.repeat(table.tp.topic, table.rows),
    "partition": lambda table, _: pa.repeat(pa.scalar(table.tp.partition, pa.int32()), table.rows),
    "offset": lambda table, _: pa.array(np.ascontiguousarray(table.records.columns[0])),
    "timestamp": lambda table, kind: table.timestamps(kind),
    "timestampType": lambda table, _: table.repeated([part.timestamp_type for part in table.parts]),
    "headers": lambda table, kind: table.headers(kind),
    "leader_epoch": lambda table, _: table.repeated([part.leader_epoch for part in table.parts]),
}


def _array(kind: pa.DataType, rows: int, texts: Texts) -> pa.Array:
    validity = pa.py_buffer(texts.validity) if len(texts.validity) else None
    return pa.Array.from_buffers(kind, rows, [validity, pa.py_buffer(texts.ends), pa.py_buffer(texts.data)])


def _none(records: Records) -> Records:
    columns: Numbers = records.columns[:, :0]
    return Records(records.data, columns)
