"""Which replica a partition is fetched from: the one that its leader names for our rack (KIP-392), else the leader."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from bridge.model.values import TopicPartition

_WITHOUT_RACK_SECONDS = 10.0
"""For which fetches from a leader carry no rack after a replica that it named has failed us. A leader that gets our
rack sends no records, but names the replica again, for as long as it takes it to be alive."""


class _Preferred(NamedTuple):
    node: int
    until: float


class PreferredReplicas:
    """A preferred replica is kept for `lease` seconds, then the leader is asked again, as Java's consumer does each
    metadata.max.age.ms. Any error of a replica sends us back to the leader, which alone decides: a follower that lags
    knows less of the log, and may have an end below what was fetched."""

    def __init__(self, rack: str, lease: float, now: Callable[[], float]) -> None:
        self._rack, self._lease, self._now = rack, lease, now
        self._preferred: dict[TopicPartition, _Preferred] = {}
        self._failed: set[TopicPartition] = set()
        self._without_rack: dict[int, float] = {}
        """Until when, by leader."""

    def forget(self) -> None:
        self._preferred.clear()
        self._failed.clear()

    def rack(self, node: int) -> str:
        """Returns the rack that a fetch from the node carries."""
        return "" if self._now() < self._without_rack.get(node, 0.0) else self._rack

    def follow(self, tp: TopicPartition, node: int) -> None:
        """The leader has named the node."""
        self._preferred[tp] = _Preferred(node, self._now() + self._lease)

    def follows(self, tp: TopicPartition) -> bool:
        """Whether it is fetched from a replica that its leader has named."""
        return tp in self._preferred

    def fail(self, tp: TopicPartition) -> None:
        """Back to the leader, if it was fetched from another."""
        if self._preferred.pop(tp, None) is not None:
            self._failed.add(tp)

    def to_leader(self, tp: TopicPartition, leader: int) -> None:
        """It is fetched from its leader from now on."""
        self._preferred.pop(tp, None)
        if tp in self._failed:
            self._failed.discard(tp)
            self._without_rack[leader] = self._now() + _WITHOUT_RACK_SECONDS

    def expired(self) -> list[TopicPartition]:
        """Those whose leader is to be asked again."""
        now = self._now()
        return [tp for tp, preferred in self._preferred.items() if preferred.until <= now]

    @property
    def next_expiry(self) -> float:
        """When the next of them is."""
        return min((preferred.until for preferred in self._preferred.values()), default=float("inf"))
