"""Where groups were committed when the source was last asked, for as long as it does not answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bridge.model.values import Committed, TopicPartition

MOST = 200_000
"""Offsets that are kept, of some 150 bytes each. Groups beyond that have only their last verdicts."""


class LastCommits:
    """By group. Nothing here is needed to be right: after a restart it is found again, once the source answers."""

    def __init__(self) -> None:
        self._groups: dict[str, Mapping[TopicPartition, Committed]] = {}
        self._count = 0

    def keep(self, group: str, offsets: Mapping[TopicPartition, Committed]) -> None:
        self.forget(group)
        if offsets and self._count + len(offsets) <= MOST:
            self._groups[group] = offsets
            self._count += len(offsets)

    def forget(self, group: str) -> None:
        self._count -= len(self._groups.pop(group, ()))

    def of(self, groups: Sequence[str]) -> dict[str, Mapping[TopicPartition, Committed]]:
        """Those of the groups that are known."""
        return {group: self._groups[group] for group in groups if group in self._groups}
