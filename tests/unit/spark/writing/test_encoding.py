"""Rows of Arrow batches as record batches of partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from aiokafka.partitioner import murmur2
from hypothesis import given
from hypothesis import strategies as st

from bridge.kafka.record.arrow_columns import cut
from bridge.kafka.record.batch import parse
from bridge.kafka.record.columns import Records
from bridge.model.values import TopicPartition
from bridge.spark.rejected import SourceRejected
from bridge.spark.writing.encoding import EncodedBatch, Encoder
from bridge.spark.writing.options import SinkOptions
from tests.unit.kafka.record.raw_batches import NOW

PARTITIONS = {"one": 1, "three": 3}
BYTES = st.none() | st.binary(max_size=20)
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
ROWS = st.lists(
    st.tuples(
        st.just("three"),
        st.none() | st.integers(0, 2),
        st.integers(0, NOW),
        BYTES,
        BYTES,
        st.none() | st.lists(st.tuples(st.text("aä", max_size=2), BYTES), max_size=3),
    )
    | st.tuples(st.just("one"), st.just(0), st.just(NOW), BYTES, BYTES, st.none()),
    max_size=30,
)
Row = tuple[Any, ...]


def arrow(rows: Sequence[Row], *, text: bool = False) -> pa.RecordBatch:
    topics, partitions, times, keys, values, headers = zip(*rows, strict=True) if rows else [()] * 6
    return pa.record_batch(
        {
            "topic": pa.array(topics, pa.string()),
            "partition": pa.array(partitions, pa.int32()),
            "timestamp": pa.array([each * 1000 + 7 for each in times], pa.timestamp("us", "UTC")),
            "key": pa.array(keys, pa.string() if text else pa.binary()),
            "value": pa.array(values, pa.binary()),
            "headers": pa.array(
                [None if each is None else [{"key": k, "value": v} for k, v in each] for each in headers],
                HEADERS,
            ),
            "offset": pa.array([5] * len(rows), pa.int64()),
        }
    )


def decoded(batches: Sequence[EncodedBatch]) -> dict[TopicPartition, list[Row]]:
    """Timestamp, key, value and headers of the records of each partition."""
    found: dict[TopicPartition, list[Row]] = {}
    for tp, chunk in batches:
        (batch,) = parse(bytes(chunk.data))
        fields = cut(Records.from_batch(batch))
        for row, time in enumerate(fields.timestamps.tolist()):
            headers = [
                ((fields.header_keys.row(at) or b"").decode(), fields.header_values.row(at))
                for at in range(fields.lists[row], fields.lists[row + 1])
            ]
            found.setdefault(tp, []).append((time, fields.keys.row(row), fields.values.row(row), headers))
    return found


def encoded(options: SinkOptions, *batches: pa.RecordBatch) -> list[EncodedBatch]:
    encoder = Encoder(options, PARTITIONS.__getitem__)
    return [*(each for rows in batches for each in encoder.add(rows)), *encoder.last_batches()]


@given(st.lists(ROWS, max_size=3), st.sampled_from([1, 100, 1 << 20]), st.sampled_from(["none", "lz4"]))
def test_every_row_arrives_as_it_is(batches: list[list[Row]], size: int, codec: str) -> None:
    options = SinkOptions({"compression.type": codec}, batch_size=size)
    found = decoded(encoded(options, *map(arrow, batches)))
    rows = [row for batch in batches for row in batch]
    keyless = 0
    for tp, records in found.items():
        for topic, partition, time, key, value, headers in rows:
            placed = partition if partition is not None or key is None else (murmur2(key) & 0x7FFFFFFF) % 3
            if topic == tp.topic and placed == tp.partition:
                assert (time, key, value, headers or []) in records
        keyless += sum(record[1] is None for record in records)
    assert sum(map(len, found.values())) == len(rows)
    assert keyless == sum(row[3] is None for row in rows)


@given(ROWS)
def test_what_counts_as_written_is_the_same_however_rows_come(rows: list[Row]) -> None:
    whole, parts = (
        Encoder(SinkOptions({}), PARTITIONS.__getitem__),
        Encoder(SinkOptions({}), PARTITIONS.__getitem__),
    )
    list(whole.add(arrow(rows)))
    for row in rows:
        parts.count(arrow([row]))
    assert whole.written == parts.written
    assert whole.written.rows == len(rows)


def test_order_is_kept_within_a_partition() -> None:
    rows = [("three", number % 3, NOW, None, b"%d" % number, None) for number in range(3000)]
    found = decoded(
        encoded(SinkOptions({}, batch_size=500), *(arrow(rows[at : at + 7]) for at in range(0, 3000, 7)))
    )
    for tp, records in found.items():
        assert [int(record[2]) for record in records] == list(range(tp.partition, 3000, 3))


def test_records_without_key_are_spread_by_batches() -> None:
    rows = [("three", None, NOW, None, b"x" * 76, None) for _ in range(300)]
    found = decoded(encoded(SinkOptions({}, batch_size=1000), arrow(rows)))
    assert sorted(map(len, found.values())) == [100, 100, 100]


def test_text_is_written_as_utf_8() -> None:
    (batch,) = encoded(SinkOptions({}), arrow([("one", 0, NOW, "ä", b"", None)], text=True))
    assert decoded([batch]) == {TopicPartition("one", 0): [(NOW, "ä".encode(), b"", [])]}


def test_only_a_value_is_required() -> None:
    rows = pa.record_batch({"value": pa.array(["a", None], pa.string())})
    (batch,) = encoded(SinkOptions({}, topic="one"), rows)
    ((first, second),) = decoded([batch]).values()
    assert (first[1:], second[1:]) == ((None, b"a", []), (None, None, []))
    assert first[0] > NOW


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((None, 0, NOW, None, b"", None), "a row has no topic"),
        (
            ("three", 3, NOW, None, b"", None),
            r"there is no partition three-3: topic three has 3 partition\(s\)",
        ),
        (("three", -1, NOW, None, b"", None), "there is no partition -1"),
        (("three", 0, -5, None, b"", None), "a timestamp is before 1970"),
        (("three", 0, NOW, None, b"", [(None, b"")]), "a header has no key"),
    ],
)
def test_a_row_that_no_record_can_be(row: Row, message: str) -> None:
    with pytest.raises(SourceRejected, match=message):
        encoded(SinkOptions({}), arrow([("three", 0, NOW, None, b"", None), row]))
