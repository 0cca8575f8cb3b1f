"""Pauses between attempts that fail, growing as those of Kafka's clients do (`ExponentialBackoff`)."""

from __future__ import annotations

import random
from collections.abc import Iterator

JITTER = 0.2
"""Share by which a pause is shorter or longer at random, so that clients that failed together retry apart."""


class Backoff:
    """Seconds to wait: `first`, then twice the pause before, never more than `longest`; `reset` after a success."""

    def __init__(self, first: float, longest: float) -> None:
        self._first = first
        self._longest = longest
        self._next = first

    def next(self) -> float:
        """The pause before the next attempt."""
        pause, self._next = self._next, min(2 * self._next, self._longest)
        spread = random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311  keeps no secret
        return min(self._longest, pause * spread)

    def reset(self) -> None:
        self._next = self._first


def pauses(first: float, longest: float, retries: int) -> Iterator[float]:
    """The pauses before so many retries."""
    backoff = Backoff(first, longest)
    return (backoff.next() for _ in range(retries))
