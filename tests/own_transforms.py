"""Transforms as users write them, good and bad ones. In a package that imports nothing: each test of them starts a
process that imports it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

not_callable = 7


def upper(batch: pa.RecordBatch) -> pa.RecordBatch:
    values = [None if value is None else value.upper() for value in batch.column("value").to_pylist()]
    return batch.set_column(5, "value", pa.array(values, pa.binary()))


def even(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.filter(pc.equal(pc.bit_wise_and(batch.column("offset"), 1), 0))


def nothing(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.slice(0, 0)


def _at(batch: pa.RecordBatch, mark: str) -> bool:
    return any(value is not None and mark.encode() in value for value in batch.column("value").to_pylist())


def raises(batch: pa.RecordBatch, mark: str = "poison") -> pa.RecordBatch:
    if _at(batch, mark):
        raise KeyError("no such country")
    return batch


def hangs(batch: pa.RecordBatch, mark: str = "poison") -> pa.RecordBatch:
    while _at(batch, mark):
        time.sleep(1)
    return batch


def grows(batch: pa.RecordBatch, mark: str = "poison") -> pa.RecordBatch:
    kept = []
    while _at(batch, mark):
        kept.append(bytes(1_000_000))
    return batch


def aborts(batch: pa.RecordBatch, mark: str = "poison") -> pa.RecordBatch:
    if _at(batch, mark):
        os.abort()
    return batch


def reverses(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.take(pa.array(range(batch.num_rows - 1, -1, -1), pa.int32()))


def doubles(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.Table.from_batches([batch, batch]).combine_chunks().to_batches()[0] if batch.num_rows else batch


def slow(batch: pa.RecordBatch, per_record: str = "0.01") -> pa.RecordBatch:
    time.sleep(float(per_record) * batch.num_rows)
    return batch


def prints(batch: pa.RecordBatch) -> pa.RecordBatch:
    print("a word on standard output")
    return batch


def fails_without_records(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.filter(pa.array([batch.column("offset")[0].as_py() >= 0] * batch.num_rows))


def without_key(batch: pa.RecordBatch, at: str) -> pa.RecordBatch:
    offsets, keys = batch.column("offset").to_pylist(), batch.column("key").to_pylist()
    left = [None if offset == int(at) else key for offset, key in zip(offsets, keys, strict=True)]
    return batch.set_column(4, "key", pa.array(left, pa.binary()))


def an_hour_later(batch: pa.RecordBatch) -> pa.RecordBatch:
    hour = pa.scalar(3_600_000, pa.duration("ms"))
    return batch.set_column(3, "timestamp", pc.add(batch.column("timestamp"), hour))


def takes_any(batch: pa.RecordBatch, **parameters: str) -> pa.RecordBatch:
    return batch.slice(0, len(parameters))


def returns_none(batch: pa.RecordBatch) -> None:
    """As who forgets to return."""


def repeats(batch: pa.RecordBatch, password: str) -> pa.RecordBatch:
    raise ValueError(f"wrong password {password}")


def routes(batch: pa.RecordBatch, to: str, mark: str = "other") -> pa.RecordBatch:
    """Sends those whose value begins with the mark elsewhere."""
    topics = [
        to if value is not None and value.startswith(mark.encode()) else topic
        for topic, value in zip(
            batch.column("topic").to_pylist(), batch.column("value").to_pylist(), strict=True
        )
    ]
    return batch.set_column(0, "topic", pa.array(topics, pa.string()))


def inherits(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Replaces the records' values by what the transform finds in its environment."""
    result = Path("/proc/self/environ").read_bytes()
    return batch.set_column(5, "value", pa.array([result] * batch.num_rows, pa.binary()))
