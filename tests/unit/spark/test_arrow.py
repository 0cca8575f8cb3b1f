"""Records as Arrow batches, with the types that Spark expects of its schema."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from bridge.kafka.record.batch import parse
from bridge.kafka.record.columns import Records
from bridge.model.values import TopicPartition
from bridge.spark.arrow import RecordsPart, as_batch
from bridge.spark.rejected import SourceRejected
from bridge.spark.schema import COLUMNS, NEVER_NULL, RECORDS, chosen, column_of
from tests.support.messages import message_pattern
from tests.unit.kafka.record.raw_batches import NOW, Plain, batch_of, legacy

TP = TopicPartition("orders", 3)
PLAIN = [
    Plain(NOW, b"k", b"v", (("h", b"1"), ("none", None))),
    None,
    Plain(NOW + 5, None, b""),
    Plain(NOW + 9, b"", None),
]


def parts(*batches: bytes) -> list[RecordsPart]:
    return [RecordsPart.from_batch(raw, Records.from_batch(raw)) for data in batches for raw in parse(data)]


def arrow(*batches: bytes, columns: tuple[str, ...] = tuple(COLUMNS)) -> pa.RecordBatch:
    schema = to_arrow_schema(
        StructType([StructField(name, COLUMNS[column_of(name) or ""]) for name in columns]), timezone="UTC"
    )
    batch = as_batch(parts(*batches), TP, schema)
    batch.validate(full=True)
    assert batch.schema.equals(schema)
    return batch


def at(timestamp: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp)


def test_every_field_of_a_record_has_its_column() -> None:
    common = {"topic": "orders", "partition": 3, "timestampType": 0, "leader_epoch": 7}
    headers = [{"key": "h", "value": b"1"}, {"key": "none", "value": None}]
    assert arrow(batch_of(PLAIN, 100, epoch=7)).to_pylist() == [
        common | {"offset": 100, "timestamp": at(NOW), "key": b"k", "value": b"v", "headers": headers},
        common | {"offset": 102, "timestamp": at(NOW + 5), "key": None, "value": b"", "headers": None},
        common | {"offset": 103, "timestamp": at(NOW + 9), "key": b"", "value": None, "headers": None},
    ]


def test_batches_together_keep_epoch_and_kind_of_timestamp() -> None:
    batches = batch_of(PLAIN[:1], 0, epoch=1), batch_of(PLAIN[:1] * 2, 1, epoch=2, append_time=NOW + 50)
    table = arrow(
        *batches, legacy(0, 0, 3, 1), columns=("offset", "timestamp", "timestamp_type", "leader_epoch")
    )
    assert table.column("offset").to_pylist() == [0, 1, 2, 3]
    assert table.column("timestamp").to_pylist() == [at(NOW), at(NOW + 50), at(NOW + 50), None]
    assert table.column("timestamp_type").to_pylist() == [0, 1, 1, -1]
    assert table.column("leader_epoch").to_pylist() == [1, 2, 2, -1]


def test_a_timestamp_that_spark_has_no_room_for_is_null() -> None:
    assert arrow(batch_of([Plain(1 << 62, b"", b"")]), columns=("timestamp",)).to_pylist() == [
        {"timestamp": None}
    ]


@pytest.mark.parametrize("columns", [("value",), ("headers", "offset"), ("partition", "topic")])
def test_only_the_columns_of_the_schema_are_made(columns: tuple[str, ...]) -> None:
    whole = arrow(batch_of(PLAIN)).to_pylist()
    assert arrow(batch_of(PLAIN), columns=columns).to_pylist() == [
        {name: row[name] for name in columns} for row in whole
    ]


def test_a_schema_that_does_not_fit_is_refused_column_by_column() -> None:
    assert chosen(RECORDS) is RECORDS
    wrong = StructType([StructField("ofset", COLUMNS["offset"]), StructField("key", COLUMNS["offset"])])
    unknown = message_pattern("spark.no_column", column="ofset", type="bigint")
    with pytest.raises(SourceRejected, match=f"{unknown}; column key has type"):
        chosen(wrong)
    with pytest.raises(SourceRejected, match="the schema has no column"):
        chosen(StructType([]))


def test_columns_are_found_in_whatever_case_and_by_the_name_that_they_had() -> None:
    batch = arrow(batch_of(PLAIN[:1], 7), columns=("OFFSET", "Value", "timestamp_type"))
    assert batch.to_pylist() == [{"OFFSET": 7, "Value": b"v", "timestamp_type": 0}]


def test_what_may_be_null_is_not_declared_otherwise() -> None:
    def of(*names: str) -> StructType:
        return StructType([StructField(name, COLUMNS[name], nullable=False) for name in names])

    assert chosen(of("topic", "offset"), never_null=NEVER_NULL)
    with pytest.raises(SourceRejected, match="column value may be null"):
        chosen(of("topic", "value"), never_null=NEVER_NULL)
