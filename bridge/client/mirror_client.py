"""MirrorClient: one cluster, asked what MirrorMaker does to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import TracebackType
from typing import Self, overload

from bridge.client.checkpoints import Offsets, read_offsets
from bridge.client.config import read_config
from bridge.kafka.cluster import KafkaCluster
from bridge.mm2 import upstream_topics
from bridge.mm2.java_regex import JavaPattern
from bridge.mm2.replication_policy import ReplicationPolicy
from bridge.model.values import Committed, Side, TopicPartition

Pattern = re.Pattern[str] | JavaPattern


class MirrorClient:
    """For use in one event loop; close it, or use it as `async with`. Calls raise KafkaFailure.

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
        """The fewest hops from that cluster to this one: 2 from A in A->B->C, on C. -1 when nothing comes from it."""
        return upstream_topics.replication_hops(self.replication_policy, await self._topics(), alias)

    async def heartbeat_topics(self) -> set[str]:
        return upstream_topics.heartbeat_topics(self.replication_policy, await self._topics())

    async def checkpoint_topics(self) -> set[str]:
        return upstream_topics.checkpoint_topics(self.replication_policy, await self._topics())

    async def upstream_clusters(self) -> set[str]:
        """Aliases of all clusters whose heartbeats arrive here, however many hops away."""
        return upstream_topics.upstream_clusters(self.replication_policy, await self._topics())

    async def remote_topics(self, source: str | None = None) -> set[str]:
        """Topics that are mirrored to here; only those directly from `source` if that is given."""
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
        """Where a group of the cluster `alias` resumes here, by its checkpoints: offsets by remote partition. A pattern
        has to match whole group ids, and answers offsets by group; compile_java in bridge.mm2.java_regex makes
        one of a Java regex. What is read within `timeout_s` seconds is answered (see read_offsets).
        """
        tail = self._cluster.tail(self.replication_policy.checkpoints_topic(alias))
        if not isinstance(group, str):
            return await read_offsets(tail, group.fullmatch, timeout_s)
        return (await read_offsets(tail, group.__eq__, timeout_s)).get(group, {})

    async def _topics(self) -> list[str]:
        return await self._cluster.topic_names()
