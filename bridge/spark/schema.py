"""The columns of `mirror-records`, and which of them a schema of the user's chooses."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from bridge.spark.rejected import SourceRejected

_HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
COLUMNS: dict[str, DataType] = {
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestamp_type": IntegerType(),
    "key": BinaryType(),
    "value": BinaryType(),
    "headers": _HEADERS,
    "leader_epoch": IntegerType(),
}
NEVER_NULL = frozenset({"topic", "partition", "offset", "timestamp_type", "headers", "leader_epoch"})
RECORDS = StructType([StructField(name, kind) for name, kind in COLUMNS.items()])


def chosen(schema: StructType, columns: Mapping[str, DataType] = COLUMNS) -> StructType:
    """The schema, if all of its columns are among `columns`, by name and type. Raises SourceRejected, which names each
    that is not."""
    wrong = [
        f"column {field.name} has type {field.dataType.simpleString()}"
        + (
            f", and is {columns[field.name].simpleString()}"
            if field.name in columns
            else ", and does not exist"
        )
        for field in schema
        if columns.get(field.name) != field.dataType
    ]
    names = f"the columns are {', '.join(columns)}"
    if wrong:
        raise SourceRejected(f"the schema does not fit: {'; '.join(wrong)}; {names}")
    if not len(schema):
        raise SourceRejected(f"the schema has no column; {names}")
    return schema
