"""Decodes what is fetched of ranges of offsets into Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.gc_tuning import collect_seldom
from bridge.kafka.record.batch import RawBatch
from bridge.kafka.record.columns import Records
from bridge.spark.arrow import Part, as_batch
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
    for each in fetched(options, ranges):
        for parts in _by_size(each):
            try:
                yield as_batch(parts, each.part.tp, arrow_schema)
            except ValueError as error:
                raise _unreadable(each.part, parts[0].records.first, error) from None


def _by_size(fetch: Fetched) -> Iterator[list[Part]]:
    """The records of a fetch, in parts of at most so many bytes, or a single batch."""
    together: list[Part] = []
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


def _decoded(part: OffsetRange, batch: RawBatch) -> Part | None:
    """The records of a batch that are in the range; None when none is."""
    try:
        records = Records.of(batch)
    except Exception as error:  # each codec has exceptions of its own
        raise _unreadable(part, batch.base_offset, error) from None
    records = records.since(part.start)
    if records.count and records.last >= part.end:
        records = replace(records, columns=records.columns[:, records.columns[0] < part.end])
    return Part.of(batch, records) if records.count else None


def _unreadable(part: OffsetRange, offset: int, error: Exception) -> KafkaFailure:
    text = f"{part.name}: the batch at offset {offset} can't be decoded: {error}"
    return KafkaFailure(KafkaFault.UNREADABLE_BATCH, text, retriable=False)
