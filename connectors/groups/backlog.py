"""How many records of the source are not on the target yet, and since when. Pure.

What is missing would be lost if the source were gone now. Its age is bounded by looks at the source's end: whatever
lies beyond an end that was seen at a time was appended after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from bridge.translation.model import TopicPartition
from connectors.base import Missing

_MOST_LOOKS = 64
"""Looks that are kept of a partition; of more every second one goes, which makes an age longer, never shorter."""

Behind = tuple[int, int | None]
"""The end of a source partition, and up to where it is copied: None for not known."""


class Backlog:
    """Of the partitions that a connector's groups read."""

    def __init__(self) -> None:
        self._looks: dict[TopicPartition, deque[tuple[int, int]]] = {}
        """Times (ms) with the source's end then, oldest first: from the newest on that is copied whole."""
        self._told: dict[TopicPartition, Missing] = {}

    @property
    def told(self) -> Mapping[TopicPartition, Missing]:
        """What is missing of each partition, as of the last round."""
        return self._told

    def after(
        self, at_ms: int, behind: Mapping[TopicPartition, Behind]
    ) -> dict[TopicPartition, Missing | None]:
        """What has changed with a round that began at `at_ms` and has seen this; None for what it did not look at."""
        now = {place: self._missing(place, at_ms, *behind[place]) for place in behind}
        changed: dict[TopicPartition, Missing | None] = {
            place: missing for place, missing in now.items() if self._told.get(place) != missing
        }
        for place in self._told.keys() - now.keys():
            changed[place] = None
            self._looks.pop(place, None)
        self._told = now
        return changed

    def _missing(self, place: TopicPartition, at_ms: int, end: int, copied_to: int | None) -> Missing:
        if copied_to is None:
            self._looks.pop(place, None)
            return Missing()
        looks = self._looks.setdefault(place, deque())
        if looks and end < looks[-1][1]:
            looks.clear()  # cut back or made again: offsets mean others now
        looks.append((at_ms, end))
        while len(looks) > 1 and looks[1][1] <= copied_to:
            looks.popleft()
        if len(looks) > _MOST_LOOKS:
            self._looks[place] = looks = deque([looks[0], *list(looks)[1::2]])
        records = max(0, end - copied_to)
        if not records:
            return Missing(0)
        since_ms, covered = looks[0]
        return Missing(records, since_ms if covered <= copied_to else -1)
