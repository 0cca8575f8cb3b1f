"""Keeps the partitions that a slice does not copy now, while it copies the others: since when, why, and when each is
tried again. Outlives the transactions, and by its reports the slice. Pure but for the times that it is told."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from bridge.backoff import Backoff
from bridge.model.partition_states import PartitionState, PartitionStatus
from bridge.model.values import TopicPartition

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0
_LONGEST_TO_HEAL = 15.0
"""Seconds until something is tried again that time alone mends: a broker that is back is to be used."""
_LASTS = 3
"""Tries in a row that fail alike, until it counts as a state that lasts."""


@dataclass(slots=True)
class _Failed:
    status: PartitionStatus
    heals: bool
    unopened: bool = False
    """Whether it is not known where it begins."""
    tries: int = 0
    due: float = 0.0
    """When it is tried again (monotonic seconds)."""
    backoff: Backoff = field(default_factory=lambda: Backoff(_FIRST_PAUSE, _LONGEST_PAUSE))


class FailedPartitions:
    def __init__(self) -> None:
        self._failed: dict[TopicPartition, _Failed] = {}
        self._before: dict[TopicPartition, PartitionStatus] = {}
        self.changed = False
        """Whether the statuses have changed since they were last asked for."""

    def recall(self, statuses: Iterable[PartitionStatus]) -> None:
        """Takes what an earlier slice has reported: what fails in the same way again has failed since then."""
        self._before |= {each.source: each for each in statuses}

    def fail(
        self,
        tp: TopicPartition,
        why: str,
        now: float,
        now_ms: int,
        *,
        way_out: str = "",
        offsets: tuple[int, int] = (-1, -1),
        heals: bool = False,
        unopened: bool = False,
        lasts: bool = False,
    ) -> None:
        """Notes that the partition can't be copied now. `offsets`: where it stands, and where what can't be copied
        ends; -1 for not known. `heals`: time alone may mend that; `unopened`: it is not known where it begins; `lasts`:
        other tries as they are made for what is not certain would show nothing new."""
        known = self._failed.get(tp)
        if known is None or known.status.why != why:
            known = self._begin(tp, why, now_ms, known)
        pause, known.unopened = known.backoff.next(), unopened
        known.heals, known.due = heals, now + (min(pause, _LONGEST_TO_HEAL) if heals else pause)
        known.tries = _LASTS if lasts else known.tries + 1
        failed = known.tries >= _LASTS and not heals
        state = PartitionState.FAILED if failed else PartitionState.WAITING
        offset, end = offsets
        self._set(known, known.status._replace(state=state, way_out=way_out, offset=offset, end=end))

    def note(self, tp: TopicPartition, why: str, now_ms: int) -> None:
        """Notes that the partition can't be copied now, and that whoever fetches it tries again: it is never due."""
        known = self._failed.get(tp)
        if known is None or known.status.why != why:
            known = self._begin(tp, why, now_ms, known)
        known.heals, known.due = True, math.inf

    def release(self, tp: TopicPartition) -> None:
        """Has the partition tried again at once."""
        if tp in self._failed:
            self._failed[tp].due = 0.0

    def open(self, tp: TopicPartition) -> None:
        """Notes that it is known where the partition begins: all that waited for that is copied."""
        if tp in self._failed and self._failed[tp].unopened:
            self.heal(tp)

    def holds(self, tp: TopicPartition) -> bool:
        """Whether nobody fetches the partition until it is due."""
        known = self._failed.get(tp)
        return known is not None and known.tries > 0

    def _begin(self, tp: TopicPartition, why: str, now_ms: int, known: _Failed | None) -> _Failed:
        before = self._before.pop(tp, None)
        alike = before is not None and before.why == why
        since_ms = before.since_ms if before is not None and alike else now_ms
        begun = _Failed(PartitionStatus(*tp, PartitionState.WAITING, since_ms, why), heals=False)
        if before is not None and alike and before.state is PartitionState.FAILED:
            begun.tries = _LASTS
        if known is not None:
            begun.backoff = known.backoff
        self._failed[tp], self.changed = begun, True
        return begun

    def _set(self, known: _Failed, status: PartitionStatus) -> None:
        self.changed = self.changed or status != known.status
        known.status = status

    def heal(self, tp: TopicPartition) -> None:
        """Notes that the partition is copied again."""
        if self._failed.pop(tp, None) is not None:
            self.changed = True

    def lasts(self, tp: TopicPartition) -> bool:
        """Whether tries have failed alike for long enough to count as a state that lasts; nothing does that heals."""
        known = self._failed.get(tp)
        return known is not None and known.status.state is PartitionState.FAILED

    def take_due(self, now: float) -> list[TopicPartition]:
        """Returns the partitions that are to be tried again now. Each is due once, until it fails again."""
        due = [tp for tp, each in self._failed.items() if each.due <= now]
        for tp in due:
            self._failed[tp].due = math.inf
        return due

    def lose_tries(self, now: float) -> None:
        """Has partitions tried again, after a pause, whose last try was made by a copier that is gone: an error of
        another kind may have ended it before anything was known of them."""
        for each in self._failed.values():
            if each.tries and each.due == math.inf:
                each.due = now + each.backoff.next()

    def __contains__(self, tp: object) -> bool:
        return tp in self._failed

    def take_statuses(self) -> list[PartitionStatus]:
        """Returns the statuses for a report."""
        self.changed = False
        return sorted(each.status for each in self._failed.values())
