"""Commit records: what they say, and of which transactions they count."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.kafka.record.batch import CONTROL, TRANSACTIONAL, CorruptBatch, RawBatch, parse
from bridge.spark.rejected import SourceRejected
from bridge.spark.writing.commits import (
    CommitRecord,
    Decision,
    Prepared,
    SinkTask,
    WrittenTotals,
    committed,
    decided,
    find_commit,
    newest_of_tasks,
    over,
    unpacked,
    verify,
)
from tests.support.messages import message_pattern
from tests.unit.kafka.record.raw_batches import NOW, Plain, batch_of

TASK = SinkTask("query", 3, 7)
WRITTEN = WrittenTotals(10, 1000)
RECORDS = st.builds(
    CommitRecord,
    st.builds(SinkTask, st.text(), st.integers(0, 1 << 31), st.integers(0, 1 << 62)),
    st.builds(WrittenTotals, st.integers(0, 1 << 40), st.integers(0, 1 << 50)),
)


def record(partition: int, epoch: int, query: str = "query") -> tuple[bytes, bytes | None]:
    return CommitRecord(SinkTask(query, partition, epoch), WRITTEN).packed


@given(RECORDS)
def test_a_record_is_read_as_it_was_written(given: CommitRecord) -> None:
    assert unpacked(*given.packed) == given


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"x"),
        (b"no json", b"{}"),
        (b'{"version":2,"query":"q","partition":1}', b"{}"),
        (TASK.key, b"[]"),
        (TASK.key, b"[" * 100_000),
        (b"[" * 100_000, b"{}"),
        (TASK.key, b'{"epoch":7,"rows":1e999,"size":1}'),
    ],
)
def test_what_is_no_record_counts_for_nothing(key: bytes | None, value: bytes) -> None:
    assert unpacked(key, value) is None
    assert decided([(key, value)], "query") is None


def test_what_a_topic_says_to_a_task() -> None:
    task = SinkTask("job", 3)
    assert find_commit([record(3, 0, "another"), record(2, 0, "job")], task) is None
    assert find_commit([record(3, 0, "job"), over("another", 4)[3]], task) == CommitRecord(task, WRITTEN)
    assert find_commit([record(3, 0, "job"), over("job", 4)[3]], task) == CommitRecord(task, None)


def test_a_task_that_runs_again_is_held_against_what_was_written() -> None:
    verify(CommitRecord(TASK, WRITTEN), TASK, WRITTEN)
    said = message_pattern("spark.replay", rows=10, size=1000, now=9, now_size=1000)
    with pytest.raises(SourceRejected, match=said):
        verify(CommitRecord(TASK, WRITTEN), TASK, WrittenTotals(9, 1000))
    with pytest.raises(SourceRejected, match="the job of this task is over"):
        verify(CommitRecord(TASK, None), TASK, WRITTEN)


def test_the_newest_decision_of_a_query_counts() -> None:
    first = Decision("query", 7, (Prepared(0, 11, 0), Prepared(3, 1 << 40, 32767)))
    later, other = Decision("query", 8, ()), Decision("another", 9, ())
    records = [first.packed, record(0, 7), later.packed, other.packed, (b"{}", b"[]"), (None, None)]
    assert decided(records[:2], "query") == first
    assert decided(records, "query") == later
    assert decided(records, "nobody") is None


def batch(offset: int, producer: int, value: bytes) -> RawBatch:
    (made,) = parse(batch_of([Plain(NOW, b"key", value, ())], offset))
    made.producer_id, made.attributes = producer, made.attributes | TRANSACTIONAL
    return made


def marker(offset: int, producer: int, *, commit: bool) -> RawBatch:
    (made,) = parse(batch_of([Plain(NOW, struct.pack(">hh", 0, commit), b"", ())], offset))
    made.producer_id, made.attributes = producer, made.attributes | TRANSACTIONAL | CONTROL
    return made


def test_only_what_is_committed_counts() -> None:
    batches = [
        batch(0, 1, b"aborted"),
        batch(1, 2, b"open"),
        batch(2, 3, b"committed"),
        marker(3, 3, commit=True),
        marker(4, 1, commit=False),
        batch(5, 1, b"committed later"),
        marker(6, 1, commit=True),
        marker(7, 4, commit=True),
    ]
    assert [value for _, value in committed(batches)] == [b"committed", b"committed later"]
    (plain,) = parse(batch_of([Plain(NOW, b"key", None, ())], 8))
    assert committed([plain]) == [(b"key", None)]


def test_a_batch_that_nobody_can_decode_is_not_passed_over() -> None:
    broken = batch(0, 1, b"value")
    data = bytearray(broken.data)
    data[-1] ^= 1
    broken.data = memoryview(data)
    with pytest.raises(CorruptBatch):
        committed([broken])


def test_the_newest_epoch_that_tasks_have_committed_one_by_one() -> None:
    """As versions before the decision did: of streams, and never of a decision or a job that is over."""
    decision = Decision("query", 9, ()).packed
    records = [record(0, 3), record(1, 4), record(0, 5, "other"), decision, (b"x", b"y"), *over("job", 1)]
    assert newest_of_tasks(records, "query") == 4
    assert newest_of_tasks([decision, *over("query", 2)], "query") is None
