"""What a transform may return."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from bridge.transforms import SCHEMA
from bridge.transforms.contract import ContractBroken, call, checked, nothing
from tests.unit.transforms.values import batch

GIVEN = batch([b"a", b"b", None, b"d"], headers=[[("h", b"1")], [], [("h", None), ("h", b"2")], []])


def put(name: str, column: pa.Array) -> pa.RecordBatch:
    at = SCHEMA.get_field_index(name)
    return GIVEN.set_column(at, pa.field(name, column.type), column)


def offsets(*chosen: int | None) -> pa.RecordBatch:
    columns = [column.slice(0, 0).take(pa.array([], pa.int32())) for column in GIVEN.columns]
    taken = [GIVEN.column(name).take(pa.array([0] * len(chosen))) for name in SCHEMA.names]
    assert columns
    taken[2] = pa.array(chosen, pa.int64())
    return pa.RecordBatch.from_arrays(taken, names=SCHEMA.names)


@pytest.mark.parametrize(
    "returned",
    [
        GIVEN,
        GIVEN.slice(1, 2),
        GIVEN.filter(pa.array([True, False, False, True])),
        GIVEN.slice(4),
        GIVEN.select(list(reversed(SCHEMA.names))),
        put("value", pa.array(["x", "y", None, "z"])),
        put("value", pa.array([b"x", b"y", None, b"z"], pa.large_binary())),
        put("timestamp", pa.array([1, 2, None, 4], pa.int64())),
        put("key", pa.nulls(4, pa.binary())),
        put("partition", pa.array([3] * 4, pa.int64())),
    ],
    ids=lambda each: f"{each.num_rows} rows",
)
def test_fewer_or_changed_records_in_order_are_taken(returned: pa.RecordBatch) -> None:
    validated = checked(GIVEN, returned)
    assert validated.schema.names == SCHEMA.names
    assert validated.schema.types == SCHEMA.types
    assert validated.num_rows == returned.num_rows


@pytest.mark.parametrize(
    ("returned", "why"),
    [
        (None, "it returned None, not a pyarrow.RecordBatch"),
        ([], "it returned a builtins.list, not a pyarrow.RecordBatch"),
        (pa.Table.from_batches([GIVEN]), "it returned a pyarrow.lib.Table"),
        (
            GIVEN.drop_columns(["key"]),
            "it returned the columns topic, partition, offset, timestamp, value, headers",
        ),
        (
            GIVEN.append_column("more", pa.nulls(4)),
            "it returned the columns topic, .*, more; they must be topic",
        ),
        (put("value", pa.array([1, 2, 3, 4])), "it returned the column value as int64, which is no binary"),
        (put("headers", pa.array([b"x"] * 4)), "it returned the column headers as binary"),
        (put("timestamp", pa.array(["now"] * 4)), "it returned the column timestamp as string"),
        (offsets(10, 11, 12, 13, 13), "it returned 5 records for 4: never more than it was given"),
        (offsets(11, 10), "it returned offset 10 behind 11: records stay in order"),
        (offsets(10, 10), "it returned offset 10 behind 10"),
        (offsets(10, 14), "it returned offset 14, which it was not given"),
        (offsets(9), "it returned offset 9, which it was not given"),
        (offsets(10, None), "it returned nulls in the column offset"),
        (put("topic", pa.nulls(4, pa.string())), "it returned nulls in the column topic"),
        (
            put("headers", pa.nulls(4, SCHEMA.field("headers").type)),
            "it returned nulls in the column headers",
        ),
        (put("partition", pa.array([3, 3, 4, 3], pa.int32())), "it changed the partition 3"),
        (
            put("topic", pa.array(["A.orders"] * 3 + ["other"])),
            "it sent records to other, which bridge.transforms",
        ),
        (
            put(
                "headers",
                pa.array([[{"key": None, "value": b"1"}], [], [], []], SCHEMA.field("headers").type),
            ),
            "it returned a header without a key",
        ),
    ],
)
def test_anything_else_is_refused_in_words_that_say_why(returned: object, why: str) -> None:
    with pytest.raises(ContractBroken, match=why):
        checked(GIVEN, returned)


def test_a_batch_that_is_damaged_is_refused() -> None:
    damaged = pa.Array.from_buffers(
        pa.binary(),
        4,
        [None, pa.py_buffer(b"\0\0\0\0\xff\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), pa.py_buffer(b"ab")],
    )
    with pytest.raises(ContractBroken, match="damaged"):
        checked(GIVEN, put("value", damaged))


@pytest.mark.parametrize("transform", [lambda given: given, lambda given: given.slice(0, 0)])
def test_nothing_may_be_given(transform: Callable[[pa.RecordBatch], pa.RecordBatch]) -> None:
    assert call(transform, {}, nothing()).num_rows == 0
    with pytest.raises(ContractBroken, match="4 records for 0"):
        call(lambda _: GIVEN, {}, nothing())


def test_records_may_be_sent_to_topics_that_are_named() -> None:
    renamed = put("topic", pa.array(["A.orders", "other", "other", "A.orders"]))
    assert checked(GIVEN, renamed, ["other"]) == renamed
    # What another transform has sent elsewhere before may stay there, or come back.
    assert checked(renamed, renamed.slice(1)) == renamed.slice(1)
    with pytest.raises(ContractBroken, match="sent records to third"):
        checked(renamed, put("topic", pa.array(["third"] * 4)), ["other"])
