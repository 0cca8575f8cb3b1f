"""Keeps the partitions that a slice does not copy now, while it copies the others: since when, why, and when each is
tried again. Outlives the transactions, not the slice. Pure but for the time that it is told."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bridge.backoff import Backoff
from bridge.model.values import TopicPartition

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0
_LASTS = 3
"""Tries in a row that fail alike, until it counts as a state that lasts."""
_NAMED = 3
"""Partitions that a report names."""


@dataclass(slots=True)
class _Failed:
    why: str
    heals: bool
    tries: int
    due: float
    """When it is tried again (monotonic seconds)."""
    backoff: Backoff


class FailedPartitions:
    def __init__(self) -> None:
        self._failed: dict[TopicPartition, _Failed] = {}
        self.changed = False
        """Whether `text` has changed since the last `tell`."""

    def fail(self, tp: TopicPartition, why: str, now: float, *, heals: bool = False) -> None:
        """Notes that the partition can't be copied now. `heals`: time alone may mend that."""
        known = self._failed.get(tp)
        backoff = known.backoff if known is not None else Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        tries = known.tries + 1 if known is not None and known.why == why else 1
        self.changed = self.changed or known is None or known.why != why
        self._failed[tp] = _Failed(why, heals, tries, now + backoff.next(), backoff)

    def heal(self, tp: TopicPartition) -> None:
        """Notes that the partition is copied again."""
        if self._failed.pop(tp, None) is not None:
            self.changed = True

    def lasts(self, tp: TopicPartition) -> bool:
        """Whether tries have failed alike for long enough to count as a state that lasts; nothing does that heals."""
        known = self._failed.get(tp)
        return known is not None and known.tries >= _LASTS and not known.heals

    @property
    def all_last(self) -> bool:
        return all(map(self.lasts, self._failed))

    def take_due(self, now: float) -> list[TopicPartition]:
        """Returns the partitions that are to be tried again now. Each is due once, until it fails again."""
        due = [tp for tp, each in self._failed.items() if each.due <= now]
        for tp in due:
            self._failed[tp].due = math.inf
        return due

    def __contains__(self, tp: object) -> bool:
        return tp in self._failed

    def __bool__(self) -> bool:
        return bool(self._failed)

    def tell(self) -> str:
        """Returns what is wrong with which partitions, for a report; "" for nothing."""
        self.changed = False
        failed = sorted(self._failed.items())
        texts = [f"{topic}-{number}: {each.why}" for (topic, number), each in failed[:_NAMED]]
        more = len(failed) - len(texts)
        return "; ".join([*texts, *([f"and {more} partition(s) more"] if more else [])])
