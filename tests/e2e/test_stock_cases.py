"""Stock's integration cases that concern checkpoints, group sync and heartbeats, by their names (stock §4.5).

Stock's MirrorSourceConnector mirrors; the checkpoint and heartbeat connectors are ours. Where stock's test allows a
range (a group fails over to somewhere in (0, 100], or re-reads less than offset.lag.max) ours has to be exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.e2e.control import aliased, checkpoints_topic, syncs_topic
from tests.e2e.flow import Flow, committed_offsets
from tests.e2e.mirrored_flow import IDENTITY, PARTITIONS, RECORDS, MirroredFlow, TlsBackup, every, read_all
from tests.support import (
    Record,
    admin,
    eventually,
    exists,
    produce,
    resume,
)
from tests.support.forms import mostly_long
from tests.support.waits import WAIT

RISING = {partition: partition + 1 for partition in range(PARTITIONS)}
"""Processed records by partition: from one to all."""
LAG = 10
"""offset.lag.max in stock's tests."""


def _topics(bootstrap: str) -> set[str]:
    return set(admin(bootstrap).list_topics(timeout=60).topics)


@pytest.fixture(scope="module")
def mirrored_flow(request: pytest.FixtureRequest, flow: Flow) -> Iterator[MirroredFlow]:
    """A flow of one flavour, with group sync, for all its cases: named as stock's subclasses of the base test."""
    flavour: str = request.param
    settings: dict[str, object] = {"offset_lag_max": LAG}
    unique_flow = aliased(flow)
    if flavour == "Identity":
        settings["replication_policy_class"] = IDENTITY
    if flavour == "SSL":
        backup: TlsBackup = request.getfixturevalue("tls_backup")
        unique_flow = aliased(flow, target=backup.broker)
        settings |= backup.settings
    mirror = MirroredFlow(unique_flow, settings, transactions=flavour == "Transactions")
    with mirror.mirrored():
        yield mirror


def flavours(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Base is MirrorConnectorsIntegrationBaseTest, the others its subclasses."""
    return pytest.mark.parametrize("mirrored_flow", mostly_long(names), indirect=True)


# -- testReplication -------------------------------------------------------------------------------------------------


def _assert_first_unprocessed(mirrored_flow: MirroredFlow, topic: str, group: str) -> None:
    """Failover as stock's test does it: a consumer seeks to what MirrorClient answers. It reads from the first record
    on that the group has not processed."""
    start = {
        place: at
        for place, at in mirrored_flow.translated(group).items()
        if place[0] == mirrored_flow.remote(topic)
    }
    copies = read_all(mirrored_flow.target, mirrored_flow.remote(topic), start)
    for partition, records in copies.items():
        first = [record.value for record in records][:1]
        assert first == [b"%d-%d" % (partition, RISING[partition])][: RECORDS - RISING[partition]]


SSL = pytest.param("SSL", False, marks=pytest.mark.soak)


@pytest.mark.parametrize(
    ("mirrored_flow", "both_ways"),
    mostly_long([("Base", True), ("Identity", False), ("Transactions", False), SSL]),
    indirect=["mirrored_flow"],
)
def test_replication(mirrored_flow: MirroredFlow, both_ways: bool) -> None:
    """MirrorConnectorsIntegrationBaseTest.testReplication: checkpoints, heartbeats, upstreamClusters and hops, failover
    position, monotonic checkpoints, new topics. Both ways in Base, as stock."""
    ways = [mirrored_flow]
    with ExitStack() as running:
        for way in (mirrored_flow, mirrored_flow.returning()):
            running.enter_context(way.running("Heartbeat", emit_heartbeats_interval_seconds=1))
        if both_ways:
            ways.append(mirrored_flow.returning())
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


def _wait_copied(mirrored_flow: MirroredFlow, topic: str) -> None:
    """Until the mirror has made the topic's copy."""
    copy = mirrored_flow.remote(topic)
    eventually(
        lambda: exists(mirrored_flow.target.bootstrap, copy),
        WAIT,
        what=copy,
        watched=mirrored_flow.flow.watched,
    )


# -- group sync ------------------------------------------------------------------------------------------------------


@pytest.mark.long
@flavours("Base")
def test_replication_with_empty_partition(mirrored_flow: MirroredFlow) -> None:
    """MirrorConnectorsIntegrationBaseTest.testReplicationWithEmptyPartition: the offset of the partition without
    records is there on backup, and is 0."""
    group = mirrored_flow.name("consumer-group-testReplicationWithEmptyPartition")
    topic = mirrored_flow.topic("test-topic-with-empty-partition", shifted=False)
    mirrored_flow.produce(topic, partitions=PARTITIONS - 1)
    mirrored_flow.wait_mirrored(topic)
    processed = {**every(RECORDS), PARTITIONS - 1: 0}
    mirrored_flow.commit(group, topic, processed)
    expected = mirrored_flow.exact(topic, processed)
    assert expected[mirrored_flow.remote(topic), PARTITIONS - 1] == 0
    mirrored_flow.wait_synced(group, expected)
    mirrored_flow.wait_translated(group, expected)


def _one_way_replication(mirrored_flow: MirroredFlow, group: str, topics: tuple[str, str]) -> None:
    """A group that lags differently in each partition, then one that has read everything; then a second topic."""
    first, second = topics
    mirrored_flow.produce(first)
    mirrored_flow.wait_mirrored(first)
    mirrored_flow.commit(group, first, RISING)
    mirrored_flow.wait_synced(group, mirrored_flow.exact(first, RISING))
    mirrored_flow.commit(group, first, every(RECORDS))
    mirrored_flow.wait_synced(group, mirrored_flow.exact(first, every(RECORDS)))
    mirrored_flow.produce(second)
    mirrored_flow.wait_mirrored(second)
    mirrored_flow.commit(group, second, every(RECORDS))
    mirrored_flow.wait_synced(
        group, mirrored_flow.exact(first, every(RECORDS)) | mirrored_flow.exact(second, every(RECORDS))
    )
    # A consumer of the group on backup has nothing to read, until something new comes.
    copies = [mirrored_flow.remote(topic) for topic in topics]
    new = [Record(b"new", key=b"key", partition=partition) for partition in range(PARTITIONS)]
    produce(mirrored_flow.source.bootstrap, second, new)
    read = resume(mirrored_flow.target.bootstrap, group, copies, count=PARTITIONS)
    assert [(record.value, record.partition) for record in sorted(read, key=lambda r: r.partition)] == [
        (b"new", partition) for partition in range(PARTITIONS)
    ]
    mirrored_flow.assert_monotonic(group)


@flavours("Base", "Identity", "Transactions")
def test_one_way_replication_with_auto_offset_sync(mirrored_flow: MirroredFlow) -> None:
    """MirrorConnectorsIntegrationBaseTest.testOneWayReplicationWithAutoOffsetSync: stock's group stands somewhere in
    (last - offset.lag.max, end]; ours re-reads nothing."""
    topics = mirrored_flow.topic("test-auto-sync-1"), mirrored_flow.topic("test-auto-sync-2")
    _one_way_replication(mirrored_flow, mirrored_flow.name("consumer-group-auto-sync"), topics)


@pytest.mark.parametrize("evidence", mostly_long(["both", "syncs"]))
def test_one_way_replication_with_frequent_offset_syncs(flow: Flow, evidence: str) -> None:
    """MirrorConnectorsIntegrationBaseTest.testOneWayReplicationWithFrequentOffsetSyncs: offset.lag.max is 0. Then
    stock's own answer is exact too for a group that has read everything."""
    mirrored_flow = MirroredFlow(aliased(flow), {"offset_lag_max": 0, "translation_evidence": evidence})
    group, topic = (
        mirrored_flow.name("consumer-group-frequent-sync"),
        mirrored_flow.topic("test-frequent-sync"),
    )
    with mirrored_flow.mirrored():
        mirrored_flow.produce(topic)
        mirrored_flow.wait_mirrored(topic)
        mirrored_flow.commit(group, topic, every(RECORDS))
        mirrored_flow.wait_synced(group, mirrored_flow.exact(topic, every(RECORDS)))
        mirrored_flow.assert_monotonic(group)


@pytest.mark.parametrize("evidence", mostly_long(["both", "syncs"]))
def test_offset_syncs_topics_on_target(flow: Flow, evidence: str) -> None:
    """MirrorConnectorsIntegrationBaseTest.testOffsetSyncsTopicsOnTarget: the topic is on backup only, and checkpoints
    flow. With `syncs` they rest on nothing else."""
    settings = {
        "offset-syncs_topic_location": "target",
        "offset_lag_max": 0,
        "translation_evidence": evidence,
    }
    mirrored_flow = MirroredFlow(aliased(flow), settings)
    group, topic = (
        mirrored_flow.name("consumer-group-syncs-on-target"),
        mirrored_flow.topic("test-syncs-on-target"),
    )
    with mirrored_flow.mirrored():
        mirrored_flow.produce(topic)
        mirrored_flow.wait_mirrored(topic)
        mirrored_flow.commit(group, topic, every(RECORDS))
        mirrored_flow.wait_translated(group, mirrored_flow.exact(topic, every(RECORDS)))
        on_target = f"mm2-offset-syncs.{mirrored_flow.source.name}.internal"
        assert on_target in _topics(mirrored_flow.target.bootstrap)
        assert not _topics(mirrored_flow.source.bootstrap) & {on_target, syncs_topic(mirrored_flow.flow)}
        assert checkpoints_topic(mirrored_flow.flow) in _topics(mirrored_flow.target.bootstrap)


@pytest.mark.long
@flavours("Base")
def test_restart_replication(mirrored_flow: MirroredFlow) -> None:
    """MirrorConnectorsIntegrationBaseTest.testRestartReplication: after a restart of the connectors the group is synced
    again, and checkpoints stay monotonic."""
    group, topic = mirrored_flow.name("consumer-group-restart"), mirrored_flow.topic("test-restart")
    rest = mirrored_flow.flow.worker.rest
    mirrored_flow.produce(topic)
    mirrored_flow.wait_mirrored(topic)
    mirrored_flow.commit(group, topic, RISING)
    mirrored_flow.wait_synced(group, mirrored_flow.exact(topic, RISING))
    # In one answer: other tests delete their connectors meanwhile.
    for name, known in rest.get("/connectors", expand="info").items():
        if known["info"]["config"]["source.cluster.alias"] == mirrored_flow.source.name:
            rest.restart(name, tasks=True)
            rest.wait_running(name, tasks=None)
    mirrored_flow.produce(topic, start=RECORDS)
    mirrored_flow.wait_mirrored(topic)
    mirrored_flow.commit(group, topic, every(2 * RECORDS))
    mirrored_flow.wait_synced(group, mirrored_flow.exact(topic, every(2 * RECORDS)))
    mirrored_flow.wait_translated(group, mirrored_flow.exact(topic, every(2 * RECORDS)))
    mirrored_flow.assert_monotonic(group)
    assert len(mirrored_flow.emitted(group)) == 2 * PARTITIONS, "a restart repeats nothing"


# -- checkpoints -----------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_no_checkpoints_if_no_records_are_mirrored(flow: Flow) -> None:
    """MirrorConnectorsIntegrationBaseTest.testNoCheckpointsIfNoRecordsAreMirrored. With `syncs`, as stock, an empty
    partition has none; by records its offset 0 is exact. One whose records are not mirrored has none either way."""
    mirrored_flow = MirroredFlow(aliased(flow))
    groups = {
        evidence: mirrored_flow.name(f"group-no-checkpoints-{evidence}") for evidence in ("both", "syncs")
    }
    first, empty = (
        mirrored_flow.topic("test-topic-1"),
        mirrored_flow.topic("test-topic-no-checkpoints", shifted=False),
    )
    late = mirrored_flow.topic("late")
    mirrored_flow.produce(first)
    mirrored_flow.produce(late)
    with ExitStack() as running:
        running.enter_context(mirrored_flow.mirror(topics=f"{mirrored_flow.mark}-test.*"))
        names = [
            running.enter_context(
                mirrored_flow.running("Checkpoint", groups=group, translation_evidence=evidence)
            )
            for evidence, group in groups.items()
        ]
        mirrored_flow.wait_mirrored(first)
        _wait_copied(mirrored_flow, empty)
        for group in groups.values():
            mirrored_flow.commit(group, first, every(RECORDS))
            mirrored_flow.commit(group, empty, every(0))
            mirrored_flow.commit(group, late, every(RECORDS // 2))
        for group in groups.values():
            mirrored_flow.wait_translated(group, mirrored_flow.exact(first, every(RECORDS)))
        for name in names:
            mirrored_flow.flow.wait_rounds(name)
        at_start = mirrored_flow.exact(empty, every(0))
        assert (
            mirrored_flow.translated(groups["both"]) == mirrored_flow.exact(first, every(RECORDS)) | at_start
        )
        assert mirrored_flow.translated(groups["syncs"]) == mirrored_flow.exact(first, every(RECORDS))

        mirrored_flow.produce(empty)
        mirrored_flow.wait_mirrored(empty)
        for group in groups.values():
            mirrored_flow.commit(group, empty, every(RECORDS))
        for group in groups.values():
            mirrored_flow.wait_translated(group, mirrored_flow.exact(empty, every(RECORDS)))
            assert not {
                place for place in mirrored_flow.translated(group) if place[0] == mirrored_flow.remote(late)
            }
            assert committed_offsets(mirrored_flow.target.bootstrap, group) == {}, (
                "no group sync was asked for"
            )


@flavours("Base", "Transactions")
def test_offset_translation_behind_replication_flow(mirrored_flow: MirroredFlow) -> None:
    """MirrorConnectorsIntegrationBaseTest.testOffsetTranslationBehindReplicationFlow: commits at 90 % and then at
    10 % of 1,000 records of each partition; checkpoints advance, then go back."""
    group, topic = mirrored_flow.name("consumer-group-lagging"), mirrored_flow.topic("test-topic-lagging")
    mirrored_flow.produce(topic, 1000)
    mirrored_flow.commit(group, topic, every(1))
    mirrored_flow.wait_mirrored(topic)
    mirrored_flow.wait_translated(group, mirrored_flow.exact(topic, every(1)))
    mirrored_flow.commit(group, topic, every(900))
    mirrored_flow.wait_translated(group, mirrored_flow.exact(topic, every(900)))
    mirrored_flow.commit(group, topic, every(100))
    mirrored_flow.wait_translated(group, mirrored_flow.exact(topic, every(100)))
    mirrored_flow.assert_monotonic(group)
    # Group offsets are never lowered.
    mirrored_flow.wait_synced(group, mirrored_flow.exact(topic, every(900)))
