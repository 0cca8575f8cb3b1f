"""What stock is known to do wrong, by the numbers of the list in docs/known-defects.md: its own classes (Kafka 4.3.1)
show it, and ours does not, over clusters in memory of the same contents. What takes a worker is in tests/e2e.

If stock mends one of them its half of the test fails: then the list is to be changed.
"""

from __future__ import annotations

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.mm2.offset_sync_store import OffsetSyncStore
from bridge.mm2.records import Checkpoint, OffsetSync
from bridge.mm2.replication_policy import DefaultReplicationPolicy, counterpart
from bridge.model.values import Committed, GroupState, TopicPartition
from bridge.service.ipc.messages import pack_report
from bridge.service.state.snapshots import Snapshots
from tests.integration.stock import Stock, Syncs
from tests.unit.connectors.checkpoint.checkpoint_harness import (
    SYNCS,
    TOPIC,
    CheckpointHarness,
    put,
    put_checkpoint,
    put_sync,
)
from tests.unit.connectors.fake_clusters import JUNK, FakeCluster, Log, mirrored

ORDERS, COPY = TopicPartition("orders", 0), TopicPartition("A.orders", 0)


def at(offset: int, syncs: Syncs = ()) -> tuple[FakeCluster, FakeCluster]:
    """`orders` of 20 records and its copy, JUNK further on; a group at an offset; the syncs that the mirror wrote."""
    source, target = mirrored()
    source.topic(SYNCS, Log())
    source.group("g", {("orders", 0): offset})
    for sync in syncs:
        put_sync(source, *sync)
    return source, target


# -- group offsets ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("listed", "asked", "refused"),
    [
        pytest.param(GroupState.STABLE, GroupState.STABLE, False, id="active"),
        pytest.param(GroupState.EMPTY, GroupState.STABLE, False, id="becomes active in the round"),
        pytest.param(GroupState.EMPTY, GroupState.UNKNOWN, False, id="its state can not be asked"),
        pytest.param(GroupState.UNKNOWN, GroupState.EMPTY, False, id="its coordinator loads"),
        pytest.param(GroupState.EMPTY, GroupState.EMPTY, True, id="its offsets can not be read"),
    ],
)
def test_b1_a_group_of_unknown_state_is_left_alone(
    stock: Stock, listed: GroupState, asked: GroupState, refused: bool
) -> None:
    """Stock (KAFKA-19794) overwrites every offset of a group that is not in its snapshot of idle groups. That it is not
    there when its description failed, or when it was active a moment ago, is from reading."""
    assert stock.group_sync({COPY: 12}, idle=18) == []
    assert stock.group_sync({COPY: 12}, idle=None) == [("A.orders", "0", "12", "md", "-1")]
    for offset, standing in ((5, 18), (15, 1)):
        source, target = at(offset)
        target.group("g", {("A.orders", 0): standing}, listed)
        target.states["g"] = asked
        if refused:
            target.group_trouble["g"] = KafkaFailure(KafkaFault.UNREACHABLE, "coordinator load in progress")
        published = CheckpointHarness(source, target, sync_group_offsets_enabled="true").play_rounds()
        assert target.altered == []
        assert published.reports["g"].reason is not None


def test_b2_nothing_is_committed_for_what_is_gone(stock: Stock) -> None:
    """Stock (KAFKA-19107) commits for every partition that it ever had a checkpoint of, gone or not. With a group that
    is gone, on a real worker: tests/e2e."""
    gone = TopicPartition("A.gone", 0)
    assert [each[0] for each in stock.group_sync({COPY: 12, gone: 40}, idle=5)] == ["A.gone", "A.orders"]
    source, target = at(5)
    source.group("g", {("orders", 0): 5, ("gone", 0): 33})
    lost = Checkpoint("g", gone, 33, 40, "")
    put(target, TOPIC, lost.key(), lost.value())
    published = CheckpointHarness(source, target, sync_group_offsets_enabled="true").play_rounds()
    assert target.altered == [("g", {COPY: Committed(5 + JUNK, "", 5)})]
    reasons = {row.topic: row.reason for row in published.reports["g"].partitions}
    assert reasons == {"orders": None, "gone": "source_topic_missing"}


def test_b3_a_group_that_goes_far_back_gets_its_checkpoint(stock: Stock) -> None:
    """Stock emits nothing for an offset below its oldest sync, and the checkpoint of before stays: a failover skips."""
    syncs = [(10, 10 + JUNK)]
    assert stock.checkpoints(syncs, [15, 3]) == [(15, 11 + JUNK), None]
    source, target = at(15, syncs)
    harness = CheckpointHarness(source, target)

    async def script(_: object) -> None:
        await harness.rounds()
        source.group("g", {("orders", 0): 3})
        await harness.rounds()

    assert harness.play(script).offsets == [(15, 15 + JUNK), (3, 3 + JUNK)]


# -- offset syncs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("evidence", ["both", "timestamps", "syncs"])
def test_b5_no_answer_is_past_the_end_of_a_target_that_was_made_anew(stock: Stock, evidence: str) -> None:
    """Stock keeps syncs of before, and answers what the target does not hold: out of range, or, later, a skip."""
    syncs = [(10, 10 + JUNK), (15, 15 + JUNK), (16, 3)]
    assert stock.checkpoints(syncs, [15]) == [(15, 15 + JUNK)]
    source, target = at(15, syncs)
    anew = Log(epoch=6)
    anew.append(3, first=-3, junk=True)
    anew.append(4, first=16)
    target.topic("A.orders", anew, topic_id="made anew")
    put_checkpoint(target, "g", 14, 14 + JUNK)
    harness = CheckpointHarness(
        source, target, translation_evidence=evidence, sync_group_offsets_enabled="true"
    )
    published = harness.play_rounds()
    assert all(downstream <= 3 for _, downstream in published.offsets)
    assert all(commit.offset <= 3 for _, commits in target.altered for commit in commits.values())
    (row,) = published.reports["g"].partitions
    if evidence == "syncs":
        assert (row.target_offset, row.reason) == (None, "evidence_disagrees")
    else:  # record 15 is on the source alone
        assert (row.reason, row.detail["not_on_target"]) == ("records_not_on_target", 1)


def test_b5_the_store_drops_syncs_that_point_into_what_is_gone(stock: Stock) -> None:
    syncs = [(10, 17), (15, 22), (16, 3)]
    stocks = stock.checkpoints(syncs, [17, 15, 12, 10])
    # 16 stands at 3, so 12 and 10 can't stand above that.
    assert stocks == [(17, 4), (15, 22), (12, 18), (10, 17)]
    store = OffsetSyncStore(must_read_to_end=False, mended=True)
    for sync in syncs:
        store.apply(OffsetSync(ORDERS, *sync))
    store.finish_start()
    assert [store.translate(ORDERS, offset) for offset in (17, 16, 15, 12, 10)] == [4, 3, -1, -1, -1]


@pytest.mark.parametrize(
    ("syncs", "only_last", "readable"),
    [
        pytest.param([(19, 19 + JUNK)], False, True, id="the syncs topic was compacted"),
        pytest.param([(0, JUNK), (10, 10 + JUNK), (19, 19 + JUNK)], True, False, id="checkpoints unreadable"),
    ],
)
def test_b6_a_restart_costs_no_precision(stock: Stock, syncs: Syncs, only_last: bool, readable: bool) -> None:
    """Stock then has the last sync of each partition, and no answer for who lags (KAFKA-13659, KAFKA-15905)."""
    assert stock.checkpoints(syncs, [5], only_last=only_last) == [None]
    source, target = at(5, syncs)
    if not readable:
        target.topic_trouble[TOPIC] = KafkaFailure(KafkaFault.NOT_AUTHORIZED, "Topic authorization failed")
    assert CheckpointHarness(source, target).play_rounds().offsets == [(5, 5 + JUNK)]


def test_b7_syncs_that_were_never_sent_cost_no_precision(stock: Stock) -> None:
    """Stock sends ten syncs at a time; of what waits in a burst only the newest of a partition is sent
    (KAFKA-12558)."""
    (left,) = stock.shows("bursts").strip("[]").split("}, ")
    assert left == "OffsetSync{topicPartition=A.t-0, upstreamOffset=4, downstreamOffset=11}"
    assert stock.checkpoints([(0, 7), (4, 11)], [3]) == [(3, 8)]
    for sent in ([(0, JUNK), (4, 4 + JUNK)], [(0, JUNK)], [(4, 4 + JUNK)], []):
        assert CheckpointHarness(*at(3, sent)).play_rounds().offsets == [(3, 3 + JUNK)]


def test_b8_a_poison_record_costs_itself_only(stock: Stock) -> None:
    """Stock's reader has no handler: a null value ends it, a short one the batch. On a real worker: tests/e2e."""
    assert stock.shows("poison") == "NullPointerException SchemaException"
    source, target = at(12, [(10, 10 + JUNK)])
    key = OffsetSync(ORDERS, 0, 0).key()
    for bad in (None, b"\x00\x01\x02"):
        put(source, SYNCS, key, bad)
    put_sync(source, 12, 12 + JUNK)
    published = CheckpointHarness(source, target, translation_evidence="syncs").play_rounds()
    assert published.offsets == [(12, 12 + JUNK)]
    assert published.reports["g"].partitions[0].evidence == "sync"
    assert published.summaries[-1].unreadable_records[SYNCS] == 2


# -- groups ----------------------------------------------------------------------------------------------------------


def test_b10_one_refused_group_does_not_hide_the_others(stock: Stock) -> None:
    """Stock asks for the offsets of all groups at once, and finds none when one is refused (KAFKA-17232)."""
    assert stock.shows("discovery") == "GroupAuthorizationException"
    source, target = at(5)
    source.group("refused", {("orders", 0): 5})
    source.group_trouble["refused"] = KafkaFailure(KafkaFault.NOT_AUTHORIZED, "Group authorization failed")
    published = CheckpointHarness(source, target).play_rounds()
    assert [each.group for each in published.checkpoints] == ["g"]
    assert published.reports["refused"].reason == "source_not_authorized"
    assert published.summaries[-1].errors == ["Group authorization failed"]


def test_b11_a_round_asks_once_for_the_offsets_of_all_groups(stock: Stock) -> None:
    """Stock asks group by group, and waits for each."""
    assert stock.shows("requests", 7) == "7 7"
    source, target = at(5)
    for number in range(7):
        source.group(f"g{number}", {("orders", 0): number})
    published = CheckpointHarness(source, target).play_rounds()
    assert len(published.emitted) == 8
    assert source.calls["committed"] <= published.summaries[-1].rounds + 1


def test_b13_a_group_that_moved_on_the_target_comes_back(stock: Stock) -> None:
    """Stock (KAFKA-17828) has a branch for it that gets no answer: topics of the target are not mirrored back, so they
    have no syncs. And it takes all hops off a name where one is due. The laws of going back are in
    tests/unit/translation/test_failback.py, both directions at work in tests/e2e/test_failback.py."""
    assert (stock.shows("cycle", "orders"), stock.shows("cycle", "B.orders")) == ("true", "false")
    assert stock.checkpoints([], [12], topic="B.orders") == [None]
    assert stock.group_sync({}, idle=None) == []
    assert counterpart(DefaultReplicationPolicy(), "B.C.w", "A", "B", reverse=True) == "C.w"
    source, target = FakeCluster(), FakeCluster()
    here, there = Log(), Log(epoch=5)
    here.append(JUNK, junk=True)
    here.append(20)
    there.append(20)
    source.topic("B.orders", here)
    target.topic("orders", there)
    source.group("g", {("B.orders", 0): 12 + JUNK})
    harness = CheckpointHarness(
        source, target, reverse_checkpointing_enabled="true", sync_group_offsets_enabled="true"
    )
    assert harness.play_rounds().offsets == [(12 + JUNK, 12)]
    assert target.offsets["g"] == {ORDERS: Committed(12, "", 5)}


# -- metrics ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("defect", "shown"),
    [
        pytest.param("latency", "5.0 502.5", id="b40"),
        pytest.param("latency-new", "Sensor checkpoint-latency already exists", id="b41"),
    ],
)
def test_latencies_of_checkpoints_are_kept_by_group(stock: Stock, defect: str, shown: str) -> None:
    """B40: stock's groups share one sensor, and g1 shows what g2 took. B41: with metric.names.formats=new the second
    group's first checkpoint throws. Ours, through a real worker: tests/e2e/test_acknowledged.py and
    test_known_defects.py."""
    assert stock.shows(defect) == shown
    source, target = at(5)
    source.group("g2", {("orders", 0): 6})
    published = CheckpointHarness(source, target, metric_names_formats="new").play_rounds()
    snapshots = Snapshots()
    snapshots.groups("c", 1, [pack_report(name, report) for name, report in published.reports.items()])
    snapshots.written("c", "g", 1000)
    snapshots.written("c", "g2", 5)
    reports = [snapshots.full("c", group) for group in ("g", "g2")]
    latencies = [each.checkpoint_latency_ms for each in reports if each is not None]
    assert [(each.last, each.mean) for each in latencies if each is not None] == [(1000, 1000.0), (5, 5.0)]
