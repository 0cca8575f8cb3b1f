"""Defines samples: what was copied of a partition in a stretch of time, and how long that took its records. Samples of
later stretches are joined, so that a reader who is slow loses nothing but the times in between."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import NamedTuple

from bridge.model.values import TopicPartition

_GREATEST = 2**62
"""Of a sum: Java's long has room for it, and nothing that records can have comes near."""


class Latencies(NamedTuple):
    """How long some records took, in ms: how many they are, the sum, the least, the greatest, and that of the last
    record."""

    records: int = 0
    total: int = 0
    least: int = 0
    greatest: int = 0
    last: int = 0

    def joined(self, newer: Latencies) -> Latencies:
        if not self.records:
            return newer
        if not newer.records:
            return self
        return Latencies(
            self.records + newer.records,
            min(_GREATEST, self.total + newer.total),
            min(self.least, newer.least),
            max(self.greatest, newer.greatest),
            newer.last,
        )


NO_LATENCIES = Latencies()


class CopySample(NamedTuple):
    """What was copied of a partition. `age`: of the records when they were fetched, `latency`: until they were
    committed on the target, as stock measures both; records without a timestamp have neither. `written_ms`: the time of
    the last commit."""

    topic: str
    partition: int
    target_topic: str
    records: int = 0
    bytes: int = 0
    written_ms: int = 0
    age: Latencies = NO_LATENCIES
    latency: Latencies = NO_LATENCIES

    @property
    def source(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @classmethod
    def of(cls, row: Iterable[object]) -> CopySample:
        """Reads a sample that went through JSON."""
        *fields, age, latency = row
        return cls._make([*fields, Latencies._make(_numbers(age)), Latencies._make(_numbers(latency))])

    def joined(self, newer: CopySample) -> CopySample:
        if self.target_topic != newer.target_topic:
            return newer
        return newer._replace(
            records=self.records + newer.records,
            bytes=self.bytes + newer.bytes,
            written_ms=max(self.written_ms, newer.written_ms),
            age=self.age.joined(newer.age),
            latency=self.latency.joined(newer.latency),
        )


def join(waiting: MutableMapping[TopicPartition, CopySample], samples: Iterable[CopySample]) -> None:
    """Joins samples to those that wait."""
    for sample in samples:
        before = waiting.get(sample.source)
        waiting[sample.source] = sample if before is None else before.joined(sample)


def _numbers(row: object) -> list[int]:
    return list(row) if isinstance(row, list | tuple) else []
