"""Decides when the open transaction of a slice is committed."""

from __future__ import annotations

import time
from typing import Protocol

from bridge.pipeline.slices.throttle import backlog_seconds, longest_transaction

_IDLE = 0.25
"""Seconds that a slice without an open transaction waits for records before it looks around."""
_SHORTEST = 0.005
"""Seconds from a transaction's first batch to its commit at least."""
_COMMITS = 2
"""Times as long as the quicker of the last two commits took a transaction lasts at least, where
`transaction.interval.ms` allows it: a commit costs round trips, markers and runs, and nothing is sent meanwhile. One
commit that a busy broker delays makes no long transaction after it."""
_POSITIONS_AFTER = 10.0
"""Seconds after which positions are committed that moved over nothing but control records and aborted ones."""


class Target(Protocol):
    """The target as the producer knows it; in seconds."""

    @property
    def round_trip(self) -> float: ...

    @property
    def timeout(self) -> float:
        """After which the broker aborts a transaction."""


class TransactionClock:
    def __init__(self, interval: float, target: Target) -> None:
        """`interval`: transaction.interval.ms, in seconds."""
        self._interval, self._target = interval, target
        self._began: float | None = None
        self._moved: float | None = None
        self._took = (0.0, 0.0)
        """Seconds of the last commit, and of the one before."""
        self.backlog = False
        """Whether there is more than the open transaction holds."""

    @property
    def began(self) -> bool:
        """Whether the transaction holds a batch."""
        return self._began is not None

    def begin(self) -> None:
        """Starts the transaction's time, with its first batch."""
        self._began = time.monotonic()

    def move(self) -> None:
        """Notes that a position has moved."""
        self._moved = self._moved or time.monotonic()

    def end(self, took: float) -> None:
        """Notes that all is committed; `took`: seconds of the commit."""
        self._took = (took, self._took[0])
        self._began, self._moved, self.backlog = None, None, False

    def patience(self) -> float:
        """Seconds to wait for records."""
        if self._began is None:
            return _IDLE
        return max(0.0, self._began + self._length() - time.monotonic())

    def due(self) -> bool:
        """Whether to commit before more records are waited for."""
        if self._began is not None:
            return time.monotonic() >= self._began + self._length()
        return self._positions_due()

    def overdue(self) -> bool:
        """Whether to commit although there is more that belongs into the transaction."""
        if self._began is not None:
            return time.monotonic() >= self._began + longest_transaction(self._target.timeout)
        return self._positions_due()

    def _positions_due(self) -> bool:
        return self._moved is not None and time.monotonic() >= self._moved + _POSITIONS_AFTER

    def _length(self) -> float:
        target = self._target
        if not self.backlog:
            least = max(_SHORTEST, _COMMITS * min(self._took))
            return min(self._interval, least, longest_transaction(target.timeout))
        return backlog_seconds(self._interval, target.round_trip, target.timeout)
