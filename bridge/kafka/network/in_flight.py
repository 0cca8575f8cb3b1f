"""How much may be in flight to a cluster: a window that grows while responses are quick and shrinks when they are slow,
as TCP's congestion window does. Pure.

How sizes grow with the round trip: as many bytes per second in flight over a distance as near by. Pure.
"""

from __future__ import annotations

MOST = 32 * 1024 * 1024
"""Bytes. More would be memory, and no speed."""
FIRST = 1024 * 1024
"""Bytes before the first response: what makes a timeout of 15 s where less than 70 KB/s go through."""
LEAST = 64 * 1024
"""Bytes; what is larger than the window is sent when nothing else is in flight."""
_GOAL = 1.0
"""Seconds, beside two round trips, within which what is in flight is to be acknowledged: enough to keep every network
busy, and little enough that a transaction ends soon when one has become slow."""
_THROTTLED_PATIENCE, _MOST_PATIENCE = 2, 16
UNKNOWN = 0.0
"""A round trip that was not measured yet."""
NEAR = 0.005
"""Seconds of a round trip up to which nothing has to change."""


class InFlightWindow:
    """Bytes that may be in flight. Outlives connections: after a timeout the next one begins smaller."""

    def __init__(self, size: int = FIRST) -> None:
        self.size = size
        self.patience = 1
        """How many times as long as usual a transaction may take: what can't be cut smaller needs more time."""

    def acknowledged(
        self, size: int, in_flight: int, took: float, round_trip: float, throttle: float = 0.0
    ) -> None:
        """Learns from a response to so many bytes, `took` seconds after they were handed over, when `in_flight` bytes
        were in flight, these included. `throttle`: seconds that the broker asks to wait, which count like `took`."""
        took += throttle
        goal = _GOAL + 2 * round_trip
        if throttle:
            # A quota is of the last eleven seconds, by default: a client that has used it up at once may wait as long.
            self.patience = max(self.patience, _THROTTLED_PATIENCE)
        if took > goal and in_flight > LEAST:
            self.size = max(LEAST, min(self.size, int(in_flight * goal / took)))
        elif took <= goal and in_flight >= self.size // 2:
            # By half of what was acknowledged, not by all: a quota lets ten seconds' worth through at once before it
            # throttles, and no more than five seconds' worth is in flight when it begins.
            self.size = min(MOST, self.size + size // 2)

    def timed_out(self) -> None:
        """There was no response in time."""
        if self.size <= LEAST:
            self.patience = min(_MOST_PATIENCE, 2 * self.patience)
        self.size = max(LEAST, min(self.size, FIRST) // 2)


def quickest(so_far: float, took: float) -> float:
    """The round trip, after another response took so many seconds: one that waits behind others takes longer."""
    return min(so_far or took, took)


def stretched(size: int, round_trip: float, most: int) -> int:
    """Scales `size` bytes, right for a cluster near by, to a round trip of so many seconds: up to `most`, and never
    less than `size`."""
    return max(size, min(most, int(size * round_trip / NEAR)))
