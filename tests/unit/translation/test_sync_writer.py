"""When offset syncs are written: stock's own cases by their names; its classes at random: test_stock_source.py."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.translation.mm2_records import OffsetSync
from bridge.translation.model import TopicPartition
from bridge.translation.sync_store import OffsetSyncStore
from bridge.translation.sync_writer import MAX_OUTSTANDING, OffsetSyncWriter, PartitionState

TP = TopicPartition("topic", 0)


def others(count: int) -> list[TopicPartition]:
    return [TopicPartition("topic", number) for number in range(1, count + 1)]


RESET = None
"""A step that resets the state; the others are an upstream offset, a downstream one, and whether a sync is due."""
LAG_50 = [(0, 100, True), (2, 102, True), (3, 152, False), (4, 153, True), (5, 154, False), (6, 203, False)]
LAG_50 += [(7, 204, True), (2, 206, True), (3, 207, False), (4, 3, True)]
Steps = list[tuple[int, int, bool] | None]


def each_reset(updates: list[tuple[int, int, bool]]) -> Steps:
    return [step for update in updates for step in (update, RESET)]


@pytest.mark.parametrize(
    ("lag", "steps"),
    [
        pytest.param(
            50,
            [
                *each_reset(LAG_50),
                *((5, 4, False), (7, 6, True), (7, 6, True), (8, 7, True), (10, 57, True)),
                *(RESET, (11, 58, False)),
            ],
            id="MirrorSourceTaskTest.testOffsetSync",
        ),
        pytest.param(
            0,
            each_reset([(0, 100, True), (2, 102, True), (3, 153, True), (4, 154, True), (5, 155, True)])
            + each_reset([(6, 207, True), (2, 208, True), (3, 209, True), (4, 3, True), (5, 4, True)])
            + [(7, 6, True), (7, 6, True), (8, 7, True), (10, 57, True), RESET, (11, 58, True)],
            id="MirrorSourceTaskTest.testZeroOffsetSync",
        ),
        pytest.param(
            100,
            each_reset([(2**63 - 2, 2**63 - 2, True), (2**63 - 1, 2**63 - 1, False), (0, 0, True)]),
            id="the largest offsets",
        ),
        pytest.param(-1, each_reset([(0, 0, True), (1, 0, True), (2, 0, True)]), id="a lag below 0"),
    ],
)
def test_partition_state(lag: int, steps: Steps) -> None:
    state = PartitionState(lag)
    for step in steps:
        if step is None:
            state.reset()
            assert not state.should_sync_offsets
        else:
            *offsets, due = step
            assert (state.update(*offsets), state.should_sync_offsets) == (due, due), step


def test_maybe_queue_offset_syncs() -> None:
    """OffsetSyncWriterTest.testMaybeQueueOffsetSyncs"""
    writer = OffsetSyncWriter(2, permits=1)
    writer.maybe_queue(TP, 0, 1)
    assert (list(writer.delayed), list(writer.pending)) == ([], [TP])
    assert writer.states[TP].last_sync_downstream_offset == 1
    writer.maybe_queue(TP, 1, 2)
    assert writer.delayed == {TP: OffsetSync(TP, 1, 2)}
    assert writer.states[TP].last_sync_downstream_offset == 1


def test_fire_pending_offset_syncs() -> None:
    """OffsetSyncWriterTest.testFirePendingOffsetSyncs"""
    writer = OffsetSyncWriter(1, permits=1)
    writer.maybe_queue(TP, 0, 100)
    assert writer.states[TP].last_sync_downstream_offset == 100
    assert writer.fire_pending() == [OffsetSync(TP, 0, 100)]
    writer.maybe_queue(TP, 2, 102)
    assert writer.states[TP].last_sync_downstream_offset == 102
    assert writer.fire_pending() == []
    writer.release()
    assert writer.fire_pending() == [OffsetSync(TP, 2, 102)]


def test_promote_delayed_offset_syncs() -> None:
    """OffsetSyncWriterTest.testPromoteDelayedOffsetSyncs"""
    writer = OffsetSyncWriter(50, permits=1)
    writer.maybe_queue(TP, 0, 100)
    writer.maybe_queue(TP, 1, 101)
    writer.promote_delayed()
    assert (writer.delayed, writer.pending) == ({}, {TP: OffsetSync(TP, 1, 101)})


def test_ten_are_on_their_way_at_most_and_the_first_go_first() -> None:
    writer = OffsetSyncWriter(100)
    for topic_partition in others(MAX_OUTSTANDING + 3):
        writer.maybe_queue(topic_partition, 0, 0)
    assert [sync.topic_partition.partition for sync in writer.fire_pending()] == list(range(1, 11))
    assert writer.fire_pending() == []
    writer.release()
    writer.release()
    assert [sync.topic_partition.partition for sync in writer.fire_pending()] == [11, 12]


def test_a_sync_that_waits_is_replaced_where_it_stands() -> None:
    writer = OffsetSyncWriter(0, permits=0)
    first, second = others(2)
    for offset in range(3):
        for topic_partition in (first, second):
            writer.maybe_queue(topic_partition, offset, offset)
    assert list(writer.pending.items()) == [(each, OffsetSync(each, 2, 2)) for each in (first, second)]


def test_a_due_sync_takes_the_delayed_one_away() -> None:
    """Otherwise the next commit would write the older one after it, which reads as a rewind."""
    writer = OffsetSyncWriter(100)
    for upstream in (0, 1, 5):
        writer.maybe_queue(TP, upstream, upstream)
    writer.promote_delayed()
    assert writer.fire_pending() == [OffsetSync(TP, 5, 5)]


@pytest.mark.parametrize("lag", [0, 1, 10, 100])
def test_a_steady_flow_is_synced_every_lag_plus_one_records_and_to_its_end_at_a_commit(lag: int) -> None:
    writer, written = OffsetSyncWriter(lag), []
    for offset in range(1000):
        writer.maybe_queue(TP, offset, offset + 7)
        for sync in writer.fire_pending():
            written.append(sync.upstream_offset)
            writer.release()
    assert written == list(range(0, 1000, lag + 1))
    writer.promote_delayed()
    last = [sync.upstream_offset for sync in writer.fire_pending()]
    assert [*written, *last][-1] == 999


@given(
    st.integers(0, 60), st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=200)
)
def test_the_end_is_answered_within_the_lag(lag: int, steps: list[tuple[int, int]]) -> None:
    """What the rule is for: after each record the newest answer is at most `offset.lag.max` records low."""
    writer, store = OffsetSyncWriter(lag), OffsetSyncStore(must_read_to_end=False)
    store.finish_start()
    upstream = downstream = -1
    for up, down in steps:
        upstream, downstream = upstream + up, downstream + down
        writer.maybe_queue(TP, upstream, downstream)
        for sync in writer.fire_pending():
            store.apply(sync)
            writer.release()
        answer = store.translate(TP, upstream + 1)
        assert answer is not None
        assert 0 <= downstream + 1 - answer <= lag


@settings(max_examples=300)
@given(
    st.integers(0, 7),
    st.lists(st.tuples(st.integers(0, 3), st.integers(-30, 30), st.integers(1, 40)), min_size=1, max_size=12),
)
def test_a_stretch_is_due_where_its_records_one_by_one_would_be(
    lag: int, stretches: list[tuple[int, int, int]]
) -> None:
    """A stretch: how far behind (or before) the end of the last one it begins upstream, and downstream; its records."""
    whole, single = PartitionState(lag), PartitionState(lag)
    upstream = downstream = 100
    for skipped, moved, count in stretches:
        upstream, downstream = upstream + skipped, max(0, downstream + moved)
        expected = []
        for number in range(count):
            if single.update(upstream + number, downstream + number):
                single.reset()
                expected.append(number)
        assert whole.update_stretch(upstream, downstream, count) == expected
        assert vars(whole) == vars(single)
        upstream, downstream = upstream + count, downstream + count
