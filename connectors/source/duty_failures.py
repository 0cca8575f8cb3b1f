"""Counts the failures of one duty's rounds: when to try again, which ones last, and whether one is permanent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from bridge.backoff import Backoff
from bridge.errors import KafkaFailure, KafkaFault

FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS = 0.5, 30.0
"""Seconds between a round with failures and the next, doubling."""
_LASTING = 2
_PERMANENT_AFTER = 3
"""Rounds in a row with the same failure: credentials or ACLs may be about to change."""


class DutyFailures:
    """The failures of one duty; `permanent`: the faults that an operator has to correct when they last (R6)."""

    def __init__(self, permanent: Collection[KafkaFault]) -> None:
        self._permanent = permanent
        self._counts: Counter[str] = Counter()
        self._failures: dict[str, KafkaFailure] = {}
        self._backoff = Backoff(FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS)
        self.pause = 0.0
        """Seconds until the next round, after one with failures."""

    def __bool__(self) -> bool:
        return bool(self._counts)

    def record(self, failures: Iterable[KafkaFailure]) -> None:
        """Takes the failures of a round; earlier ones that did not recur are over."""
        self._failures = {str(failure): failure for failure in failures}
        self._counts = Counter({text: self._counts[text] + 1 for text in self._failures})
        if self._failures:
            self.pause = self._backoff.next()
        else:
            self._backoff.reset()

    @property
    def lasting(self) -> list[str]:
        return [text for text, count in self._counts.items() if count >= _LASTING]

    @property
    def failure(self) -> KafkaFailure | None:
        for text, count in self._counts.items():
            if count >= _PERMANENT_AFTER and (failure := self._failures[text]).fault in self._permanent:
                return failure
        return None
