"""Filters that are pushed down."""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from bridge.model.values import TopicPartition
from bridge.spark.offsets import OffsetRange
from bridge.spark.pushdown import pushed

RANGES = [
    OffsetRange(TopicPartition(topic, number), "id", 0, 100)
    for topic in ("audit", "orders")
    for number in range(3)
]


def left(*filters: Filter) -> list[tuple[str, int, int, int]]:
    limits, _ = pushed(filters)
    return [(each.tp.topic, each.tp.partition, each.start, each.end) for each in limits.clipped(RANGES)]


def test_topics_partitions_and_offsets_are_exact() -> None:
    filters: list[Filter] = [
        IsNotNull(("topic",)),
        EqualTo(("topic",), "orders"),
        In(("partition",), (0, 2)),
        GreaterThanOrEqual(("offset",), 10),
        LessThan(("offset",), 20),
    ]
    assert pushed(filters)[1] == []
    assert left(*filters) == [("orders", 0, 10, 20), ("orders", 2, 10, 20)]
    assert left(
        EqualTo(("offset",), 7), StringStartsWith(("topic",), "aud"), GreaterThan(("partition",), 1)
    ) == [("audit", 2, 7, 8)]
    assert left(LessThanOrEqual(("offset",), -1)) == []
    assert left(In(("partition",), (7,))) == []


def test_of_timestamps_only_the_lower_limit_counts_and_spark_looks_again() -> None:
    time = datetime(2026, 1, 1, tzinfo=UTC)
    lower, upper = GreaterThan(("timestamp",), time), LessThan(("timestamp",), time)
    limits, rest = pushed([lower, upper])
    assert limits.since == int(time.timestamp() * 1000)
    assert rest == [lower, upper]


def test_other_filters_are_sparks() -> None:
    others: list[Filter] = [
        EqualTo(("value",), b"x"),
        Not(EqualTo(("partition",), 1)),
        In(("offset",), (1, 5)),
        IsNotNull(("key",)),
        EqualTo(("headers", "key"), "x"),
    ]
    limits, rest = pushed(others)
    assert rest == others
    assert limits.clipped(RANGES) == RANGES
