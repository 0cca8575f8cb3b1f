"""Keeps what was copied since the shim's last poll, for stock's MBeans in the worker, and histograms for /metrics.

Only what a session has polled for waits: a shim that shows no MBeans costs nothing. An answer holds MOST partitions,
and is repeated until the next poll names it; meanwhile samples of one partition are joined, so that what waits never
has more rows than there are partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bridge.model.copy_samples import CopySample, Latencies, join
from bridge.model.values import TopicPartition
from bridge.service.state.latency import Histogram
from bridge.service.state.numbered_answers import NumberedAnswers, take

MOST = 500
"""Partitions in one answer."""
MOST_TOPICS = 100
"""Target topics of a connector that have histograms."""
HEARTBEATS = "heartbeats"
"""The source's own topic, in which its heartbeats tell when they were made."""


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
