"""Records as Arrow batches of the columns of `mirror-records`. Nothing is done for each record in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from bridge.kafka.record import arrow_columns
from bridge.kafka.record.arrow_columns import Fields, Texts
from bridge.kafka.record.batch import APPEND_TIME, RawBatch
from bridge.kafka.record.columns import Records
from bridge.kafka.record.loops import Numbers
from bridge.model.values import TopicPartition
from bridge.spark.schema import column_of

CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP_TYPE = 0, 1, -1
"""Values of the column timestampType, as in Spark's own Kafka source."""


_NO_TIMESTAMP = -1


_LAST_MS = (1 << 63) // 1000 - 1
"""The last timestamp that Spark's microseconds have room for."""


_BYTES = frozenset({"key", "value", "headers"})


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
