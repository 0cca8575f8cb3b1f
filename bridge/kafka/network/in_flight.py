"""How much may be in flight to a cluster: a window that grows while responses are quick and shrinks when they are slow,
as TCP's congestion window does. Pure."""

from __future__ import annotations

MOST = 32 * 1024 * 1024
"""Bytes. More would be memory, and no speed."""
FIRST = 1024 * 1024
"""Bytes before the first response: what makes a timeout of 15 s where less than 70 KB/s go through."""
LEAST = 64 * 1024
"""Bytes; what is larger than the window goes when nothing else is under way."""
_GOAL = 1.0
"""Seconds, beside two round trips, within which what is under way is to be answered: enough to keep every link busy,
and little enough that a transaction ends soon when a link has become slow."""
_THROTTLED_PATIENCE, _MOST_PATIENCE = 2, 16


class Window:
    """Bytes that may be under way. Outlives the connections: what timed out begins smaller the next time."""

    def __init__(self, size: int = FIRST) -> None:
        self.size = size
        self.patience = 1
        """How many times as long as usual a transaction may take: what can't be cut smaller needs more time."""

    def answered(
        self, size: int, under_way: int, took: float, round_trip: float, throttle: float = 0.0
    ) -> None:
        """So many bytes were answered, `took` seconds after they were handed over and so many bytes were under way,
        themselves included. `throttle`: what the broker asks to wait, which counts as if the response had taken it."""
        took += throttle
        goal = _GOAL + 2 * round_trip
        if throttle:
            # A quota is of the last eleven seconds, by default: who has used it up at once may wait as long.
            self.patience = max(self.patience, _THROTTLED_PATIENCE)
        if took > goal and under_way > LEAST:
            self.size = max(LEAST, min(self.size, int(under_way * goal / took)))
        elif took <= goal and under_way >= self.size // 2:
            # By half of what was answered, not by all: a quota lets ten seconds' worth through at once before it
            # throttles, and no more than five seconds' worth is under way when it begins.
            self.size = min(MOST, self.size + size // 2)

    def timed_out(self) -> None:
        """There was no response in time."""
        if self.size <= LEAST:
            self.patience = min(_MOST_PATIENCE, 2 * self.patience)
        self.size = max(LEAST, min(self.size, FIRST) // 2)
