"""Which replica a partition is fetched from: the one that its leader names for our rack (KIP-392), else the leader."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from bridge.model.values import TopicPartition

_WITHOUT = 10.0
"""Seconds for which a leader is not told our rack after a replica that it named has failed us. A leader that is told
hands out no records, but names the replica again, for as long as it takes it to be alive."""


class _Named(NamedTuple):
    node: int
    until: float


class Replicas:
    """A replica is kept for `lease` seconds, then the leader is asked again, as Java's consumer does each
    metadata.max.age.ms. Whatever is wrong at a replica sends us back to the leader, whose word alone counts: a follower
    that lags knows less of the log, and may have an end below what was fetched."""

    def __init__(self, rack: str, lease: float, now: Callable[[], float]) -> None:
        self._rack, self._lease, self._now = rack, lease, now
        self._named: dict[TopicPartition, _Named] = {}
        self._failed: set[TopicPartition] = set()
        self._untold: dict[int, float] = {}

    def forget(self) -> None:
        self._named.clear()
        self._failed.clear()

    def rack(self, node: int) -> str:
        """What the node is told in a fetch."""
        return "" if self._now() < self._untold.get(node, 0.0) else self._rack

    def follow(self, tp: TopicPartition, node: int) -> None:
        """The leader has named the node."""
        self._named[tp] = _Named(node, self._now() + self._lease)

    def follows(self, tp: TopicPartition) -> bool:
        """Whether it is fetched from a replica that was named."""
        return tp in self._named

    def fail(self, tp: TopicPartition) -> None:
        """Back to the leader, if it was fetched from another."""
        if self._named.pop(tp, None) is not None:
            self._failed.add(tp)

    def to_leader(self, tp: TopicPartition, leader: int) -> None:
        """It is fetched from its leader from now on."""
        self._named.pop(tp, None)
        if tp in self._failed:
            self._failed.discard(tp)
            self._untold[leader] = self._now() + _WITHOUT

    def over(self) -> list[TopicPartition]:
        """Those whose leader is to be asked again."""
        now = self._now()
        return [tp for tp, named in self._named.items() if named.until <= now]

    @property
    def next_end(self) -> float:
        """When the next of them is."""
        return min((named.until for named in self._named.values()), default=float("inf"))
