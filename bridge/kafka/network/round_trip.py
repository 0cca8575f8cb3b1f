"""How sizes grow with the round trip: as many bytes per second in flight over a distance as near by. Pure."""

from __future__ import annotations

UNKNOWN = 0.0
"""A round trip that was not measured yet."""
NEAR = 0.005
"""Seconds of a round trip up to which nothing has to change."""


def quickest(so_far: float, took: float) -> float:
    """The round trip, after another response took so many seconds: one that waits behind others takes longer."""
    return min(so_far or took, took)


def stretched(size: int, round_trip: float, most: int) -> int:
    """Scales `size` bytes, right for a cluster near by, to a round trip of so many seconds: up to `most`, and never
    less than `size`."""
    return max(size, min(most, int(size * round_trip / NEAR)))
