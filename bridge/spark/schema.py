"""The columns of `mirror-records`, and which of them a schema of the user's chooses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

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
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": _HEADERS,
    "leader_epoch": IntegerType(),
}
"""In the names and the order of Spark's own Kafka source, as far as it has them."""
NEVER_NULL = frozenset({"topic", "partition", "offset", "timestampType", "leader_epoch"})
RECORDS = StructType([StructField(name, kind) for name, kind in COLUMNS.items()])
WITHOUT_HEADERS = StructType([field for field in RECORDS if field.name != "headers"])
_NAMES = {"timestamp_type": "timestampType", **{column.lower(): column for column in COLUMNS}}


def column_of(name: str, columns: Iterable[str] = COLUMNS) -> str | None:
    """Returns the column of this name, in whatever case, as Spark resolves names; None where there is none."""
    names = _NAMES if columns is COLUMNS else {column.lower(): column for column in columns}
    return names.get(name.lower())


def columns_of(schema: StructType, columns: Iterable[str]) -> list[str]:
    """Returns the columns of a schema that was `chosen`, by their own names."""
    return [column_of(name, columns) or name for name in schema.names]


def chosen(
    schema: StructType, columns: Mapping[str, DataType] = COLUMNS, never_null: Collection[str] = ()
) -> StructType:
    """The schema, if all of its columns are among `columns`, by name and type. Raises SourceRejected, which names each
    that is not, and each that is declared `not null` and is not in `never_null`."""
    wrong, null = [], []
    for field in schema:
        column, kind = column_of(field.name, columns), field.dataType.simpleString()
        if column is None:
            wrong.append(f"column {field.name} has type {kind}, and does not exist")
        elif columns[column] != field.dataType:
            wrong.append(f"column {field.name} has type {kind}, and is {columns[column].simpleString()}")
        elif not field.nullable and column not in never_null:
            null.append(f"column {field.name} may be null: leave its `not null` out")
    names = f"the columns are {', '.join(columns)}"
    if wrong:
        raise SourceRejected(f"the schema does not fit: {'; '.join([*wrong, *null])}; {names}")
    if null:
        raise SourceRejected(f"the schema does not fit: {'; '.join(null)}")
    if not len(schema):
        raise SourceRejected(f"the schema has no column; {names}")
    return schema
