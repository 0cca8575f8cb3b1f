"""Stock's integration cases that concern checkpoints, group sync and heartbeats, by their names (stock §4.5).

Stock's MirrorSourceConnector mirrors; the checkpoint and heartbeat connectors are ours. Where stock's test allows a
range (a group fails over to somewhere in (0, 100], or re-reads less than offset.lag.max) ours has to be exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.e2e.control import aliased, checkpoints_topic, syncs_topic
from tests.e2e.flows import IDENTITY, PARTITIONS, RECORDS, Flow, TlsBackup, every, read_all
from tests.e2e.ground import WAIT, Ground, standing
from tests.support import (
    Record,
    admin,
    eventually,
    produce,
    resume,
)

RISING = {partition: partition + 1 for partition in range(PARTITIONS)}
"""Processed records by partition: from one to all."""
LAG = 10
"""offset.lag.max in stock's tests."""


def _topics(bootstrap: str) -> set[str]:
    return set(admin(bootstrap).list_topics(timeout=10).topics)


@pytest.fixture(scope="module")
def flow(request: pytest.FixtureRequest, ground: Ground) -> Iterator[Flow]:
    """A flow of one flavour, with group sync, for all its cases: named as stock's subclasses of the base test."""
    flavour: str = request.param
    settings: dict[str, object] = {"offset_lag_max": LAG}
    mine = aliased(ground)
    if flavour == "Identity":
        settings["replication_policy_class"] = IDENTITY
    if flavour == "SSL":
        backup: TlsBackup = request.getfixturevalue("tls_backup")
        mine = aliased(ground, target=backup.broker)
        settings |= backup.settings
    found = Flow(mine, settings, transactions=flavour == "Transactions")
    with found.mirrored():
        yield found


def flavours(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Base is MirrorConnectorsIntegrationBaseTest, the others its subclasses."""
    return pytest.mark.parametrize("flow", names, indirect=True)


# -- testReplication -------------------------------------------------------------------------------------------------


def _assert_first_unprocessed(flow: Flow, topic: str, group: str) -> None:
    """Failover as stock's test does it: a consumer seeks to what MirrorClient answers. It reads from the first record
    on that the group has not processed."""
    start = {place: at for place, at in flow.translated(group).items() if place[0] == flow.remote(topic)}
    found = read_all(flow.target, flow.remote(topic), start)
    for partition, records in found.items():
        first = [record.value for record in records][:1]
        assert first == [b"%d-%d" % (partition, RISING[partition])][: RECORDS - RISING[partition]]


@pytest.mark.parametrize(
    ("flow", "both_ways"),
    [("Base", True), ("Identity", False), ("Transactions", False), ("SSL", False)],
    indirect=["flow"],
)
def test_replication(flow: Flow, both_ways: bool) -> None:
    """MirrorConnectorsIntegrationBaseTest.testReplication: checkpoints, heartbeats, upstreamClusters and hops, failover
    position, monotonic checkpoints, new topics. Both ways in Base, as stock."""
    ways = [flow]
    with ExitStack() as running:
        for way in (flow, flow.returning()):
            running.enter_context(way.running("Heartbeat", emit_heartbeats_interval_seconds=1))
        if both_ways:
            ways.append(flow.returning())
            running.enter_context(ways[1].mirror())
            running.enter_context(ways[1].running("Checkpoint"))
        groups = [way.name("consumer-group-testReplication") for way in ways]
        topics = [way.topic("test-topic-1") for way in ways]
        for way, topic, group in zip(ways, topics, groups, strict=True):
            way.produce(topic)
            way.wait_mirrored(topic)
            way.commit(group, topic, RISING)
        for way, topic, group in zip(ways, topics, groups, strict=True):
            way.wait_translated(group, way.exact(topic, RISING))
            _assert_first_unprocessed(way, topic, group)
            way.assert_heartbeats()
        # "create more matching topics": a record in the first partition only.
        for way, group in zip(ways, groups, strict=True):
            more = way.topic("test-topic-2", shifted=False)
            way.produce(more, partitions=1)
            _wait_copied(way, more)
            way.wait_mirrored(more)
            way.commit(group, more, {0: 3})
            way.wait_translated(group, {(way.remote(more), 0): 3})
            way.assert_monotonic(group)


def _wait_copied(flow: Flow, topic: str) -> None:
    """Until the mirror has made the topic's copy."""
    copy = flow.remote(topic)
    eventually(lambda: copy in _topics(flow.target.bootstrap), WAIT, what=copy, watched=flow.ground.watched)


# -- group sync ------------------------------------------------------------------------------------------------------


@flavours("Base")
def test_replication_with_empty_partition(flow: Flow) -> None:
    """MirrorConnectorsIntegrationBaseTest.testReplicationWithEmptyPartition: the offset of the partition without
    records is there on backup, and is 0."""
    group = flow.name("consumer-group-testReplicationWithEmptyPartition")
    topic = flow.topic("test-topic-with-empty-partition", shifted=False)
    flow.produce(topic, partitions=PARTITIONS - 1)
    flow.wait_mirrored(topic)
    processed = {**every(RECORDS), PARTITIONS - 1: 0}
    flow.commit(group, topic, processed)
    expected = flow.exact(topic, processed)
    assert expected[flow.remote(topic), PARTITIONS - 1] == 0
    flow.wait_synced(group, expected)
    flow.wait_translated(group, expected)


def _one_way_replication(flow: Flow, group: str, topics: tuple[str, str]) -> None:
    """A group that lags differently in each partition, then one that has read everything; then a second topic."""
    first, second = topics
    flow.produce(first)
    flow.wait_mirrored(first)
    flow.commit(group, first, RISING)
    flow.wait_synced(group, flow.exact(first, RISING))
    flow.commit(group, first, every(RECORDS))
    flow.wait_synced(group, flow.exact(first, every(RECORDS)))
    flow.produce(second)
    flow.wait_mirrored(second)
    flow.commit(group, second, every(RECORDS))
    flow.wait_synced(group, flow.exact(first, every(RECORDS)) | flow.exact(second, every(RECORDS)))
    # A consumer of the group on backup has nothing to read, until something new comes.
    copies = [flow.remote(topic) for topic in topics]
    new = [Record(b"new", key=b"key", partition=partition) for partition in range(PARTITIONS)]
    produce(flow.source.bootstrap, second, new)
    read = resume(flow.target.bootstrap, group, copies, count=PARTITIONS)
    assert [(record.value, record.partition) for record in sorted(read, key=lambda r: r.partition)] == [
        (b"new", partition) for partition in range(PARTITIONS)
    ]
    flow.assert_monotonic(group)


@flavours("Base", "Identity", "Transactions")
def test_one_way_replication_with_auto_offset_sync(flow: Flow) -> None:
    """MirrorConnectorsIntegrationBaseTest.testOneWayReplicationWithAutoOffsetSync: stock's group stands somewhere in
    (last - offset.lag.max, end]; ours re-reads nothing."""
    topics = flow.topic("test-auto-sync-1"), flow.topic("test-auto-sync-2")
    _one_way_replication(flow, flow.name("consumer-group-auto-sync"), topics)


@pytest.mark.parametrize("evidence", ["both", "syncs"])
def test_one_way_replication_with_frequent_offset_syncs(ground: Ground, evidence: str) -> None:
    """MirrorConnectorsIntegrationBaseTest.testOneWayReplicationWithFrequentOffsetSyncs: offset.lag.max is 0. Then
    stock's own answer is exact too for a group that has read everything."""
    flow = Flow(aliased(ground), {"offset_lag_max": 0, "translation_evidence": evidence})
    group, topic = flow.name("consumer-group-frequent-sync"), flow.topic("test-frequent-sync")
    with flow.mirrored():
        flow.produce(topic)
        flow.wait_mirrored(topic)
        flow.commit(group, topic, every(RECORDS))
        flow.wait_synced(group, flow.exact(topic, every(RECORDS)))
        flow.assert_monotonic(group)


@pytest.mark.parametrize("evidence", ["both", "syncs"])
def test_offset_syncs_topics_on_target(ground: Ground, evidence: str) -> None:
    """MirrorConnectorsIntegrationBaseTest.testOffsetSyncsTopicsOnTarget: the topic is on backup only, and checkpoints
    flow. With `syncs` they rest on nothing else."""
    settings = {
        "offset-syncs_topic_location": "target",
        "offset_lag_max": 0,
        "translation_evidence": evidence,
    }
    flow = Flow(aliased(ground), settings)
    group, topic = flow.name("consumer-group-syncs-on-target"), flow.topic("test-syncs-on-target")
    with flow.mirrored():
        flow.produce(topic)
        flow.wait_mirrored(topic)
        flow.commit(group, topic, every(RECORDS))
        flow.wait_translated(group, flow.exact(topic, every(RECORDS)))
        on_target = f"mm2-offset-syncs.{flow.source.name}.internal"
        assert on_target in _topics(flow.target.bootstrap)
        assert not _topics(flow.source.bootstrap) & {on_target, syncs_topic(flow.ground)}
        assert checkpoints_topic(flow.ground) in _topics(flow.target.bootstrap)


@flavours("Base")
def test_restart_replication(flow: Flow) -> None:
    """MirrorConnectorsIntegrationBaseTest.testRestartReplication: after a restart of the connectors the group is synced
    again, and checkpoints stay monotonic."""
    group, topic = flow.name("consumer-group-restart"), flow.topic("test-restart")
    rest = flow.ground.worker.rest
    flow.produce(topic)
    flow.wait_mirrored(topic)
    flow.commit(group, topic, RISING)
    flow.wait_synced(group, flow.exact(topic, RISING))
    for name in rest.connectors():
        if rest.config(name)["source.cluster.alias"] == flow.source.name:
            rest.restart(name, tasks=True)
            rest.wait_running(name, tasks=None)
    flow.produce(topic, start=RECORDS)
    flow.wait_mirrored(topic)
    flow.commit(group, topic, every(2 * RECORDS))
    flow.wait_synced(group, flow.exact(topic, every(2 * RECORDS)))
    flow.wait_translated(group, flow.exact(topic, every(2 * RECORDS)))
    flow.assert_monotonic(group)
    assert len(flow.emitted(group)) == 2 * PARTITIONS, "a restart repeats nothing"


# -- checkpoints -----------------------------------------------------------------------------------------------------


def test_no_checkpoints_if_no_records_are_mirrored(ground: Ground) -> None:
    """MirrorConnectorsIntegrationBaseTest.testNoCheckpointsIfNoRecordsAreMirrored. With `syncs`, as stock, an empty
    partition has none; by records its offset 0 is exact. One whose records are not mirrored has none either way."""
    flow = Flow(aliased(ground))
    groups = {evidence: flow.name(f"group-no-checkpoints-{evidence}") for evidence in ("both", "syncs")}
    first, empty = flow.topic("test-topic-1"), flow.topic("test-topic-no-checkpoints", shifted=False)
    late = flow.topic("late")
    flow.produce(first)
    flow.produce(late)
    with ExitStack() as running:
        running.enter_context(flow.mirror(topics=f"{flow.mark}-test.*"))
        names = [
            running.enter_context(flow.running("Checkpoint", groups=group, translation_evidence=evidence))
            for evidence, group in groups.items()
        ]
        flow.wait_mirrored(first)
        _wait_copied(flow, empty)
        for group in groups.values():
            flow.commit(group, first, every(RECORDS))
            flow.commit(group, empty, every(0))
            flow.commit(group, late, every(RECORDS // 2))
        for group in groups.values():
            flow.wait_translated(group, flow.exact(first, every(RECORDS)))
        for name in names:
            flow.ground.wait_rounds(name)
        at_start = flow.exact(empty, every(0))
        assert flow.translated(groups["both"]) == flow.exact(first, every(RECORDS)) | at_start
        assert flow.translated(groups["syncs"]) == flow.exact(first, every(RECORDS))

        flow.produce(empty)
        flow.wait_mirrored(empty)
        for group in groups.values():
            flow.commit(group, empty, every(RECORDS))
        for group in groups.values():
            flow.wait_translated(group, flow.exact(empty, every(RECORDS)))
            assert not {place for place in flow.translated(group) if place[0] == flow.remote(late)}
            assert standing(flow.target.bootstrap, group) == {}, "no group sync was asked for"


@flavours("Base", "Transactions")
def test_offset_translation_behind_replication_flow(flow: Flow) -> None:
    """MirrorConnectorsIntegrationBaseTest.testOffsetTranslationBehindReplicationFlow: commits at 90 % and then at
    10 % of 1,000 records of each partition; checkpoints advance, then go back."""
    group, topic = flow.name("consumer-group-lagging"), flow.topic("test-topic-lagging")
    flow.produce(topic, 1000)
    flow.commit(group, topic, every(1))
    flow.wait_mirrored(topic)
    flow.wait_translated(group, flow.exact(topic, every(1)))
    flow.commit(group, topic, every(900))
    flow.wait_translated(group, flow.exact(topic, every(900)))
    flow.commit(group, topic, every(100))
    flow.wait_translated(group, flow.exact(topic, every(100)))
    flow.assert_monotonic(group)
    # Group offsets are never lowered.
    flow.wait_synced(group, flow.exact(topic, every(900)))
