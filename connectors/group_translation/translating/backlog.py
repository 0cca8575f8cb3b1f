"""Counts the records of the source that are not on the target yet, and since when. Pure.

Those records would be lost if the source were gone now. Their age is bounded by observations of the source's end:
whatever lies beyond an end that was seen at a time was appended after it.

The same observations show whether copying goes on, whoever copies: it does not, while records are missing and none of
them was copied.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from bridge.model.values import TopicPartition
from connectors.base import Missing

_MOST_OBSERVATIONS = 64
"""Observations kept of a partition; of more every second one goes, which makes an age longer, never shorter."""

_CLOCK_STEP_MS = 1_000
"""The wall clock was set where it differs by more from the monotonic one."""

Behind = tuple[int, int | None]
"""The end of a source partition, and up to where it is copied: None for not known."""


class _Stuck(NamedTuple):
    """Up to where a partition was copied, and when records beyond that were seen first (ms), by the wall clock and by
    the monotonic one: only that says for how long."""

    copied_to: int
    at_ms: int
    monotonic_ms: int


class Backlog:
    """The missing records of the partitions that a connector's groups read."""

    def __init__(self) -> None:
        self._observed: dict[TopicPartition, deque[tuple[int, int]]] = {}
        """Times (ms) with the source's end then, oldest first; the first one is the newest end that is copied whole."""
        self._last_missing: dict[TopicPartition, Missing] = {}
        self._stuck: dict[TopicPartition, _Stuck] = {}

    @property
    def missing(self) -> Mapping[TopicPartition, Missing]:
        """The missing records of each partition, as of the last round."""
        return self._last_missing

    def observations(self, tp: TopicPartition) -> int:
        """How many ends of the source's partition are remembered."""
        return len(self._observed.get(tp, ()))

    def after(
        self, at_ms: int, behind: Mapping[TopicPartition, Behind], monotonic_ms: int | None = None
    ) -> dict[TopicPartition, Missing | None]:
        """Returns what a round changed that began at `at_ms` and has seen `behind`; None for partitions it did not
        see. `monotonic_ms`: the beginning by the monotonic clock; None where the wall clock is never set."""
        monotonic_ms = at_ms if monotonic_ms is None else monotonic_ms
        now = {tp: self._missing(tp, at_ms, monotonic_ms, *behind[tp]) for tp in behind}
        changed: dict[TopicPartition, Missing | None] = {
            tp: missing for tp, missing in now.items() if self._last_missing.get(tp) != missing
        }
        for tp in self._last_missing.keys() - now.keys():
            changed[tp] = None
            self._forget(tp)
        self._last_missing = now
        return changed

    def _missing(
        self, tp: TopicPartition, at_ms: int, monotonic_ms: int, end: int, copied_to: int | None
    ) -> Missing:
        if copied_to is None:
            self._forget(tp)
            return Missing()
        observed = self._observed.setdefault(tp, deque())
        at, seen_end = observed[-1] if observed else (at_ms, end)
        if end < seen_end or at_ms < at:
            # The log was truncated or the topic created again, so offsets are other records now; or the clock was set
            # back.
            self._observed[tp] = observed = deque()
            if end < seen_end:
                self._stuck.pop(tp, None)
        observed.append((at_ms, end))
        while len(observed) > 1 and observed[1][1] <= copied_to:
            observed.popleft()
        if len(observed) > _MOST_OBSERVATIONS:
            self._observed[tp] = observed = deque([observed[0], *list(observed)[1::2]])
        records = max(0, end - copied_to)
        if not records:
            self._stuck.pop(tp, None)
            return Missing(0)
        since_ms, covered = observed[0]
        return Missing(
            records,
            since_ms if covered <= copied_to else -1,
            self._stuck_since_ms(tp, at_ms, monotonic_ms, copied_to),
        )

    def _stuck_since_ms(self, tp: TopicPartition, at_ms: int, monotonic_ms: int, copied_to: int) -> int:
        stuck = self._stuck.get(tp)
        if stuck is None or stuck.copied_to != copied_to:
            self._stuck[tp] = _Stuck(copied_to, at_ms, monotonic_ms)
            return -1
        by_monotonic_ms = at_ms - (monotonic_ms - stuck.monotonic_ms)
        if abs(by_monotonic_ms - stuck.at_ms) > _CLOCK_STEP_MS:
            self._stuck[tp] = stuck = stuck._replace(at_ms=by_monotonic_ms)
        return stuck.at_ms

    def _forget(self, tp: TopicPartition) -> None:
        self._observed.pop(tp, None)
        self._stuck.pop(tp, None)
