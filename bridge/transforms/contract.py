"""Calls transforms and checks what they return: the contract of docs/transforms.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Transform = Callable[..., pa.RecordBatch]
"""Called with a batch, and with its parameters as keywords."""

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
"""Of a batch: records of one partition, in the order of their offsets. `topic` is the one that they go to; `timestamp`
is null for a record without any."""


class ContractBroken(ValueError):
    """Raised when a transform returns what it must not; the text says why."""


def call(
    transform: Transform, parameters: dict[str, str], batch: pa.RecordBatch, to: Sequence[str] = ()
) -> pa.RecordBatch:
    """Calls the transform with a batch and checks the result. `to`: other topics that it may send records to. Raises
    ContractBroken, and whatever it raises."""
    return checked(batch, transform(batch, **parameters), to)


def nothing() -> pa.RecordBatch:
    """Returns a batch without records."""
    return pa.RecordBatch.from_pylist([], schema=SCHEMA)


def checked(batch: pa.RecordBatch, returned: object, to: Sequence[str] = ()) -> pa.RecordBatch:
    """Returns a transform's result, with its columns in order and of the right types. Raises ContractBroken."""
    if not isinstance(returned, pa.RecordBatch):
        raise ContractBroken(f"it returned {_what(returned)}, not a pyarrow.RecordBatch")
    result = _typed(returned)
    for name in ("topic", "partition", "offset", "headers"):
        if result.column(name).null_count:
            raise ContractBroken(f"it returned nulls in the column {name}")
    _check_offsets(_numbers(batch, "offset"), _numbers(result, "offset"))
    _check_topic_partition(batch, result, to)
    headers = result.column("headers").flatten()
    if headers.null_count or headers.field("key").null_count:
        raise ContractBroken("it returned a header without a key")
    try:
        result.validate(full=True)
    except pa.ArrowInvalid as damaged:
        raise ContractBroken(f"it returned a batch that is damaged: {damaged}") from None
    return result


def _typed(returned: pa.RecordBatch) -> pa.RecordBatch:
    names = returned.schema.names
    if sorted(names) != sorted(SCHEMA.names):
        raise ContractBroken(
            f"it returned the columns {', '.join(names) or '(none)'}; they must be {', '.join(SCHEMA.names)}"
        )
    columns = []
    for field in SCHEMA:
        column = returned.column(field.name)
        if column.type != field.type:
            try:
                column = column.cast(field.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as wrong:
                text = (
                    f"it returned the column {field.name} as {column.type}, which is no {field.type}: {wrong}"
                )
                raise ContractBroken(text) from None
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=SCHEMA.names)


def _check_offsets(offsets: np.ndarray, result: np.ndarray) -> None:
    """Checks that the returned offsets are some of the given ones, once each, in their order."""
    if len(result) > len(offsets):
        raise ContractBroken(
            f"it returned {len(result)} records for {len(offsets)}: never more than it was given"
        )
    if np.array_equal(offsets, result):
        return
    if len(result) and not len(offsets):
        raise ContractBroken("it returned records for none")
    wrong = np.flatnonzero(np.diff(result) <= 0)
    if len(wrong):
        first, second = result[wrong[0] : wrong[0] + 2].tolist()
        raise ContractBroken(
            f"it returned offset {second} behind {first}: records stay in order, and are returned once"
        )
    positions = np.minimum(np.searchsorted(offsets, result), len(offsets) - 1)
    strange = result[offsets[positions] != result]
    if len(strange):
        raise ContractBroken(f"it returned offset {int(strange[0])}, which it was not given")


def _check_topic_partition(batch: pa.RecordBatch, result: pa.RecordBatch, to: Sequence[str]) -> None:
    if not result.num_rows:
        return
    partition = batch.column("partition")[0].as_py()
    if (_numbers(result, "partition") != partition).any():
        raise ContractBroken(f"it changed the partition {partition}: a copy keeps its partition")
    topics = pc.unique(batch.column("topic")).to_pylist()
    for topic in pc.unique(result.column("topic")).to_pylist():
        if topic not in topics and topic not in to:
            raise ContractBroken(
                f"it sent records to {topic}, which bridge.transforms.<name>.to does not name"
            )


def _numbers(batch: pa.RecordBatch, name: str) -> np.ndarray:
    result: np.ndarray = batch.column(name).to_numpy(zero_copy_only=False)
    return result


def _what(returned: object) -> str:
    return "None" if returned is None else f"a {type(returned).__module__}.{type(returned).__qualname__}"
