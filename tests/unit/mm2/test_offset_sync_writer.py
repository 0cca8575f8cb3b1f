"""When offset syncs are written: stock's own cases by their names; its classes at random: test_stock_source.py."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.mm2.offset_sync_store import OffsetSyncStore
from bridge.mm2.offset_sync_writer import OffsetSyncWriter, PartitionState
from bridge.mm2.records import OffsetSync
from bridge.model.values import TopicPartition
from tests.support.forms import examples

TP = TopicPartition("topic", 0)


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
    writer = OffsetSyncWriter(2)
    assert writer.queue_range(TP, 0, 1, 1) == [OffsetSync(TP, 0, 1)]
    assert (writer.delayed, writer.states[TP].last_sync_downstream_offset) == ({}, 1)
    assert writer.queue_range(TP, 1, 2, 1) == []
    assert writer.delayed == {TP: OffsetSync(TP, 1, 2)}
    assert writer.states[TP].last_sync_downstream_offset == 1


def test_fire_pending_offset_syncs() -> None:
    """OffsetSyncWriterTest.testFirePendingOffsetSyncs, but that the second one waits for no permit (B7)."""
    writer = OffsetSyncWriter(1)
    for upstream, downstream in ((0, 100), (2, 102)):
        assert writer.queue_range(TP, upstream, downstream, 1) == [OffsetSync(TP, upstream, downstream)]
        assert writer.states[TP].last_sync_downstream_offset == downstream


def test_promote_delayed_offset_syncs() -> None:
    """OffsetSyncWriterTest.testPromoteDelayedOffsetSyncs"""
    writer = OffsetSyncWriter(50)
    writer.queue_range(TP, 0, 100, 2)
    assert writer.drain_delayed() == [OffsetSync(TP, 1, 101)]
    assert writer.drain_delayed() == []


def test_a_sync_that_waits_is_replaced_where_it_stands() -> None:
    writer = OffsetSyncWriter(100)
    both = [TopicPartition("topic", number) for number in (1, 2)]
    for offset in range(3):
        for topic_partition in both:
            writer.queue_range(topic_partition, offset, offset, 1)
    assert writer.drain_delayed() == [OffsetSync(each, 2, 2) for each in both]


@pytest.mark.parametrize("count", [1, 3])
def test_a_due_sync_takes_the_delayed_one_away(count: int) -> None:
    """Of a stretch too, whose last record then waits behind what other partitions have waiting."""
    writer, other = OffsetSyncWriter(100), TopicPartition("topic", 1)
    for topic_partition in (TP, other):
        writer.queue_range(topic_partition, 0, 0, 2)
    assert writer.queue_range(TP, 5, 5, count) == [OffsetSync(TP, 5, 5)]
    waiting = [] if count == 1 else [OffsetSync(TP, 7, 7)]
    assert writer.drain_delayed() == [OffsetSync(other, 1, 1), *waiting]


@pytest.mark.parametrize("lag", [0, 1, 10, 100])
def test_a_steady_flow_is_synced_every_lag_plus_one_records_and_to_its_end_at_a_commit(lag: int) -> None:
    writer, written = OffsetSyncWriter(lag), []
    for offset in range(0, 1000, 8):
        written += [sync.upstream_offset for sync in writer.queue_range(TP, offset, offset + 7, 8)]
    assert written == list(range(0, 1000, lag + 1))
    last = [sync.upstream_offset for sync in writer.drain_delayed()]
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
        for sync in writer.queue_range(TP, upstream, downstream, 1):
            store.apply(sync)
        answer = store.translate(TP, upstream + 1)
        assert answer is not None
        assert 0 <= downstream + 1 - answer <= lag


@settings(max_examples=examples(60, 300))
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
        assert whole.update_range(upstream, downstream, count) == expected
        assert vars(whole) == vars(single)
        upstream, downstream = upstream + count, downstream + count
