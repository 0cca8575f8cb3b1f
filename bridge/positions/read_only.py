"""Read-only clusters: reading calls pass through, writing calls raise AssertionError."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bridge.errors import KafkaFailure
from bridge.model.lookups import LookupResult, Need
from bridge.model.values import (
    Bounds,
    Committed,
    GroupListing,
    GroupState,
    Side,
    TopicInfo,
    TopicPartition,
)
from connectors.ports import Cluster, Clusters, Tail, TopicAdmin


class ReadOnlyClusters:
    """Opens clusters of `clusters` for reading."""

    def __init__(self, clusters: Clusters, source_failure: KafkaFailure | None = None) -> None:
        """`source_failure`: raised when groups of the source are listed; the source is then not asked for them."""
        self._clusters, self._source_failure = clusters, source_failure

    def open(self, side: Side, props: Mapping[str, str]) -> ReadOnlyCluster:
        failure = self._source_failure if side is Side.SOURCE else None
        return ReadOnlyCluster(self._clusters.open(side, props), failure)

    async def release(self, cluster: Cluster) -> None:
        await self._clusters.release(cluster.inner if isinstance(cluster, ReadOnlyCluster) else cluster)


class ReadOnlyCluster:
    """See connectors.ports.Cluster. What writes raises AssertionError."""

    def __init__(self, inner: Cluster, failure: KafkaFailure | None = None) -> None:
        """`failure`: what `list_groups`, the first call of a round, raises instead of asking the cluster."""
        self.inner, self._failure = inner, failure

    async def list_groups(self) -> Mapping[str, GroupListing]:
        if self._failure is not None:
            raise self._failure
        return await self.inner.list_groups()

    async def committed(
        self, groups: Sequence[str], *, right: str = "DESCRIBE"
    ) -> Mapping[str, Mapping[TopicPartition, Committed] | KafkaFailure]:
        return await self.inner.committed(groups, right=right)

    async def group_states(self, groups: Sequence[str]) -> Mapping[str, GroupState]:
        return await self.inner.group_states(groups)

    async def topics(
        self, names: Sequence[str], *, right: str = "READ"
    ) -> Mapping[str, TopicInfo | KafkaFailure]:
        return await self.inner.topics(names, right=right)

    async def bounds(
        self, partitions: Sequence[TopicPartition], *, committed_only: bool
    ) -> Mapping[TopicPartition, Bounds | KafkaFailure]:
        return await self.inner.bounds(partitions, committed_only=committed_only)

    async def answer(
        self, needs: Mapping[TopicPartition, Sequence[Need]], *, committed_only: bool
    ) -> Mapping[TopicPartition, Mapping[Need, LookupResult | KafkaFailure]]:
        return await self.inner.answer(needs, committed_only=committed_only)

    def forget_windows(self) -> None:
        self.inner.forget_windows()

    @property
    def fetches(self) -> int:
        return self.inner.fetches

    async def alter(
        self, group: str, offsets: Mapping[TopicPartition, Committed]
    ) -> Mapping[TopicPartition, KafkaFailure | None]:
        raise AssertionError(f"read-only cluster: can't alter offsets of {group}")

    async def cluster_id(self) -> str:
        return await self.inner.cluster_id()

    async def topic_names(self) -> Sequence[str]:
        return await self.inner.topic_names()

    async def create_compacted_topic(self, name: str, replication_factor: int) -> KafkaFailure | None:
        raise AssertionError(f"read-only cluster: can't create topic {name}")

    async def append(self, topic: str, records: Sequence[tuple[bytes | None, bytes | None]]) -> None:
        raise AssertionError(f"read-only cluster: can't write to topic {topic}")

    def tail(self, topic: str, *, committed_only: bool = False) -> Tail:
        return self.inner.tail(topic, committed_only=committed_only)

    @property
    def topic_admin(self) -> TopicAdmin:
        raise AssertionError("read-only cluster: topics can't be administered")
