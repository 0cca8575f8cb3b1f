"""MirrorClient: asks a cluster which topics are mirrored to it, from where, and where groups resume on it.

MirrorClientConfig (stock §1.9): bootstrap servers, client properties and replication policy.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from types import TracebackType
from typing import Self, overload

from bridge.client.consumers import ConsumerRecord, Offsets, Subscription, T, consumed, read_offsets
from bridge.errors import ConfigRejected
from bridge.kafka.cluster import KafkaCluster
from bridge.kafka.config.properties import KeyPrefixes
from bridge.kafka.config.settings import ClientSettings, settings_at
from bridge.mm2 import replication_policy
from bridge.mm2.java_regex import JavaPattern
from bridge.mm2.records import Checkpoint, Heartbeat
from bridge.mm2.replication_policy import ReplicationPolicy
from bridge.model.java_values import given
from bridge.model.values import Committed, Side, TopicPartition
from connectors.config.configdef import REQUIRED, ConfigDef, Importance, Key, ListOf, Type
from connectors.config.mirror_options import mirror_keys, separator_errors
from connectors.config.plugins import REPLICATION_POLICY, Plugins, sound

_GROUP = "Mirror client"
_NAMES = (
    "replication.policy.class",
    "replication.policy.separator",
    "replication.policy.internal.topic.separator.enabled",
    "replication.policy.aliases",
    "replication.policy.topic.map",
    "replication.policy.topic.map.file",
    "forwarding.admin.class",
)
Pattern = re.Pattern[str] | JavaPattern


@dataclass(frozen=True, slots=True)
class MirrorClientConfig:
    settings: ClientSettings
    policy: ReplicationPolicy


def read_config(props: Mapping[str, str], side: Side | None = None) -> MirrorClientConfig:
    """Reads Kafka's client properties as they are, under `admin.` and under `consumer.`, and `replication.policy.*`;
    with a side, a connector's configuration (`source.cluster.*`, `target.cluster.*` and so on). Unknown keys are
    ignored, as in stock. Raises ConfigRejected with all errors at once.

    Stock drops client properties that are not about connection and security; here they work, or are an error.
    """
    props = given(props)
    prefixes = KeyPrefixes() if side is None else KeyPrefixes.for_side(side)
    config = _definition(prefixes).validate(props)
    plugins = Plugins(props, config)
    policy = plugins.load(REPLICATION_POLICY)
    errors = [*config.errors, *separator_errors(config), *plugins.errors]
    try:
        settings = settings_at(prefixes, props)
    except ConfigRejected as rejected:
        keys = {error.key for error in errors}
        errors += [error for error in rejected.errors if error.key not in keys]
        raise ConfigRejected(errors) from None
    if errors:
        raise ConfigRejected(errors)
    return MirrorClientConfig(settings, sound(policy))


def _definition(prefixes: KeyPrefixes) -> ConfigDef:
    bootstrap = Key(
        f"{prefixes.connection}bootstrap.servers",
        Type.LIST,
        REQUIRED,
        Importance.HIGH,
        "Brokers for the first connection, as host:port.",
        _GROUP,
        validator=ListOf(allow_empty=False),
    )
    return ConfigDef([bootstrap, *(key for key in mirror_keys(_GROUP) if key.name in _NAMES)])


class MirrorClient:
    """Stock's MirrorClient. For use in one event loop; close it, or use it as `async with`. Calls raise KafkaFailure.

    `props` are those of stock's MirrorClientConfig (`bootstrap.servers`, `replication.policy.*`, Kafka's client
    properties, overridden under `admin.` and `consumer.`); with a `side`, those of a connector. Raises ConfigRejected.
    """

    def __init__(self, props: Mapping[str, str], side: Side | None = None) -> None:
        config = read_config(props, side)
        self.replication_policy: ReplicationPolicy = config.policy
        self._cluster = KafkaCluster(config.settings)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._cluster.close()

    async def replication_hops(self, alias: str) -> int:
        """The fewest hops from that cluster to this one: 2 from A in A->B->C, on C. -1 if no heartbeats come from
        it."""
        return replication_policy.replication_hops(self.replication_policy, await self._topics(), alias)

    async def heartbeat_topics(self) -> set[str]:
        return replication_policy.heartbeat_topics(self.replication_policy, await self._topics())

    async def checkpoint_topics(self) -> set[str]:
        return replication_policy.checkpoint_topics(self.replication_policy, await self._topics())

    async def upstream_clusters(self) -> set[str]:
        """Aliases of all clusters whose heartbeats arrive here, however many hops away."""
        return replication_policy.upstream_clusters(self.replication_policy, await self._topics())

    async def remote_topics(self, source: str | None = None) -> set[str]:
        """Topics that are mirrored to this cluster; with `source`, only those mirrored directly from it."""
        return replication_policy.remote_topics(self.replication_policy, await self._topics(), source)

    @overload
    async def remote_consumer_offsets(
        self, group: str, alias: str, timeout_s: float
    ) -> dict[TopicPartition, Committed]: ...

    @overload
    async def remote_consumer_offsets(self, group: Pattern, alias: str, timeout_s: float) -> Offsets: ...

    async def remote_consumer_offsets(
        self, group: str | Pattern, alias: str, timeout_s: float
    ) -> dict[TopicPartition, Committed] | Offsets:
        """The offsets at which a group of the cluster `alias` resumes here, by remote partition, from its checkpoints.
        With a pattern, which has to match whole group ids, by group and remote partition; compile_java in
        bridge.mm2.java_regex makes one of a Java regex. Reads for `timeout_s` seconds at most (see read_offsets).
        """
        tail = self._cluster.tail(self.replication_policy.checkpoints_topic(alias))
        if not isinstance(group, str):
            return await read_offsets(tail, group.fullmatch, timeout_s)
        return (await read_offsets(tail, group.__eq__, timeout_s)).get(group, {})

    def heartbeat_consumer(
        self, *, from_beginning: bool = True, idle_s: float | None = None
    ) -> AsyncGenerator[ConsumerRecord[Heartbeat], None]:
        """Consumes all heartbeats that arrive on this cluster, from topics that appear later too: `async for`. Ends
        after `idle_s` seconds without one (None: never). See bridge.client.consumers for what is skipped and raised."""
        kind = self.replication_policy.is_heartbeats_topic
        return self._consumer(Subscription(kind, Heartbeat.decode, from_beginning, idle_s))

    def checkpoint_consumer(
        self, *, from_beginning: bool = True, idle_s: float | None = None
    ) -> AsyncGenerator[ConsumerRecord[Checkpoint], None]:
        """Consumes the checkpoints of all clusters upstream, with the arguments of heartbeat_consumer."""
        kind = self.replication_policy.is_checkpoints_topic
        return self._consumer(Subscription(kind, Checkpoint.checked, from_beginning, idle_s))

    async def _consumer(self, subscription: Subscription[T]) -> AsyncGenerator[ConsumerRecord[T], None]:
        async with aclosing(consumed(self._cluster, subscription)) as batches:
            async for batch in batches:
                for record in batch:
                    yield record

    async def _topics(self) -> list[str]:
        return await self._cluster.topic_names()
