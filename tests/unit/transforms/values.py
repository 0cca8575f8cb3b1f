"""Batches as transforms are given them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from bridge.transforms import SCHEMA


def batch(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None = None,
    headers: Sequence[Sequence[tuple[str, bytes | None]]] | None = None,
    first: int = 10,
) -> pa.RecordBatch:
    rows = [
        {
            "topic": "A.orders",
            "partition": 3,
            "offset": first + at,
            "timestamp": 1_700_000_000_000 + at,
            "key": keys[at] if keys else b"key-%d" % at,
            "value": value,
            "headers": [{"key": key, "value": content} for key, content in (headers[at] if headers else [])],
        }
        for at, value in enumerate(values)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
