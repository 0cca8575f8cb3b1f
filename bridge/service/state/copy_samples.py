"""Keeps what was copied since the shim's last poll, for stock's MBeans in the worker, and histograms for /metrics.

Only what a session has polled for waits: a shim that shows no MBeans costs nothing. An answer holds MOST partitions,
and is repeated until the next poll names it; meanwhile samples of one partition are joined, so that what waits never
has more rows than there are partitions.

Hands a session of the shim what it has not read yet.

Answers are numbered, and each is repeated until a poll names it.

Measures how old records are when Connect has written them: a histogram per connector, four numbers per group; and
how long copied records take. Pure.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

from bridge.model.copying import CopySample, Latencies, join
from bridge.model.values import TopicPartition
from bridge.protocol.messages import CheckpointLatency

K = TypeVar("K")
V = TypeVar("V")
BOUNDS = (5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000)
"""Upper bounds of the histogram's buckets, in ms."""
GroupLatency = tuple[int, int, int, int]
"""last, max, sum, count; a plain tuple, for the reason that snapshots.GroupTuple is one."""
MOST = 500
"""Partitions in one answer."""
MOST_TOPICS = 100
"""Target topics of a connector that have histograms."""
HEARTBEATS = "heartbeats"
"""The source's own topic, in which its heartbeats tell when they were made."""


@dataclass(slots=True)
class NumberedAnswers:
    """Those of one session. `sent`: the answer that it has not named yet."""

    session: str
    number: int = 0
    sent: bytes | None = None

    def next(self, seen: int, content: Callable[[], Mapping[str, object] | None]) -> bytes | None:
        """Returns the next answer as JSON, None for nothing. `seen`: the number of the last answer that was read,
        0 before the first; `content`: takes what a new answer holds, and returns None for nothing."""
        if self.sent is not None and seen == self.number:
            self.sent = None
        if self.sent is None and (taken := content()) is not None:
            self.number += 1
            answer = {"number": self.number, **taken}
            self.sent = json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode()
        return self.sent


def take(waiting: dict[K, V], most: int) -> list[tuple[K, V]]:
    """Takes out the entries that wait longest."""
    taken = list(waiting.items())[:most]
    for key, _ in taken:
        del waiting[key]
    return taken


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


@dataclass(slots=True)
class _Reader:
    """A session of the shim, with what it has yet to read."""

    answers: NumberedAnswers
    waiting: dict[TopicPartition, CopySample] = field(default_factory=dict)
    gone: dict[tuple[str, int], None] = field(default_factory=dict)

    def content(self) -> dict[str, object] | None:
        if not self.waiting and not self.gone:
            return None
        gone, self.gone = list(self.gone), {}
        return {
            "partitions": [_row(sample) for _, sample in take(self.waiting, MOST)],
            "gone": [{"topic": topic, "partition": partition} for topic, partition in gone],
        }


class TopicHistograms(NamedTuple):
    age: Histogram
    latency: Histogram


class CopiedHeartbeat(NamedTuple):
    """The newest one that was copied: when it was made, and how long it took; ms."""

    made_ms: int
    lag_ms: int


class CopySamples:
    """The samples of one connector's copies."""

    def __init__(self) -> None:
        self._reader: _Reader | None = None
        self.histograms: dict[str, TopicHistograms] = {}
        self.heartbeat: CopiedHeartbeat | None = None
        self.replication_lag_ms: float | None = None
        """From fetch to commit, on average of the records that were copied last."""

    # -- reports -----------------------------------------------------------------------------------

    def add(self, samples: Iterable[CopySample]) -> None:
        for sample in samples:
            if not sample.latency.records:
                continue
            if (histograms := self._histograms(sample.target_topic)) is not None:
                histograms.age.observe_all(sample.age)
                histograms.latency.observe_all(sample.latency)
            age, latency = sample.age, sample.latency
            self.replication_lag_ms = max(0, latency.total - age.total) / latency.records
            if sample.topic == HEARTBEATS:
                self.heartbeat = CopiedHeartbeat(sample.written_ms - latency.last, latency.last)
        if self._reader is not None:
            join(self._reader.waiting, samples)

    def moved(self, tp: tuple[str, int], before: str | None, target_topic: str) -> None:
        """A partition is copied to that topic, and was to the one before."""
        if before == target_topic or self._reader is None:
            return
        if before is not None:
            self.left(tp, before)
        self._reader.gone.pop((target_topic, tp[1]), None)
        topic, partition = tp
        self._reader.waiting.setdefault(TopicPartition(*tp), CopySample(topic, partition, target_topic))

    def left(self, tp: tuple[str, int], target_topic: str) -> None:
        """A partition is copied no more."""
        if self._reader is not None:
            self._reader.waiting.pop(TopicPartition(*tp), None)
            self._reader.gone[target_topic, tp[1]] = None

    def _histograms(self, target_topic: str) -> TopicHistograms | None:
        histograms = self.histograms.get(target_topic)
        if histograms is None and len(self.histograms) < MOST_TOPICS:
            histograms = self.histograms[target_topic] = TopicHistograms(Histogram(), Histogram())
        return histograms

    # -- polls -------------------------------------------------------------------------------------

    def begin(self, session: str, rows: Mapping[tuple[str, int], tuple[Any, ...]], target_at: int) -> None:
        """Begins anew with a session that has read nothing: each partition waits for it. `rows` are those of the
        snapshot; their target topic stands at `target_at`."""
        if self._reader is None or self._reader.answers.session != session:
            self._reader = _Reader(NumberedAnswers(session))
            for tp, row in rows.items():
                self._reader.waiting[TopicPartition(*tp)] = CopySample(*tp, row[target_at])

    @property
    def fills_an_answer(self) -> bool:
        """Whether more waits than one answer holds."""
        return self._reader is not None and len(self._reader.waiting) > MOST

    def next(self, seen: int) -> bytes | None:
        """Returns the next answer, a Measured as JSON; None for nothing. `seen`: the number of the last answer that was
        read, 0 before the first."""
        reader = self._reader
        return None if reader is None else reader.answers.next(seen, reader.content)


def _row(sample: CopySample) -> dict[str, Any]:
    return {
        "topic": sample.target_topic,
        "partition": sample.partition,
        "records": sample.records,
        "bytes": sample.bytes,
        "record_age_ms": _latencies(sample.age),
        "replication_latency_ms": _latencies(sample.latency),
    }


def _latencies(latencies: Latencies) -> dict[str, int] | None:
    if not latencies.records:
        return None
    count, total, least, greatest, last = latencies
    return {"count": count, "sum": total, "min": least, "max": greatest, "last": last}
