"""MirrorClient: asks a cluster which topics are mirrored to it, from where, and where groups resume on it."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from types import TracebackType
from typing import Self, overload

from bridge.client.checkpoints import Offsets, read_offsets
from bridge.client.config import read_config
from bridge.client.consumers import ConsumerRecord, Subscription, T, consumed
from bridge.kafka.cluster import KafkaCluster
from bridge.mm2 import upstream_topics
from bridge.mm2.java_regex import JavaPattern
from bridge.mm2.records import Checkpoint, Heartbeat
from bridge.mm2.replication_policy import ReplicationPolicy
from bridge.model.values import Committed, Side, TopicPartition

Pattern = re.Pattern[str] | JavaPattern


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
        return upstream_topics.replication_hops(self.replication_policy, await self._topics(), alias)

    async def heartbeat_topics(self) -> set[str]:
        return upstream_topics.heartbeat_topics(self.replication_policy, await self._topics())

    async def checkpoint_topics(self) -> set[str]:
        return upstream_topics.checkpoint_topics(self.replication_policy, await self._topics())

    async def upstream_clusters(self) -> set[str]:
        """Aliases of all clusters whose heartbeats arrive here, however many hops away."""
        return upstream_topics.upstream_clusters(self.replication_policy, await self._topics())

    async def remote_topics(self, source: str | None = None) -> set[str]:
        """Topics that are mirrored to this cluster; with `source`, only those mirrored directly from it."""
        return upstream_topics.remote_topics(self.replication_policy, await self._topics(), source)

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
