"""Measures how old records are when Connect has written them: a histogram per connector, four numbers per group; and
how long copied records take. Pure."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from bridge.model.copy_samples import Latencies
from bridge.protocol.messages import CheckpointLatency

BOUNDS = (5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000)
"""Upper bounds of the histogram's buckets, in ms."""

GroupLatency = tuple[int, int, int, int]
"""last, max, sum, count; a plain tuple, for the reason that snapshots.GroupTuple is one."""


def observed(before: GroupLatency | None, latency_ms: int) -> GroupLatency:
    _, greatest, total, count = before or (0, 0, 0, 0)
    return latency_ms, max(greatest, latency_ms), total + latency_ms, count + 1


def as_message(latency: GroupLatency) -> CheckpointLatency:
    last, greatest, total, count = latency
    return CheckpointLatency(last=last, max=greatest, mean=round(total / count, 1), count=count)


class Histogram:
    """A histogram as Prometheus has it: buckets are cumulative, the last one counts everything."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS) + 1)
        self.sum = 0

    def observe(self, latency_ms: int) -> None:
        self._counts[bisect_left(BOUNDS, latency_ms)] += 1
        self.sum += latency_ms

    def observe_all(self, latencies: Latencies) -> None:
        """Counts records of which only these numbers are known as spread evenly between the least and the greatest."""
        least, span = latencies.least, latencies.greatest - latencies.least
        first, last = bisect_left(BOUNDS, least), bisect_left(BOUNDS, latencies.greatest)
        counted = 0
        for bucket in range(first, last):
            below = latencies.records * (BOUNDS[bucket] - least) // span
            self._counts[bucket] += below - counted
            counted = below
        self._counts[last] += latencies.records - counted
        self.sum += latencies.total

    def buckets(self) -> list[tuple[str, int]]:
        return list(zip((*map(str, BOUNDS), "+Inf"), accumulate(self._counts), strict=True))
