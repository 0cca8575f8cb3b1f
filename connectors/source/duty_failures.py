"""What goes wrong in the rounds of one duty: when to try again, what to say of it, and whether it is for good."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from bridge.backoff import Backoff
from bridge.errors import KafkaFailure, KafkaFault

FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS = 0.5, 30.0
"""Seconds between a round with trouble and the next, doubling."""
_LASTING = 2
_PERMANENT_AFTER = 3
"""Rounds in a row with the same trouble: a credential or a right may be about to change."""


class DutyFailures:
    """Of one duty; `permanent` are the faults that a human has to mend when they stay (R6)."""

    def __init__(self, permanent: Collection[KafkaFault]) -> None:
        self._permanent = permanent
        self._counts: Counter[str] = Counter()
        self._failures: dict[str, KafkaFailure] = {}
        self._backoff = Backoff(FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS)
        self.pause = 0.0
        """Seconds until the next round, after one with trouble."""

    def __bool__(self) -> bool:
        return bool(self._counts)

    def after(self, round_: Iterable[KafkaFailure]) -> None:
        """What a round met with; whatever it did not is over."""
        self._failures = {str(failure): failure for failure in round_}
        self._counts = Counter({said: self._counts[said] + 1 for said in self._failures})
        if self._failures:
            self.pause = self._backoff.next()
        else:
            self._backoff.reset()

    @property
    def lasting(self) -> list[str]:
        return [said for said, count in self._counts.items() if count >= _LASTING]

    @property
    def failure(self) -> KafkaFailure | None:
        for said, count in self._counts.items():
            if count >= _PERMANENT_AFTER and (failure := self._failures[said]).fault in self._permanent:
                return failure
        return None
