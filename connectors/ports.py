"""Defines the Protocols that connectors use: clusters, pipelines, and a check of client properties.

All calls are asyncio coroutines of the rounds process. One bad group, topic or partition never spoils the others:
results that can fail singly are `value | KafkaFailure` per key; a whole call raises KafkaFailure only when the
cluster as a whole did not answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from typing import Protocol

from bridge.errors import ConfigError, KafkaFailure
from bridge.model.copying import Copied, CopySample, PipelineSpec, PipelineStatus
from bridge.model.key_rules import KeyRule, Use
from bridge.model.lookups import LookupResult, Need
from bridge.model.partition_states import Skip
from bridge.model.topics import ConfigEntry, NewTopic, TopicAcl
from bridge.model.values import (
    Bounds,
    Committed,
    GroupListing,
    GroupState,
    Side,
    TailPart,
    TopicInfo,
    TopicPartition,
)


class Tail(Protocol):
    """Reads partition 0 of an internal topic from its beginning, and follows it. Compaction on the way is no restart:
    the log then only has holes."""

    @property
    def topic(self) -> str: ...

    async def read(self) -> TailPart:
        """Reads the next records, about a megabyte of them, without waiting for any. Raises KafkaFailure; UNKNOWN_TOPIC
        when there is no such topic (the next read tries again, from the beginning)."""


class TopicAdmin(Protocol):
    """Creates and alters topics and ACLs for the source connector. Results are by topic or rule; a whole call raises
    KafkaFailure."""

    async def create_topics(self, topics: Sequence[NewTopic]) -> Mapping[str, KafkaFailure | None]:
        """Creates topics; None where one was created, or exists. Brokers may learn of it a moment later only."""

    async def create_partitions(self, totals: Mapping[str, int]) -> Mapping[str, KafkaFailure | None]:
        """Grows topics to these numbers of partitions; one that has as many already is no failure."""

    async def configs(self, topics: Sequence[str]) -> Mapping[str, Mapping[str, ConfigEntry] | KafkaFailure]:
        """Returns every config of each topic, defaults too."""

    async def alter_configs(
        self, changes: Mapping[str, Mapping[str, str | None]]
    ) -> Mapping[str, KafkaFailure | None]:
        """Sets overrides, by topic; None removes one. Others stay as they are."""

    async def acls(self) -> Set[TopicAcl] | None:
        """Returns all ACLs of topics, of all pattern types; None where the cluster has no authorizer."""

    async def create_acls(self, acls: Sequence[TopicAcl]) -> Mapping[TopicAcl, KafkaFailure | None]: ...

    async def delete_acls(self, acls: Sequence[TopicAcl]) -> Mapping[TopicAcl, KafkaFailure | None]: ...


class Cluster(Protocol):
    """One cluster; its clients are shared with every other connector of the same settings."""

    async def list_groups(self) -> Mapping[str, GroupListing]: ...

    async def committed(
        self, groups: Sequence[str], *, right: str = "DESCRIBE"
    ) -> Mapping[str, Mapping[TopicPartition, Committed] | KafkaFailure]:
        """Returns all committed offsets of each group. A group that does not exist has none. `right`: the operation
        that the failure of a refused group says to grant, of those that include DESCRIBE."""

    async def group_states(self, groups: Sequence[str]) -> Mapping[str, GroupState]:
        """Returns the states as described now (not those of the listing): NOT_FOUND when there is no such group,
        UNKNOWN on an error."""

    async def topics(
        self, names: Sequence[str], *, right: str = "READ"
    ) -> Mapping[str, TopicInfo | KafkaFailure]:
        """Describes topics. `right` as above, of a refused topic."""

    async def bounds(
        self, partitions: Sequence[TopicPartition], *, committed_only: bool
    ) -> Mapping[TopicPartition, Bounds | KafkaFailure]: ...

    async def answer(
        self, needs: Mapping[TopicPartition, Sequence[Need]], *, committed_only: bool
    ) -> Mapping[TopicPartition, Mapping[Need, LookupResult | KafkaFailure]]:
        """Carries out look-ups of translation, which share fetches: a Window for a Read, an offset or None for a
        FindTime, a Scanned or None for a Scan."""

    def forget_windows(self) -> None:
        """Drops what look-ups have read; called at the end of a round."""

    @property
    def fetches(self) -> int:
        """Fetch requests sent so far."""

    async def alter(
        self, group: str, offsets: Mapping[TopicPartition, Committed]
    ) -> Mapping[TopicPartition, KafkaFailure | None]:
        """Commits offsets; the result is per partition, None when written."""

    async def cluster_id(self) -> str:
        """Returns the id that the cluster has for good."""

    async def topic_names(self) -> Sequence[str]:
        """Returns all topics that we may describe, internal ones included."""

    async def create_compacted_topic(self, name: str, replication_factor: int) -> KafkaFailure | None:
        """Creates a topic of one partition with cleanup.policy=compact and nothing else, as
        MirrorUtils.createSinglePartitionCompactedTopic does. None when it was created, exists, or we may not create it
        (stock §1.8): then somebody else has to."""

    async def append(self, topic: str, records: Sequence[tuple[bytes | None, bytes | None]]) -> None:
        """Writes keys and values to partition 0 of a state topic, in this order, compressed; acknowledged by all
        in-sync replicas when it returns. Raises KafkaFailure; then some may be written, for each of them stands for its
        key."""

    def tail(self, topic: str, *, committed_only: bool = False) -> Tail:
        """Opens a topic to be followed. `committed_only`: without records of open and aborted transactions."""

    @property
    def topic_admin(self) -> TopicAdmin: ...


class Clusters(Protocol):
    """Opens clusters; equal settings share clients."""

    def open(self, side: Side, props: Mapping[str, str]) -> Cluster:
        """Opens a cluster. `props` is the connector's whole configuration; the side's prefixes are resolved as stock
        does (stock §1.1)."""

    async def release(self, cluster: Cluster) -> None: ...


class Pipeline(Protocol):
    """Copies for one connector, in a driver process of its own that is started again when it dies."""

    def assign(self, partitions: Sequence[Copied]) -> None:
        """Copies exactly these from now on; those that stay go on with at most a short break."""

    def release(self, topics: Sequence[str]) -> None:
        """Ends the connector's claims to these source topics, as far as it does not copy them: another one may then."""

    def skip(self, skip: Skip) -> None:
        """Leaves offsets of a partition out, if it still stands where the request says."""

    @property
    def status(self) -> PipelineStatus:
        """The last status that the driver has sent."""

    def drain_samples(self) -> Sequence[CopySample]:
        """Returns what was copied since the last call, at most one of each partition."""

    async def stop(self) -> None:
        """Commits what is copied and ends, within a time limit. Whatever is not committed by then was not copied."""


class Pipelines(Protocol):
    """Starts pipelines."""

    def start(self, spec: PipelineSpec) -> Pipeline: ...


class ClientCheck(Protocol):
    """Checks which client properties can't be honoured. No I/O but reading the files that they name."""

    def refused(self, props: Mapping[str, str]) -> Sequence[ConfigError]:
        """Returns an error for everything that the configuration names and the service does not allow. None of it is
        loaded, opened or connected to."""
        return ()

    def check(self, props: Mapping[str, str]) -> Sequence[ConfigError]: ...

    def check_producer(self, side: Side, props: Mapping[str, str]) -> Sequence[ConfigError]:
        """Checks the properties of a producer to that side; most connectors leave writing to Connect."""

    def rule(self, use: Use, name: str) -> KeyRule | None:
        """Returns how a client for that use treats a property; None for a name that no Kafka client has."""

    @property
    def properties(self) -> Collection[str]:
        """Names that Kafka's clients have."""
