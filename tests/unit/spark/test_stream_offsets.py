"""Offsets of micro-batches."""

from __future__ import annotations

import json

import pytest

from bridge.model.values import TopicPartition
from bridge.spark.offsets import (
    Log,
    OffsetRange,
    StreamPositions,
    admitted,
    begun,
    packed,
    stream_ranges,
    unpacked,
)
from bridge.spark.rejected import SourceRejected

A, B, C = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("audit", 0)
LOGS = {A: Log("id", 0, 100), B: Log("id", 0, 10), C: Log("other", 5, 5)}
START = StreamPositions({A: 20, B: 0, C: 5}, {"orders": "id", "audit": "other"})


def end(
    start: StreamPositions = START,
    logs: dict[TopicPartition, Log] = LOGS,
    *,
    most: int | None = None,
    last: StreamPositions | None = None,
    fail: bool = True,
) -> StreamPositions:
    return admitted(start, logs, most=most, last=last, fail_on_data_loss=fail)


def test_offsets_survive_the_checkpoint() -> None:
    offset = json.loads(json.dumps(packed(START)))
    assert offset["orders"] == {"id": "id", "offsets": {"0": 20, "1": 0}}
    assert unpacked(offset) == START
    with pytest.raises(SourceRejected, match="the checkpoint has no offsets of this source"):
        unpacked({"orders": {"0": 5}})


def test_a_trigger_ends_at_the_ends_of_the_logs() -> None:
    assert end().offsets == {A: 100, B: 10, C: 5}


def test_a_limit_is_shared_out_by_what_each_has() -> None:
    assert end(most=9).offsets == {A: 28, B: 1, C: 5}
    assert end(most=1).offsets == {A: 21, B: 1, C: 5}, "none stands still for ever"
    assert end(most=1000).offsets == end().offsets


def test_a_query_that_reads_what_is_there_ends_there() -> None:
    last = begun({A: 50, B: 10}, LOGS)
    assert end(last=last).offsets == {A: 50, B: 10}, "a partition that came later is left out"


def test_a_new_partition_is_read_from_its_beginning() -> None:
    start = StreamPositions({A: 20}, {"orders": "id"})
    last = end(start)
    assert last.offsets == {A: 100, B: 10, C: 5}
    assert stream_ranges(start, last, LOGS, fail_on_data_loss=True) == [
        OffsetRange(A, "id", 20, 100),
        OffsetRange(B, "id", 0, 10),
    ]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({A: Log("new", 0, 100)}, "topic orders was deleted and made again"),
        ({A: Log("id", 0, 19)}, "the log of orders-0 was cut back from offset 20 to 19"),
        ({A: Log("id", 30, 100)}, "offsets 20 to 29 of orders-0 are gone: its log begins at 30"),
    ],
)
def test_what_is_gone_is_an_error_or_left_out(changed: dict[TopicPartition, Log], says: str) -> None:
    logs = LOGS | changed
    with pytest.raises(SourceRejected, match=says):
        end(logs=logs)
    last = end(logs=logs, fail=False)
    read = stream_ranges(START, last, logs, fail_on_data_loss=False)
    assert all(logs[each.tp].start <= each.start < each.end <= logs[each.tp].end for each in read)
    assert last.offsets[A] == logs[A].end


def test_a_partition_that_is_gone_is_an_error_or_left_out() -> None:
    logs = {A: LOGS[A], B: LOGS[B]}
    with pytest.raises(SourceRejected, match="partition audit-0 is gone"):
        end(logs=logs)
    assert end(logs=logs, fail=False).offsets == {A: 100, B: 10}
