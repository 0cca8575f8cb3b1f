"""Which columns the sink takes."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StructType

from bridge.spark.rejected import SourceRejected
from bridge.spark.schema import RECORDS
from bridge.spark.writing.writers import verify_schema


def schema(ddl: str) -> StructType:
    """Of `name type` pairs with semicolons between; Spark's own parser needs a JVM."""
    from pyspark.sql import types as kinds

    known = {
        "string": kinds.StringType(),
        "binary": kinds.BinaryType(),
        "int": kinds.IntegerType(),
        "bigint": kinds.LongType(),
        "timestamp": kinds.TimestampType(),
        "texts": kinds.ArrayType(kinds.StringType()),
    }
    made = StructType()
    for each in ddl.split("; "):
        name, kind = each.split()
        made.add(name, known[kind])
    return made


def test_the_readers_schema_is_taken_whole() -> None:
    verify_schema(RECORDS, "")
    verify_schema(schema("value string; key string; timestampType int"), "orders")


def test_each_column_that_does_not_fit_is_named() -> None:
    wrong = schema("partition bigint; timestamp bigint; headers texts; keys binary; extra int; key int")
    with pytest.raises(SourceRejected) as raised:
        verify_schema(wrong, "")
    text = str(raised.value)
    for part in (
        "column partition has type bigint, and must be int",
        "column timestamp has type bigint, and must be timestamp",
        "column headers has type array<string>, and must be array<struct<key:string,value:binary>>",
        "there is no column keys (binary); did you mean key?",
        "there is no column extra (int)",
        "column key has type int, and must be binary or string",
        "column value is missing (binary or string)",
        "column topic is missing (string): without it the option topic is required",
    ):
        assert part in text


def test_a_column_may_be_there_once() -> None:
    with pytest.raises(SourceRejected, match="column value is there 2 times"):
        verify_schema(schema("value string; value string"), "orders")
