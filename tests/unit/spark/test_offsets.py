"""Which offsets are read."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from bridge.model.values import TopicPartition
from bridge.spark.offsets import (
    AtTime,
    Each,
    EachTime,
    Log,
    LogEdge,
    OffsetRange,
    Where,
    ranges,
    read_times,
    resolved,
    verify_order,
)
from bridge.spark.rejected import SourceRejected
from tests.support.messages import message_pattern

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
LOGS = {A: Log("id", 10, 100), B: Log("id", 0, 7)}


def read(
    starts: dict[TopicPartition, int], ends: dict[TopicPartition, int], *, fail: bool = True
) -> list[OffsetRange]:
    return ranges(starts, ends, LOGS, fail_on_data_loss=fail)


def test_ends_of_logs_times_and_offsets_become_offsets() -> None:
    assert resolved(LogEdge.EARLIEST, LOGS, {}) == {A: 10, B: 0}
    assert resolved(LogEdge.LATEST, LOGS, {}) == {A: 100, B: 7}
    assert resolved(AtTime(5), LOGS, {A: 40, B: None}) == {A: 40, B: 7}
    assert resolved(Each("startingOffsets", {A: 12, B: LogEdge.EARLIEST}), LOGS, {}) == {A: 12, B: 0}


def test_a_time_for_each_partition_is_the_first_record_as_late() -> None:
    where = read_times("startingOffsetsByTimestamp", '{"orders": {"0": 5, "1": 6}}')
    assert where.times == {A: 5, B: 6}
    assert resolved(where, LOGS, {A: 40, B: 3}, as_late=True) == {A: 40, B: 3}
    assert resolved(where, LOGS, {A: 40, B: None}) == {A: 40, B: 7}
    for late in (where, AtTime(5)):
        with pytest.raises(SourceRejected, match="orders-1; startingOffsetsByTimestampStrategy=latest"):
            resolved(late, LOGS, {A: 40, B: None}, as_late=True)
    with pytest.raises(SourceRejected, match="names no time of orders-1"):
        resolved(EachTime("startingOffsetsByTimestamp", {A: 5}), LOGS, {A: 40})
    with pytest.raises(SourceRejected, match="a time below 0 for orders-0"):
        read_times("endingOffsetsByTimestamp", '{"orders": {"0": -1}}')


def test_offsets_are_named_for_all_partitions_and_no_other() -> None:
    said = message_pattern("spark.no_offset", option="startingOffsets", partition="orders-1")
    with pytest.raises(SourceRejected, match=said):
        resolved(Each("startingOffsets", {A: 12}), LOGS, {})
    strange = {A: 1, B: 1, TopicPartition("other", 0): 1}
    with pytest.raises(SourceRejected, match="names other-0, which is not read"):
        resolved(Each("endingOffsets", strange), LOGS, {})


def test_a_range_is_from_the_start_to_before_the_end() -> None:
    assert read({A: 10, B: 3}, {A: 100, B: 3}) == [OffsetRange(A, "id", 10, 100)]


@pytest.mark.parametrize(
    ("starts", "ends", "says"),
    [
        ({A: 4, B: 0}, {A: 100, B: 7}, "offsets 4 to 9 of orders-0 are gone: its log begins at 10"),
        ({A: 10, B: 0}, {A: 101, B: 7}, "orders-0 has no offset 101: its log ends at 100"),
    ],
)
def test_what_the_log_does_not_have_is_an_error_or_left_out(
    starts: dict[TopicPartition, int], ends: dict[TopicPartition, int], says: str
) -> None:
    with pytest.raises(SourceRejected, match=says):
        read(starts, ends)
    assert read(starts, ends, fail=False) == [OffsetRange(A, "id", 10, 100), OffsetRange(B, "id", 0, 7)]


LATER, SOONER = AtTime(200), AtTime(100)


@pytest.mark.parametrize(
    ("start", "end", "fail", "wrong"),
    [
        (Each("startingOffsets", {A: 60}), Each("endingOffsets", {A: 50}), False, True),
        (Each("startingOffsets", {A: 60}), SOONER, False, True),
        (LATER, SOONER, False, True),
        (LATER, Each("endingOffsets", {A: 50}), False, True),
        (LogEdge.EARLIEST, Each("endingOffsets", {A: 50}), True, True),
        (LogEdge.EARLIEST, Each("endingOffsets", {A: 50}), False, False),
        (SOONER, LATER, True, False),
        (SOONER, LogEdge.LATEST, True, False),
    ],
)
def test_a_start_behind_the_end_is_an_error_unless_time_has_made_it_so(
    start: Where, end: Where, fail: bool, wrong: bool
) -> None:
    def verify(first: int) -> None:
        verify_order(start, end, {A: first}, {A: 50}, fail_on_data_loss=fail)

    verify(50)
    with pytest.raises(SourceRejected, match="orders-0 begins at offset 60") if wrong else nullcontext():
        verify(60)
