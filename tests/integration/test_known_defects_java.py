"""B14 of the list in docs/known-defects.md, with real clusters and a Java consumer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest

from bridge.errors import KafkaFailure
from bridge.kafka.cluster import KafkaCluster, KafkaClusters
from bridge.kafka.config.settings import client_settings
from bridge.local import Cluster
from bridge.model.values import Committed, Side, TopicPartition
from connectors.base import CheckedOnOpen
from connectors.checkpoint.options import CheckpointOptions
from connectors.checkpoint.task import CheckpointInstance
from tests.integration.failover import copy, foreign
from tests.integration.stock import Stock
from tests.support import commit, create_topic, numbered, produce, unique
from tests.unit.connectors.checkpoint.checkpoint_harness import Connected
from tests.unit.connectors.fake_clusters import JUNK, FakeCluster
from tests.unit.connectors.run_instance import ALONE

pytestmark = pytest.mark.long

COPY = TopicPartition("A.orders", 0)


def test_b14_metadata_goes_along_and_the_leader_epoch_is_the_targets_own(
    stock: Stock, source: Cluster, target: Cluster, java: Callable[..., list[str]]
) -> None:
    """Stock drops the leader epoch: a Java consumer can't see that its position was truncated. Copied from the source
    it would be worse: the consumer waits for an epoch that does not come."""
    assert stock.group_sync({COPY: 12}, idle=5) == [("A.orders", "0", "12", "md", "-1")]
    topic, group, wrong = create_topic(source.bootstrap, unique("b14")), unique("java"), unique("wrong")
    remote = create_topic(target.bootstrap, f"{source.name}.{topic}")
    records = numbered(30, timestamp=1_700_000_000_000)
    produce(source.bootstrap, topic, records)
    produce(target.bootstrap, remote, foreign(JUNK))
    copy(source, target, topic, records)
    place = TopicPartition(remote, 0)
    commit(source.bootstrap, group, {(topic, 0): 0})
    commit(target.bootstrap, wrong, {place: 0})

    async def go() -> Mapping[TopicPartition, Committed] | KafkaFailure:
        clusters = [
            KafkaCluster(client_settings(Side.SOURCE, {"source.cluster.bootstrap.servers": each.bootstrap}))
            for each in (source, target)
        ]
        try:
            here, there = clusters
            given = Committed(17, "µ: seen by möchte", 9)
            assert await here.alter(group, {TopicPartition(topic, 0): given}) == {
                TopicPartition(topic, 0): None
            }
            assert await there.alter(wrong, {place: Committed(17 + JUNK, "", 9)}) == {place: None}
            await _syncs_once(source, target, group)
            return (await there.committed([group]))[group]
        finally:
            for cluster in clusters:
                await cluster.close()

    assert asyncio.run(go()) == {place: Committed(17 + JUNK, "µ: seen by möchte", 0)}
    assert java("resume", target.bootstrap, group, remote, 10) == [str(17 + JUNK), "value-17"]
    assert java("resume", target.bootstrap, wrong, remote, 3)[0] in ("none", "error")


async def _syncs_once(source: Cluster, target: Cluster, group: str) -> None:
    """The checkpoint connector with group sync on two real clusters, until it has written."""
    props = {
        "source.cluster.alias": source.name,
        "target.cluster.alias": target.name,
        "source.cluster.bootstrap.servers": source.bootstrap,
        "target.cluster.bootstrap.servers": target.bootstrap,
        "checkpoints.topic.replication.factor": "1",
        "groups": group,
        "sync.group.offsets.enabled": "true",
    }
    published, clusters = Connected(FakeCluster()), KafkaClusters()
    options = CheckpointOptions.from_props(props, CheckedOnOpen())
    instance = CheckpointInstance("b14", options, clusters, props, published)
    instance.assign(ALONE)
    running = asyncio.create_task(instance.run())
    try:
        while not published.summaries or not published.summaries[-1].writes:
            published.more.clear()
            await asyncio.wait_for(published.more.wait(), 60)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await instance.close()
        await clusters.close()
