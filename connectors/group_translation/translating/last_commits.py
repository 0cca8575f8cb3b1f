"""Keeps where groups were committed when the source last answered, for rounds in which it does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bridge.model.values import Committed
from connectors.group_translation.translating.partition_pairs import PartitionPair

MOST = 200_000
"""Offsets that are kept at most, of some 150 bytes each. Groups beyond that are not ready while the source is away."""


class LastCommits:
    """Committed offsets by group. No verdict needs them to be right: a restart loses them until the source answers."""

    def __init__(self) -> None:
        self._groups: dict[str, Mapping[PartitionPair, Committed]] = {}
        self._count = 0

    def keep(self, group: str, offsets: Mapping[PartitionPair, Committed]) -> None:
        self.forget(group)
        if offsets and self._count + len(offsets) <= MOST:
            self._groups[group] = offsets
            self._count += len(offsets)

    def forget(self, group: str) -> None:
        self._count -= len(self._groups.pop(group, ()))

    def of(self, groups: Sequence[str]) -> dict[str, Mapping[PartitionPair, Committed]]:
        """Returns the offsets of those of the groups that it has."""
        return {group: self._groups[group] for group in groups if group in self._groups}
