"""Limits how fast a connector copies: a token bucket for each slice, and shares of the limit by what slices copy. Pure.

Counted are the bytes of batches as they are sent, like the bytes of the metrics. A batch is sent whole: a bucket may
owe, and is waited for until it no longer does, so that the rate holds over times in which several batches are sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bridge.model.copying import Progress
from bridge.model.values import TopicPartition
from bridge.pipeline.layouts.slots import Slice

BURST = 0.25
"""Seconds of its rate that a bucket keeps while there are no records."""
STALL = 2.0
"""Seconds of its rate that it keeps while there are some: what commits and busy machines hold up is made up for."""
_USED = 0.6
"""Part of its share from which on a slice with a backlog could do with more."""
_GROWTH = 1.5
"""Room for what a slice without a backlog copies now."""
_LEAST = 1 / 50
"""Part of an equal share that every slice keeps: what it begins with when records come."""
_LEAST_CHANGE = 0.1
"""Smallest relative change of a share that slices are told of."""
REDISTRIBUTE_SECONDS = 2.0
"""Seconds between two looks at who uses what."""


class TokenBucket:
    """Times in seconds of any clock that does not go back, rates in bytes per second."""

    def __init__(self, rate: float, now: float) -> None:
        self._rate, self._tokens, self._at = rate, 0.0, now

    def set_rate(self, rate: float, now: float) -> None:
        self._fill(now)
        self._rate = rate

    def wait(self, now: float) -> float:
        """Returns the seconds until the next batch may be taken, 0 for at once."""
        self._fill(now)
        return max(0.0, -self._tokens / self._rate)

    def take(self, size: int) -> None:
        self._tokens -= size

    def idle(self, now: float) -> None:
        """Limits what the bucket keeps while there are no records."""
        self._fill(now)
        self._tokens = min(self._tokens, self._rate * BURST)

    def _fill(self, now: float) -> None:
        filled = self._tokens + self._rate * (now - self._at)
        self._tokens, self._at = min(filled, self._rate * STALL), now


class ShareUse(NamedTuple):
    """A slice's use of its share: bytes per second, and whether records wait."""

    rate: float
    backlog: bool


def equal_shares(limit: int, slices: int) -> tuple[int, ...]:
    return (max(1, limit // slices),) * slices


def new_shares(limit: int, shares: Sequence[int], used: Sequence[ShareUse]) -> tuple[int, ...]:
    """Returns the share of each slice, all together the limit. Slices without a backlog keep room for what they copy,
    and some more; what that leaves goes in equal parts to those that have one, and of these only as much to one that
    does not use it as an equal share. What is left even then goes to those with a backlog, or, without any, to all."""
    equal = limit / len(shares)
    demands = [_demand(use, share, equal, limit) for use, share in zip(used, shares, strict=True)]
    limits, left = [0.0] * len(shares), float(limit)
    waiting = sorted(range(len(shares)), key=lambda slot: demands[slot])
    for done, slot in enumerate(waiting):
        limits[slot] = min(demands[slot], left / (len(waiting) - done))
        left -= limits[slot]
    lagging = [slot for slot, use in enumerate(used) if use.backlog] or list(range(len(shares)))
    for slot in lagging:
        limits[slot] += left / len(lagging)
    return tuple(max(1, int(limit)) for limit in limits)


def _demand(use: ShareUse, share: int, equal: float, limit: int) -> float:
    if not use.backlog:
        return max(_GROWTH * use.rate, _LEAST * equal)
    return limit if use.rate >= _USED * share else equal


def differs_enough(shares: Sequence[int], newer: Sequence[int]) -> bool:
    return any(abs(new - old) > _LEAST_CHANGE * old for old, new in zip(shares, newer, strict=True))


class Sharing:
    """What the slices of one layout had copied at the last look."""

    def __init__(self, limit: int, slices: Sequence[Slice]) -> None:
        self._limit = limit
        self._partitions = [[partition.source for partition in work.partitions] for work in slices]
        self._last: tuple[float, list[int]] | None = None

    def shares(
        self, progress: Mapping[TopicPartition, Progress], shares: Sequence[int], now: float
    ) -> Sequence[int] | None:
        """Returns new shares, None to keep the present ones. `now` in seconds."""
        known = [[progress.get(tp) for tp in held] for held in self._partitions]
        copied = [sum(progress.bytes for progress in held if progress is not None) for held in known]
        last, self._last = self._last, (now, copied)
        if last is None or now <= last[0]:
            return None
        used = [
            ShareUse(
                (after - before) / (now - last[0]),
                any(progress is None or progress.lag != 0 for progress in held),
            )
            for after, before, held in zip(copied, last[1], known, strict=True)
        ]
        newer = new_shares(self._limit, shares, used)
        return newer if differs_enough(shares, newer) else None
