"""Runs the sealed slices of a query's task, which come, and report what they copy, in batches of Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from bridge.kafka.gc_tuning import collect_seldom
from bridge.pipeline.queries.sealing import unseal
from bridge.pipeline.slices.progress_row import ProgressRow
from bridge.pipeline.slices.tasks import is_retry, progress

_TYPES = {"at": pa.timestamp("us", "UTC"), "connector": pa.string(), "ended": pa.string()}
_SCHEMA = pa.schema([(name, _TYPES.get(name, pa.int64())) for name in ProgressRow._fields])


def run_sealed(key: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs batches of sealed slices for DataFrame.mapInArrow; yields batches of one row each."""
    collect_seldom()
    sealed = [each for batch in batches for each in batch.column(0).to_pylist()]
    for row in progress([unseal(each, key) for each in sealed], retried=is_retry()):
        yield pa.RecordBatch.from_pylist([row._asdict()], _SCHEMA)
