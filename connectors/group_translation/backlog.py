"""How many records of the source are not on the target yet, and since when. Pure.

What is missing would be lost if the source were gone now. Its age is bounded by looks at the source's end: whatever
lies beyond an end that was seen at a time was appended after it.

Whether copying goes on is seen by the same looks, whoever copies: records are missing, and none of them was copied.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from bridge.model.values import Bounds, TopicPartition
from bridge.translation.records.partition_cache import PartitionMemory
from bridge.translation.runs.runs import OffsetRun
from connectors.base import Missing
from connectors.group_translation.verdict_cache import PairIdentity

_MOST_LOOKS = 64
"""Looks that are kept of a partition; of more every second one goes, which makes an age longer, never shorter."""

Behind = tuple[int, int | None]
"""The end of a source partition, and up to where it is copied: None for not known."""


def copied_to(
    last: OffsetRun | None, memory: PartitionMemory, identity: PairIdentity, source: Bounds, target: Bounds
) -> int | None:
    """Up to where a source partition is copied for certain, None for not known.

    That is what the mirror's newest run says, or else the source's end, where its last record was found on the target:
    records before that show how far a group has come, not the mirror.
    """
    if last is None:
        seen = memory.tail_seen == (source.end, target.end)
        return memory.reached if memory.reached >= source.end or seen else None
    ids = (last.source_topic_id, identity.source_id), (last.target_topic_id, identity.target_id)
    if any(then and now and then != now for then, now in ids):
        return 0  # a topic was made again, and nothing of it is copied yet
    return last.position if last.downstream_end <= target.end else None


class Backlog:
    """Of the partitions that a connector's groups read."""

    def __init__(self) -> None:
        self._looks: dict[TopicPartition, deque[tuple[int, int]]] = {}
        """Times (ms) with the source's end then, oldest first: from the newest on that is copied whole."""
        self._last_missing: dict[TopicPartition, Missing] = {}
        self._came: dict[TopicPartition, tuple[int, int]] = {}
        """Up to where a partition was copied, and when records beyond that were seen first."""

    @property
    def missing(self) -> Mapping[TopicPartition, Missing]:
        """What is missing of each partition, as of the last round."""
        return self._last_missing

    def after(
        self, at_ms: int, behind: Mapping[TopicPartition, Behind]
    ) -> dict[TopicPartition, Missing | None]:
        """What has changed with a round that began at `at_ms` and has seen this; None for what it did not look at."""
        now = {tp: self._missing(tp, at_ms, *behind[tp]) for tp in behind}
        changed: dict[TopicPartition, Missing | None] = {
            tp: missing for tp, missing in now.items() if self._last_missing.get(tp) != missing
        }
        for tp in self._last_missing.keys() - now.keys():
            changed[tp] = None
            self._forget(tp)
        self._last_missing = now
        return changed

    def _missing(self, tp: TopicPartition, at_ms: int, end: int, copied_to: int | None) -> Missing:
        if copied_to is None:
            self._forget(tp)
            return Missing()
        looks = self._looks.setdefault(tp, deque())
        at, seen_end = looks[-1] if looks else (at_ms, end)
        if end < seen_end or at_ms < at:
            # Cut back or made again: offsets mean others now. Or the clock was set back: times do.
            self._forget(tp)
            looks = self._looks.setdefault(tp, deque())
        looks.append((at_ms, end))
        while len(looks) > 1 and looks[1][1] <= copied_to:
            looks.popleft()
        if len(looks) > _MOST_LOOKS:
            self._looks[tp] = looks = deque([looks[0], *list(looks)[1::2]])
        records = max(0, end - copied_to)
        if not records:
            self._came.pop(tp, None)
            return Missing(0)
        since_ms, covered = looks[0]
        came, seen_ms = self._came.get(tp, (-1, at_ms))
        if came != copied_to:
            self._came[tp] = copied_to, at_ms
        stuck_ms = seen_ms if came == copied_to else -1
        return Missing(records, since_ms if covered <= copied_to else -1, stuck_ms)

    def _forget(self, tp: TopicPartition) -> None:
        self._looks.pop(tp, None)
        self._came.pop(tp, None)
