"""Records as Arrow batches, as transforms have them, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bridge.kafka.record import arrow_columns
from bridge.kafka.record.arrow_columns import Fields, Texts
from bridge.kafka.record.columns import Records
from bridge.kafka.record.jit import Bytes
from bridge.transforms.contract import SCHEMA

_HEADERS = SCHEMA.field("headers").type
_NO_TIMESTAMP = -1


def as_batch(records: Records, topic: str, partition: int) -> pa.RecordBatch:
    """Raises BrokenRecord."""
    fields = arrow_columns.cut(records)
    rows, headers = records.count, len(fields.header_keys.ends) - 1
    has_timestamp = fields.timestamps != _NO_TIMESTAMP
    header = pa.StructArray.from_buffers(
        _HEADERS.value_type,
        headers,
        [None],
        children=[
            _array(pa.string(), headers, fields.header_keys),
            _array(pa.binary(), headers, fields.header_values),
        ],
    )
    columns = [
        pa.repeat(topic, rows),
        pa.repeat(pa.scalar(partition, pa.int32()), rows),
        pa.array(fields.offsets),
        pa.Array.from_buffers(
            SCHEMA.field("timestamp").type,
            rows,
            [
                None if has_timestamp.all() else _buffer(np.packbits(has_timestamp, bitorder="little")),
                _buffer(fields.timestamps),
            ],
        ),
        _array(pa.binary(), rows, fields.keys),
        _array(pa.binary(), rows, fields.values),
        pa.Array.from_buffers(_HEADERS, rows, [None, _buffer(fields.lists)], children=[header]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def by_topic(batch: pa.RecordBatch) -> dict[str, Records]:
    """The records of a batch as IPC reads it, by the topic that they go to."""
    topics = pc.unique(batch.column("topic")).to_pylist()
    if len(topics) == 1:
        return {topics[0]: as_records(batch)}
    return {topic: as_records(batch.filter(pc.equal(batch.column("topic"), topic))) for topic in topics}


def as_records(batch: pa.RecordBatch) -> Records:
    """Converts a batch to records. None of its arrays begins inside of its buffers: IPC and filters make none that
    does."""
    timestamps = batch.column("timestamp")
    lists = batch.column("headers")
    header = lists.values
    return arrow_columns.joined(
        Fields(
            batch.column("offset").to_numpy(),
            timestamps.cast(pa.int64()).fill_null(_NO_TIMESTAMP).to_numpy(),
            _texts(batch.column("key")),
            _texts(batch.column("value")),
            _numbers(lists.buffers()[1], np.int32) if len(lists) else np.zeros(1, np.int32),
            _texts(header.field("key")),
            _texts(header.field("value")),
        )
    )


def _array(kind: pa.DataType, rows: int, texts: Texts) -> pa.Array:
    validity = _buffer(texts.validity) if len(texts.validity) else None
    return pa.Array.from_buffers(kind, rows, [validity, _buffer(texts.ends), _buffer(texts.data)])


def _texts(array: pa.Array) -> Texts:
    assert array.offset == 0
    validity, ends, data = array.buffers()
    has_nulls = array.null_count > 0
    return Texts(
        _numbers(validity if has_nulls else None, np.uint8),
        _numbers(ends, np.int32) if len(array) else np.zeros(1, np.int32),
        _numbers(data, np.uint8),
    )


def _numbers(buffer: pa.Buffer | None, kind: Any) -> Any:
    return np.empty(0, kind) if buffer is None else np.frombuffer(buffer, kind)


def _buffer(array: Bytes | Any) -> pa.Buffer:
    return pa.py_buffer(array)
