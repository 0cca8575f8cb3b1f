"""The Protocols that connectors need of the outside: two clusters, and a check of client properties.

All calls are asyncio coroutines of the rounds process. One bad group, topic or partition never spoils the others:
results that can fail singly are `value | KafkaFailure` per key; a whole call raises KafkaFailure only when the
cluster as a whole did not answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from bridge.errors import ConfigError, KafkaFailure
from bridge.translation.lookups import Need, Window
from bridge.translation.model import (
    Bounds,
    Committed,
    GroupListing,
    GroupState,
    Side,
    TopicInfo,
    TopicPartition,
)


class Cluster(Protocol):
    """One cluster; its clients are shared with every other connector of the same settings."""

    async def list_groups(self) -> Mapping[str, GroupListing]: ...

    async def committed(
        self, groups: Sequence[str]
    ) -> Mapping[str, Mapping[TopicPartition, Committed] | KafkaFailure]:
        """All committed offsets of each group. A group that does not exist has none."""

    async def group_states(self, groups: Sequence[str]) -> Mapping[str, GroupState]:
        """State asked now, one by one (not the listing): NOT_FOUND when there is no such group, UNKNOWN on trouble."""

    async def topics(self, names: Sequence[str]) -> Mapping[str, TopicInfo | KafkaFailure]: ...

    async def bounds(
        self, partitions: Sequence[TopicPartition], *, committed_only: bool
    ) -> Mapping[TopicPartition, Bounds | KafkaFailure]: ...

    async def answer(
        self, needs: Mapping[TopicPartition, Sequence[Need]], *, committed_only: bool
    ) -> Mapping[TopicPartition, Mapping[Need, Window | int | KafkaFailure | None]]:
        """Look-ups of translation, sharing fetches: a Window for a Read, an offset or None for a FindTime."""

    def forget_windows(self) -> None:
        """Lets go of what look-ups have read; called at the end of a round."""

    @property
    def fetches(self) -> int:
        """Fetch requests sent so far."""

    async def alter(
        self, group: str, offsets: Mapping[TopicPartition, Committed]
    ) -> Mapping[TopicPartition, KafkaFailure | None]:
        """Commits; result per partition, None when written."""


class Clusters(Protocol):
    """Hands out clusters; equal settings share clients."""

    def open(self, side: Side, props: Mapping[str, str]) -> Cluster:
        """`props` is the connector's whole configuration; the side's prefixes are resolved as stock does (mm2 1.1)."""

    async def release(self, cluster: Cluster) -> None: ...


class ClientCheck(Protocol):
    """Says what of the client properties can't be honoured. No I/O but reading key store files."""

    def check(self, props: Mapping[str, str]) -> Sequence[ConfigError]: ...
