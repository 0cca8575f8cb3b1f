"""Decodes what is fetched of ranges of offsets into Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.gc_tuning import collect_seldom
from bridge.kafka.record.arrow_columns import cut
from bridge.kafka.record.batch import RawBatch
from bridge.kafka.record.columns import Records
from bridge.spark.arrow import RecordsPart, as_batch
from bridge.spark.offsets import OffsetRange
from bridge.spark.options import RecordsOptions
from bridge.spark.reading import Fetched, fetched

_MOST_BYTES = 4 * 1024 * 1024
"""Of keys, values and headers in an Arrow batch, about: a fetch is smaller, unless it is compressed well."""


def arrow_batches(
    options: RecordsOptions, schema: StructType, ranges: Sequence[OffsetRange]
) -> Iterator[pa.RecordBatch]:
    """Raises SourceRejected and KafkaFailure."""
    collect_seldom()
    arrow_schema: Any = to_arrow_schema(schema, timezone="UTC")
    for part in fetched(options, ranges):
        for parts in _by_size(part):
            try:
                yield as_batch(parts, part.part.tp, arrow_schema)
            except ValueError as error:
                raise _unreadable(part.part, parts[0].records.first, error) from None


class StoredRecord(NamedTuple):
    """A record as it is stored, with its place. Timestamp in ms, -1 for none."""

    key: bytes | None
    value: bytes | None
    topic: str
    offset: int
    timestamp: int


def records(options: RecordsOptions, ranges: Sequence[OffsetRange]) -> Iterator[StoredRecord]:
    """The records of the ranges, those of each in order. Raises SourceRejected and KafkaFailure."""
    collect_seldom()
    for each in fetched(options, ranges):
        for batch in each.batches:
            part = _decoded(each.part, batch)
            if part is None:
                continue
            try:
                fields = cut(part.records)
            except ValueError as error:
                raise _unreadable(each.part, batch.base_offset, error) from None
            times = zip(fields.offsets.tolist(), fields.timestamps.tolist(), strict=True)
            for row, (offset, timestamp) in enumerate(times):
                yield StoredRecord(
                    fields.keys.row(row), fields.values.row(row), each.part.tp.topic, offset, timestamp
                )


def newest(stored: Iterable[StoredRecord]) -> list[StoredRecord]:
    """The last record of each key of each topic, without those that take a key back; and all without a key. In the
    order of their offsets."""
    last: dict[tuple[str, bytes], StoredRecord] = {}
    keyless = list[StoredRecord]()
    for record in stored:
        if record.key is None:
            keyless.append(record)
        else:
            last[record.topic, record.key] = record
    kept = [*keyless, *(record for record in last.values() if record.value is not None)]
    return sorted(kept, key=lambda record: (record.topic, record.offset))


def _by_size(fetch: Fetched) -> Iterator[list[RecordsPart]]:
    """The records of a fetch, in parts of at most so many bytes, or a single batch."""
    together: list[RecordsPart] = []
    size = 0
    for batch in fetch.batches:
        part = _decoded(fetch.part, batch)
        if part is None:
            continue
        if together and size + part.records.size > _MOST_BYTES:
            yield together
            together, size = [], 0
        together.append(part)
        size += part.records.size
    if together:
        yield together


def _decoded(part: OffsetRange, batch: RawBatch) -> RecordsPart | None:
    """The records of a batch that are in the range; None when none is."""
    try:
        records = Records.from_batch(batch)
    except Exception as error:  # each codec has exceptions of its own
        raise _unreadable(part, batch.base_offset, error) from None
    records = records.since(part.start)
    if records.count and records.last >= part.end:
        records = replace(records, columns=records.columns[:, records.columns[0] < part.end])
    return RecordsPart.from_batch(batch, records) if records.count else None


def _unreadable(part: OffsetRange, offset: int, error: Exception) -> KafkaFailure:
    text = f"{part.name}: the batch at offset {offset} can't be decoded: {error}"
    return KafkaFailure(KafkaFault.UNREADABLE_BATCH, text, retriable=False)
