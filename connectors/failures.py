"""Counts a cluster's failures in a row: when to try again, when they last, and when they are permanent."""

from __future__ import annotations

from bridge.backoff import Backoff
from bridge.errors import KafkaFailure, KafkaFault

FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS = 0.5, 2.0
"""Seconds between a failure and the next try, doubling; the longest is how late it is seen that a cluster is back."""
_PERMANENT_AFTER = 3
"""Times that credentials must be refused in a row before that counts as permanent: one may be a rotation under way."""
_LASTING = 2


class Failures:
    """The failures of one connector since its last success; true while there are any."""

    def __init__(self) -> None:
        self._backoff = Backoff(FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS)
        self._count = self._refused = 0
        self.pause = 0.0
        """Seconds from the last try to the next."""

    def __bool__(self) -> bool:
        return self._count > 0

    def add(self, failure: KafkaFailure) -> None:
        self._count += 1
        self.pause = self._backoff.next()
        self._refused = self._refused + 1 if failure.fault is KafkaFault.CREDENTIALS else 0

    def clear(self) -> None:
        self._count = self._refused = 0
        self._backoff.reset()

    @property
    def lasting(self) -> bool:
        return self._count >= _LASTING

    @property
    def permanent(self) -> bool:
        """Only credentials that stay wrong are (R6)."""
        return self._refused >= _PERMANENT_AFTER
