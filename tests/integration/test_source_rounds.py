"""The source connector's rounds over a real broker with an authorizer, which is source and target at once: topics made
and grown, configs and rules synced. What would copy only remembers what it was told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from bridge.errors import KafkaFailure
from bridge.kafka.cluster import KafkaClusters
from bridge.local import eventually
from bridge.local.broker import Broker
from bridge.local.security import Security
from bridge.local.stack import LocalStack
from bridge.model.copying import Copied, CopySample, PipelineSpec, PipelineState, PipelineStatus
from bridge.model.partition_states import Skip
from bridge.model.topics import NewTopic
from bridge.model.values import Side
from connectors.base import CheckedOnOpen
from connectors.source.options import SourceOptions
from connectors.source.task import SourceInstance
from tests.support.brokers import secured_broker
from tests.support.names import unique
from tests.support.topics import add_partitions, admin, allow, bounds, create_topic, set_topic_config
from tests.support.waits import WAIT
from tests.unit.connectors.run_instance import ALONE, Published

ANYTHING: str = None  # type: ignore[assignment]  # what a filter takes for any, which its annotations leave out


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    directory: Path = tmp_path_factory.mktemp("guarded")
    security = Security(users={"alice": "wonder"}, authorizer=True)
    with secured_broker(directory, security) as broker:
        yield broker


class RecordedPipelines:
    """Pipelines that record the partitions that they are assigned."""

    def __init__(self) -> None:
        self.partitions: Sequence[Copied] = ()
        self.status = PipelineStatus(PipelineState.COPYING)

    def start(self, spec: PipelineSpec) -> RecordedPipelines:
        return self

    def assign(self, partitions: Sequence[Copied]) -> None:
        self.partitions = partitions

    def release(self, topics: Sequence[str]) -> None:
        return None

    def skip(self, skip: Skip) -> None:
        raise AssertionError("nothing is skipped")

    def drain_samples(self) -> Sequence[CopySample]:
        return ()

    async def stop(self) -> None:
        self.partitions = ()


def props(bootstrap: str, topic: str) -> dict[str, str]:
    soon = {
        f"{what}.interval.seconds": "1"
        for what in ("refresh.topics", "sync.topic.configs", "sync.topic.acls")
    }
    return {
        "name": "mirror",
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": bootstrap,
        "target.cluster.bootstrap.servers": bootstrap,
        "bridge.same.cluster": "true",
        "topics": topic,
        "heartbeats.replication.enabled": "false",
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "sync.topic.acls.revoke": "true",
        **soon,
    }


def overrides(bootstrap: str, topic: str) -> dict[str, str]:
    """Configs that the topic itself carries, as another client sees them."""
    client = admin(bootstrap)
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entries = client.describe_configs([resource])[resource].result(WAIT)
    return {key: entry.value for key, entry in entries.items() if not entry.is_default and entry.source == 1}


def rules(bootstrap: str, name: str) -> set[tuple[str, str, str]]:
    """Name, pattern and operation of rules for names that hold this one, as another client sees them."""
    client = admin(bootstrap)
    everything = AclBindingFilter(
        ResourceType.TOPIC,
        ANYTHING,
        ResourcePatternType.ANY,
        ANYTHING,
        ANYTHING,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    result = client.describe_acls(everything).result(WAIT)
    return {
        (each.name, each.resource_pattern_type.name, each.operation.name)
        for each in result
        if name in each.name
    }


def drop_rules(bootstrap: str, name: str) -> None:
    client = admin(bootstrap)
    of_name = AclBindingFilter(
        ResourceType.TOPIC,
        name,
        ResourcePatternType.LITERAL,
        ANYTHING,
        ANYTHING,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    client.delete_acls([of_name])[of_name].result(WAIT)


async def until(done: Callable[[], bool], what: str) -> None:
    await asyncio.to_thread(eventually, done, WAIT, what=what)


def test_topics_configs_and_rules_follow_the_source(guarded: Broker) -> None:
    """B21, B22, B26 over the wire."""
    where, topic = guarded.bootstrap, unique("orders")
    remote = f"A.{topic}"
    create_topic(where, topic, 2, {"delete.retention.ms": "700000", "min.insync.replicas": "1"})
    allow(where, "User:alice", topic, "ALL")
    prefixed = AclBinding(
        ResourceType.TOPIC,
        topic[:-3],
        ResourcePatternType.PREFIXED,
        "User:alice",
        "*",
        AclOperation.WRITE,
        AclPermissionType.DENY,
    )
    client = admin(where)
    client.create_acls([prefixed])[prefixed].result(WAIT)
    given = props(where, topic)
    options = SourceOptions.from_props(given, CheckedOnOpen())
    pipelines, published = RecordedPipelines(), Published()

    async def script() -> None:
        clusters = KafkaClusters()
        instance = SourceInstance("mirror", options, clusters, pipelines, given, published)
        instance.assign(ALONE)
        running = asyncio.create_task(instance.run())
        try:
            await until(lambda: len(pipelines.partitions) == 2, "both partitions are assigned")
            assert {each.target_topic for each in pipelines.partitions} == {remote}
            assert all(each.source_topic_id and each.target_topic_id for each in pipelines.partitions)
            assert len(await asyncio.to_thread(bounds, where, remote)) == 2
            assert await asyncio.to_thread(overrides, where, remote) == {"delete.retention.ms": "700000"}
            mapped = {(remote, "LITERAL", "READ"), (f"A.{topic[:-3]}", "PREFIXED", "WRITE")}
            await until(lambda: rules(where, remote[:-3]) == mapped, "rules are synced")

            await asyncio.to_thread(add_partitions, where, topic, 3)
            await until(lambda: len(pipelines.partitions) == 3, "the new partition is assigned")
            await asyncio.to_thread(set_topic_config, where, topic, {"cleanup.policy": "compact"})
            await asyncio.to_thread(unset, where, topic, "delete.retention.ms")
            await until(
                lambda: overrides(where, remote) == {"cleanup.policy": "compact"}, "configs are synced"
            )
            await asyncio.to_thread(drop_rules, where, topic)
            denied = {(f"A.{topic[:-3]}", "PREFIXED", "WRITE")}
            await until(lambda: rules(where, remote[:-3]) == denied, "the revoked rule is gone, DENY stays")
            assert (published.summaries[-1].errors, published.summaries[-1].failure) == ([], None)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await instance.close()
            await clusters.close()

    asyncio.run(script())


@pytest.mark.long
def test_a_topic_of_an_older_cluster_is_made_without_what_the_target_does_not_know(
    stack: LocalStack, guarded: Broker
) -> None:
    older = stack.broker(unique("older"), version="3.9.1")
    topic = unique("orders")
    configs = {
        "retention.ms": "7000000",
        "message.format.version": "3.0-IV1",
        "message.downconversion.enable": "false",
    }
    create_topic(older.bootstrap, topic, 1, configs)
    given = {
        **props(guarded.bootstrap, topic),
        "source.cluster.bootstrap.servers": older.bootstrap,
        "sync.topic.acls.enabled": "false",
    }
    options = SourceOptions.from_props(given, CheckedOnOpen())
    pipelines = RecordedPipelines()

    async def script() -> None:
        clusters = KafkaClusters()
        instance = SourceInstance("mirror", options, clusters, pipelines, given, Published())
        instance.assign(ALONE)
        running = asyncio.create_task(instance.run())
        try:
            await until(lambda: len(pipelines.partitions) == 1, "the partition is assigned")
            made = await asyncio.to_thread(overrides, guarded.bootstrap, f"A.{topic}")
            assert made == {"retention.ms": "7000000"}
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await instance.close()
            await clusters.close()

    asyncio.run(script())
    older.close()


def unset(bootstrap: str, topic: str, key: str) -> None:
    entry = ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    client = admin(bootstrap)
    for future in client.incremental_alter_configs([resource]).values():
        future.result(WAIT)


def test_each_topic_has_its_own_result_in_the_brokers_words(guarded: Broker) -> None:
    where, good, bad, many = guarded.bootstrap, unique("good"), unique("bad"), unique("many")
    create_topic(where, many, 3)
    given = props(where, good)

    async def script() -> None:
        clusters = KafkaClusters()
        cluster = clusters.open(Side.TARGET, given)
        changing = cluster.topic_admin
        try:
            topics = [
                NewTopic(good, 1, 1, {}),
                NewTopic(bad, 1, 1, {"no.such": "x"}),
                NewTopic(many, 3, 1, {}),
            ]
            made = await changing.create_topics(topics)
            assert (made[good], made[many]) == (None, None)
            assert "no.such" in str(made[bad])
            grown = await changing.create_partitions({many: 2, bad: 2})
            assert grown[many] is None
            assert isinstance(grown[bad], KafkaFailure)
            wrong = {"retention.ms": "x", "delete.retention.ms": "9"}
            altered = await changing.alter_configs({many: wrong, good: {"retention.ms": "8"}})
            assert altered[good] is None
            assert "retention.ms" in str(altered[many])
            await until(
                lambda: overrides(where, many) == {"delete.retention.ms": "9"}, "the other key is altered"
            )
            # An answer may come before the broker has heard of it itself.
            await until(lambda: overrides(where, good) == {"retention.ms": "8"}, "the config is altered")
            described = await changing.configs([good, bad])
            assert isinstance(described[bad], KafkaFailure)
            configs = described[good]
            assert not isinstance(configs, KafkaFailure)
            assert configs["retention.ms"].value == "8"
        finally:
            await clusters.release(cluster)

    asyncio.run(script())
