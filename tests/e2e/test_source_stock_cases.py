"""Stock's integration cases that concern replication, by their names (stock §4.5), with our source connector.

Beside it stock's MirrorCheckpointConnector works on our copy: for its groups stock's own ranges have to hold. For those
of our checkpoint and group-offset connectors the answer is exact, and what it rests on are offset runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial

import pytest
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from bridge.local import ConnectFailed
from tests.e2e.control import aliased, syncs_topic
from tests.e2e.flow import Flow, committed_offsets
from tests.e2e.mirrored_flow import (
    IDENTITY,
    PARTITIONS,
    RECORDS,
    OurFlow,
    TlsBackup,
    every,
    read_all,
)
from tests.support import admin, create_topic, eventually, exists, read, resume, set_topic_config
from tests.support.waits import WAIT

pytestmark = pytest.mark.long

RISING = {partition: partition + 1 for partition in range(PARTITIONS)}
"""Processed records by partition: from one to all."""
LAG = 10
"""offset.lag.max in stock's tests."""
EXCLUDED = r"delete\.retention\..*,message\.timestamp\.type"
"""config.properties.exclude in stock's tests, and what ours insists on."""

FLAVOURS: Mapping[str, dict[str, object]] = {
    "Base": {
        "offset_lag_max": LAG,
        "config_properties_exclude": EXCLUDED,
        "sync_topic_configs_interval_seconds": 1,
    },
    "Identity": {
        "replication_policy_class": IDENTITY,
        "emit_offset-syncs_enabled": "false",
        "use_defaults_from": "source",
    },
    "Transactions": {"offset_lag_max": 0, "offset-syncs_topic_location": "target"},
    "SSL": {"offset_lag_max": LAG},
}
"""Named as stock's subclasses of the base test; each carries along the settings of a few cases more."""


def _everywhere(mirrored_flow: OurFlow) -> str:
    """Topics of the flow wherever they come from, copies of both directions too."""
    return f".*{mirrored_flow.mark.removesuffix('-back')}.*,heartbeats"


@pytest.fixture(scope="module")
def mirrored_flow(request: pytest.FixtureRequest, flow: Flow) -> Iterator[OurFlow]:
    flavour: str = request.param
    unique_flow, settings = aliased(flow), FLAVOURS[flavour]
    if flavour == "SSL":
        backup: TlsBackup = request.getfixturevalue("tls_backup")
        unique_flow, settings = aliased(flow, target=backup.broker), settings | backup.settings
    mirror = OurFlow(unique_flow, settings, transactions=flavour == "Transactions")
    with ExitStack() as running:
        topics = {"topics": _everywhere(mirror)} if flavour == "Base" else {}
        running.enter_context(mirror.mirror(**topics))
        running.enter_context(mirror.group_offsets(f"{mirror.mark}-groups.*"))
        if flavour != "Identity":
            synced = {"sync_group_offsets_enabled": "true"}
            stock, ours = f"{mirror.mark}-stock.*", f"{mirror.mark}-ours.*"
            running.enter_context(mirror.stock_checkpoints(groups=stock, **synced))
            running.enter_context(mirror.running("Checkpoint", groups=ours, **synced))
        yield mirror


def flavours(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """SSL has the cases of Base again, on brokers with TLS: in `make soak`."""
    marks = {"SSL": pytest.mark.soak}
    flows = [pytest.param(name, marks=marks.get(name, ())) for name in names]
    return pytest.mark.parametrize("mirrored_flow", flows, indirect=True)


class Case:
    """A case's groups, one for each connector that follows groups: stock's and ours."""

    def __init__(self, mirrored_flow: OurFlow, what: str) -> None:
        self.mirrored_flow, self._what = mirrored_flow, what
        self.stock = (
            self.group("stock") if "emit_offset-syncs_enabled" not in mirrored_flow.settings else None
        )
        self.ours = [self.group(kind) for kind in ("ours", "groups") if self.stock or kind == "groups"]

    def group(self, kind: str) -> str:
        return self.mirrored_flow.name(f"{kind}-{self._what}")

    def commit(self, topic: str, processed: Mapping[int, int]) -> None:
        for group in [*self.ours, *([self.stock] if self.stock else [])]:
            self.mirrored_flow.commit(group, topic, processed)

    def wait_synced(self, topic: str, processed: Mapping[int, int]) -> None:
        """Groups of ours stand exactly, by runs; stock's skips nothing, and re-reads less than offset.lag.max where it
        has read everything."""
        mirrored_flow, where = self.mirrored_flow, self.mirrored_flow.target.bootstrap
        for group in self.ours:
            mirrored_flow.wait_exact(topic, processed, partial(committed_offsets, where, group), group)
            self._wait_evidence(group, topic, processed)
        if self.stock:
            self._wait_stock(topic, processed, partial(committed_offsets, where, self.stock))

    def wait_translated(self, topic: str, processed: Mapping[int, int]) -> None:
        """The same of checkpoints, as MirrorClient reads them."""
        mirrored_flow, ours = self.mirrored_flow, self.group("ours")
        mirrored_flow.wait_exact(topic, processed, lambda: mirrored_flow.translated(ours), ours)
        self._wait_stock(topic, processed, lambda: mirrored_flow.translated(self.stock or ""))

    def _wait_stock(
        self, topic: str, processed: Mapping[int, int], offsets: Callable[[], Mapping[tuple[str, int], int]]
    ) -> None:
        lag = int(str(self.mirrored_flow.settings["offset_lag_max"]))
        expected = self.mirrored_flow.left(topic, processed)

        def within() -> None:
            result = self.mirrored_flow.unread(topic, offsets())
            assert result.keys() == expected.keys()
            for partition, left in expected.items():
                again = len(result[partition]) - len(left)
                assert result[partition][again:] == left, f"{partition} skips"
                assert left or again <= max(0, lag - 1), f"{partition} re-reads {again}"

        eventually(
            within,
            WAIT,
            what=f"stock's {self.stock} stands in {topic}",
            watched=self.mirrored_flow.flow.watched,
        )

    def _wait_evidence(self, group: str, topic: str, processed: Mapping[int, int]) -> None:
        """With transactions on the source runs leave a bound where control records lie within; records settle it."""

        def reported() -> None:
            rows = self.mirrored_flow.flow.service.report(group)["partitions"]
            result = {row["partition"]: row for row in rows if row["topic"] == topic}
            assert result.keys() == processed.keys()
            for row in result.values():
                assert (row["verdict"], row["bound"]) == ("exact", 0), row
                assert row["evidence"] == "run" or self.mirrored_flow.transactions, row

        eventually(reported, WAIT, what=f"{group} is exact by runs", watched=self.mirrored_flow.flow.watched)


def _topics(bootstrap: str) -> set[str]:
    return set(admin(bootstrap).list_topics(timeout=60).topics)


def _overrides(bootstrap: str, topic: str) -> dict[str, str]:
    """Configs that the topic itself carries."""
    client, resource = admin(bootstrap), ConfigResource(ResourceType.TOPIC, topic)
    entries = client.describe_configs([resource])[resource].result(WAIT)
    return {key: entry.value for key, entry in entries.items() if entry.source == 1}


def _wait_overrides(mirrored_flow: OurFlow, topic: str, expected: Mapping[str, str | None]) -> None:
    """Until the copy of the topic has these overrides (None: no such)."""

    def set_there() -> None:
        result = _overrides(mirrored_flow.target.bootstrap, mirrored_flow.remote(topic))
        assert {key: result.get(key) for key in expected} == expected

    eventually(set_there, WAIT, what=f"configs of the copy of {topic}", watched=mirrored_flow.flow.watched)


# -- testReplication -------------------------------------------------------------------------------------------------


@flavours("Base", "Identity", "Transactions", "SSL")
def test_replication(mirrored_flow: OurFlow) -> None:
    """MirrorConnectorsIntegrationBaseTest.testReplication: records, heartbeats, upstreamClusters and hops, a compacted
    topic, failover position, new topics."""
    case, topic = Case(mirrored_flow, "replication"), mirrored_flow.topic("test-topic-1")
    with ExitStack() as running:
        for way in (mirrored_flow, mirrored_flow.returning()) if not mirrored_flow.transactions else ():
            running.enter_context(way.running("Heartbeat", emit_heartbeats_interval_seconds=1))
        compacted = create_topic(
            mirrored_flow.source.bootstrap, mirrored_flow.name("compacted"), 1, {"cleanup.policy": "compact"}
        )
        mirrored_flow.produce(topic)
        mirrored_flow.wait_mirrored(topic)
        case.commit(topic, RISING)
        case.wait_synced(topic, RISING)
        if case.stock:
            case.wait_translated(topic, RISING)
        if not mirrored_flow.transactions:
            mirrored_flow.assert_heartbeats()
        _wait_overrides(mirrored_flow, compacted, {"cleanup.policy": "compact"})
        # "create more matching topics": a record in the first partition only.
        more = mirrored_flow.topic("test-topic-2", shifted=False)
        mirrored_flow.produce(more, partitions=1)
        eventually(
            lambda: exists(mirrored_flow.target.bootstrap, mirrored_flow.remote(more)),
            WAIT,
            what=f"the copy of {more}",
            watched=mirrored_flow.flow.watched,
        )
        mirrored_flow.wait_mirrored(more)
        case.commit(more, {0: 3})
        case.wait_synced(more, {0: 3})


@flavours("Base")
def test_replication_both_ways_makes_no_circles(mirrored_flow: OurFlow) -> None:
    """The other half of testReplication, from backup to primary; each direction would take the other's copies."""
    back = mirrored_flow.returning()
    there, here = back.topic("test-topic-1"), mirrored_flow.topic("test-topic-3")
    with back.mirror(topics=_everywhere(mirrored_flow)), back.running("Checkpoint") as name:
        back.produce(there)
        mirrored_flow.produce(here)
        back.wait_mirrored(there)
        mirrored_flow.wait_mirrored(here)
        group = back.name("ours-back")
        back.commit(group, there, RISING)
        back.wait_exact(there, RISING, lambda: back.translated(group), group)
        # Topics that came later than all copies so far have been looked for, so those were looked at too.
        back.flow.wait_rounds(name)
        last = back.topic("test-topic-last", shifted=False)
        back.produce(last)
        eventually(lambda: exists(back.target.bootstrap, back.remote(last)), WAIT, what="the last topic")
    for way in (mirrored_flow, back):
        result = {topic for topic in _topics(way.source.bootstrap) if mirrored_flow.mark in topic}
        twice = {topic for topic in result if topic.count(f"{way.source.name}.") or topic.count(".") > 1}
        assert not twice, "copies of copies"


# -- group sync ------------------------------------------------------------------------------------------------------


@flavours("Base")
def test_replication_with_empty_partition(mirrored_flow: OurFlow) -> None:
    """MirrorConnectorsIntegrationBaseTest.testReplicationWithEmptyPartition: the offset of the partition without
    records is there on backup, and is 0."""
    case, topic = (
        Case(mirrored_flow, "empty"),
        mirrored_flow.topic("test-topic-with-empty-partition", shifted=False),
    )
    mirrored_flow.produce(topic, partitions=PARTITIONS - 1)
    eventually(
        lambda: exists(mirrored_flow.target.bootstrap, mirrored_flow.remote(topic)),
        WAIT,
        what=f"the copy of {topic}",
    )
    mirrored_flow.wait_mirrored(topic)
    processed = {**every(RECORDS), PARTITIONS - 1: 0}
    for group in case.ours:
        mirrored_flow.commit(group, topic, processed)
        mirrored_flow.wait_exact(
            topic, processed, partial(committed_offsets, mirrored_flow.target.bootstrap, group), group
        )
        assert (
            committed_offsets(mirrored_flow.target.bootstrap, group)[
                mirrored_flow.remote(topic), PARTITIONS - 1
            ]
            == 0
        )


@flavours("Base", "Transactions")
def test_one_way_replication_with_offset_sync(mirrored_flow: OurFlow) -> None:
    """MirrorConnectorsIntegrationBaseTest.testOneWayReplicationWithAutoOffsetSync (Base), and
    testOneWayReplicationWithFrequentOffsetSyncs (Transactions: offset.lag.max is 0, and stock's own answer exact too).
    A group that has read everything, then a second topic; a consumer on backup has nothing to read, until something
    new comes."""
    case = Case(mirrored_flow, "auto-sync")
    topics = [mirrored_flow.topic("test-auto-sync-1"), mirrored_flow.topic("test-auto-sync-2")]
    for topic in topics:
        mirrored_flow.produce(topic)
        mirrored_flow.wait_mirrored(topic)
        case.commit(topic, every(RECORDS))
        case.wait_synced(topic, every(RECORDS))
    mirrored_flow.produce(topics[1], 1, start=RECORDS)
    copies = [mirrored_flow.remote(topic) for topic in topics]
    result = resume(mirrored_flow.target.bootstrap, case.ours[0], copies, count=PARTITIONS)
    assert sorted(str(record.value) for record in result) == [
        str(b"%d-%d" % (partition, RECORDS)) for partition in range(PARTITIONS)
    ]


@flavours("Base")
def test_offset_translation_behind_replication_flow(mirrored_flow: OurFlow) -> None:
    """MirrorConnectorsIntegrationBaseTest.testOffsetTranslationBehindReplicationFlow: commits at 90 % and then at
    10 % of 1,000 records of each partition; checkpoints advance, then go back."""
    case, topic = Case(mirrored_flow, "lagging"), mirrored_flow.topic("test-topic-lagging")
    mirrored_flow.produce(topic, 1000)
    mirrored_flow.wait_mirrored(topic)
    for processed in (every(900), every(100)):
        case.commit(topic, processed)
        case.wait_translated(topic, processed)
    mirrored_flow.assert_monotonic(case.group("ours"))


# -- offset syncs ----------------------------------------------------------------------------------------------------


@flavours("Identity")
def test_replication_without_offset_sync_will_not_create_offset_syncs_topic(mirrored_flow: OurFlow) -> None:
    """MirrorConnectorsIntegrationBaseTest.testReplicationWithoutOffsetSyncWillNotCreateOffsetSyncsTopic: data flows,
    and groups are exact without it, because the runs are there."""
    topic = mirrored_flow.topic("test-without-syncs")
    mirrored_flow.produce(topic)
    mirrored_flow.wait_mirrored(topic)
    result = _topics(mirrored_flow.source.bootstrap) | _topics(mirrored_flow.target.bootstrap)
    assert not result & {
        syncs_topic(mirrored_flow.flow),
        f"mm2-offset-syncs.{mirrored_flow.source.name}.internal",
    }
    assert f"mm2-offset-runs.{mirrored_flow.source.name}.internal" in result
    case = Case(mirrored_flow, "without-syncs")
    case.commit(topic, RISING)
    case.wait_synced(topic, RISING)


@flavours("Transactions")
def test_offset_syncs_topics_on_target(mirrored_flow: OurFlow) -> None:
    """MirrorConnectorsIntegrationBaseTest.testOffsetSyncsTopicsOnTarget: the topic is on backup only, and checkpoints
    flow, stock's too."""
    case, topic = Case(mirrored_flow, "syncs-on-target"), mirrored_flow.topic("test-syncs-on-target")
    mirrored_flow.produce(topic)
    mirrored_flow.wait_mirrored(topic)
    case.commit(topic, every(RECORDS))
    case.wait_translated(topic, every(RECORDS))
    on_target = f"mm2-offset-syncs.{mirrored_flow.source.name}.internal"
    assert on_target in _topics(mirrored_flow.target.bootstrap)
    assert not _topics(mirrored_flow.source.bootstrap) & {on_target, syncs_topic(mirrored_flow.flow)}


# -- life ------------------------------------------------------------------------------------------------------------


@flavours("Base")
def test_restart_replication(mirrored_flow: OurFlow) -> None:
    """MirrorConnectorsIntegrationBaseTest.testRestartReplication: after a restart of the connectors groups are synced
    again. Nothing is copied twice.

    MirrorConnectorsIntegrationExactlyOnceTest.testReplication: stock copies anew what an operator alters offsets to.
    So does ours: tests/e2e/test_copy_again.py."""
    case, topic, rest = (
        Case(mirrored_flow, "restart"),
        mirrored_flow.topic("test-restart"),
        mirrored_flow.flow.worker.rest,
    )
    mirrored_flow.produce(topic)
    mirrored_flow.wait_mirrored(topic)
    case.commit(topic, RISING)
    case.wait_synced(topic, RISING)
    unique_flow = [
        name
        for name in rest.connectors()
        if rest.config(name)["source.cluster.alias"] == mirrored_flow.source.name
    ]
    (mirror,) = [name for name in unique_flow if name.startswith("source")]
    rest.stop(mirror)
    rest.wait_state(mirror, "STOPPED", tasks=0)
    rest.resume(mirror)
    for name in unique_flow:
        if name != mirror:
            rest.restart(name, tasks=True)
    for name in unique_flow:
        rest.wait_running(name, tasks=None)
    mirrored_flow.produce(topic, start=RECORDS)
    mirrored_flow.wait_mirrored(topic)
    copies = read_all(mirrored_flow.target, mirrored_flow.remote(topic))
    for partition, records in read_all(mirrored_flow.source, topic).items():
        own = [record.value for record in copies[partition] if record.value != b"foreign"]
        assert own == [record.value for record in records]
    case.commit(topic, every(2 * RECORDS))
    case.wait_synced(topic, every(2 * RECORDS))
    mirrored_flow.assert_monotonic(case.group("ours"))


# -- topics ----------------------------------------------------------------------------------------------------------


@flavours("Base")
def test_sync_topic_configs(mirrored_flow: OurFlow) -> None:
    """MirrorConnectorsIntegrationBaseTest.testSyncTopicConfigs: of a copy that differs what is excluded stays, and what
    is not follows, again and again. testReplicateTargetDefault: what is taken away on the source is gone there too."""
    topic, other = (
        mirrored_flow.name("test-configs"),
        {"delete.retention.ms": "2000", "retention.bytes": "2000"},
    )
    create_topic(mirrored_flow.target.bootstrap, mirrored_flow.remote(topic), 1, other)
    given = {"delete.retention.ms": "1000", "retention.bytes": "1000"}
    create_topic(mirrored_flow.source.bootstrap, topic, 1, given)
    _wait_overrides(mirrored_flow, topic, {"delete.retention.ms": "2000", "retention.bytes": "1000"})
    set_topic_config(mirrored_flow.target.bootstrap, mirrored_flow.remote(topic), {"retention.bytes": "2000"})
    _wait_overrides(mirrored_flow, topic, {"delete.retention.ms": "2000", "retention.bytes": "1000"})
    entry = ConfigEntry("retention.bytes", None, incremental_operation=AlterConfigOpType.DELETE)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    client = admin(mirrored_flow.source.bootstrap)
    client.incremental_alter_configs([resource])[resource].result(WAIT)
    _wait_overrides(mirrored_flow, topic, {"delete.retention.ms": "2000", "retention.bytes": None})


@flavours("Identity")
def test_replicate_source_default(mirrored_flow: OurFlow) -> None:
    """MirrorConnectorsIntegrationBaseTest.testReplicateSourceDefault, which with stock shows nothing: both clusters
    have the same defaults. Here the copy carries the source's as its own."""
    topic = create_topic(mirrored_flow.source.bootstrap, mirrored_flow.name("test-source-default"), 1)
    eventually(lambda: exists(mirrored_flow.target.bootstrap, topic), WAIT, what=f"the copy of {topic}")
    assert "retention.bytes" not in _overrides(mirrored_flow.source.bootstrap, topic)
    _wait_overrides(mirrored_flow, topic, {"retention.bytes": "-1"})


def test_replicate_from_latest(flow: Flow) -> None:
    """MirrorConnectorsIntegrationBaseTest.testReplicateFromLatest: only records after the start are mirrored."""
    mirrored_flow = OurFlow(aliased(flow), {"consumer_auto_offset_reset": "latest"})
    topic = mirrored_flow.topic("test-latest", shifted=False)
    mirrored_flow.produce(topic)
    runs = f"mm2-offset-runs.{mirrored_flow.source.name}.internal"

    def begun() -> bool:
        return (
            exists(mirrored_flow.target.bootstrap, runs)
            and len(read(mirrored_flow.target.bootstrap, runs)) >= PARTITIONS
        )

    with mirrored_flow.mirror():
        eventually(begun, WAIT, what="positions are known", watched=flow.watched)
        mirrored_flow.produce(topic, start=RECORDS)
        mirrored_flow.wait_mirrored(topic)
    for records in read_all(mirrored_flow.target, mirrored_flow.remote(topic)).values():
        assert [str(each.value).rpartition("-")[2] for each in records] == [
            f"{number}'" for number in range(RECORDS, 2 * RECORDS)
        ]


def test_a_custom_forwarding_admin_is_refused(flow: Flow) -> None:
    """MirrorConnectorsWithCustomForwardingAdminIntegrationTest: a Java class of an operator's own can't be called by a
    service in Python. That is said where the connector is validated, before anything is made past it."""
    custom = "org.apache.kafka.connect.mirror.clients.admin.FakeForwardingAdminWithLocalMetadata"
    mirrored_flow = OurFlow(aliased(flow), {"forwarding_admin_class": custom})
    with pytest.raises(ConnectFailed, match=r"forwarding\.admin\.class") as refused, mirrored_flow.mirror():
        pass
    assert custom in str(refused.value)
