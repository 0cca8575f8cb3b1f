"""Pairs a part of one partition, in a Spark task: reads both logs, writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.cluster import KafkaCluster, KafkaClusters
from bridge.model.copying import Copied
from bridge.model.lookups import LookupResult
from bridge.model.values import Bounds, Side, TopicPartition
from bridge.translation.evidence import are_copies
from bridge.translation.pairing.pairing import Edge, Pairing
from bridge.translation.records.log_window import LogBounds, Steps
from bridge.translation.records.partition_cache import PartitionMemory
from bridge.translation.runs.runs import Segment

T = TypeVar("T")

STEPS = 16
"""Steps of a task, of 4 MiB each: what they find is committed together."""


class PairTask(NamedTuple):
    """A part of two logs to pair. `begin`: from where on nothing is paired yet, None for the logs' beginning. `last`:
    the newest known pair; where it no longer holds, the task begins at the logs' beginning. `committed_only`: the
    mirror copies committed data only."""

    copied: Copied
    begin: Edge | None
    last: tuple[int, int] | None
    committed_only: bool
    props: Mapping[str, str]


class PairedPart(NamedTuple):
    """The pairs of a part. `segments`: what was found, in the order of both logs. `end`: where the next part begins.
    `more`: the next part may find something now. `error`: why a cluster could not be read; empty for none."""

    segments: list[Segment]
    end: Edge | None
    more: bool
    target_start: int
    source_end: int
    records: int
    error: str = ""


def pair_part(task: PairTask) -> PairedPart:
    return asyncio.run(_pair_part(task))


async def _pair_part(task: PairTask) -> PairedPart:
    clusters = KafkaClusters()
    try:
        logs = _Logs(clusters.open(Side.SOURCE, task.props), clusters.open(Side.TARGET, task.props), task)
        return await logs.paired()
    except KafkaFailure as failure:
        return PairedPart([], task.begin, False, 0, 0, 0, str(failure))
    finally:
        await clusters.close()


class _Logs:
    """Both logs of a partition, for the look-ups of a generator."""

    def __init__(self, source: KafkaCluster, target: KafkaCluster, task: PairTask) -> None:
        self._task = task
        self._sides = {
            Side.SOURCE: (source, task.copied.source, task.committed_only),
            Side.TARGET: (target, task.copied.remote, True),
        }

    async def paired(self) -> PairedPart:
        """Raises KafkaFailure."""
        task, begin = self._task, self._task.begin
        source, target = [await self._bounds(side) for side in Side]
        again = task.last is not None and await self._untrue(task.last, source, target)
        if again or (begin and not (begin.upstream >= source.start and begin.downstream >= target.start)):
            begin = None
        pairing = Pairing(source, target, begin)
        segments: list[Segment] = []
        end, more = begin, False
        for _ in range(STEPS):
            paired = await self._drive(pairing.step())
            segments += paired.segments
            end, more = paired.end, paired.whole
            for cluster, *_ in self._sides.values():
                cluster.forget_windows()
            if not more:
                break
        records = sum(segment.count for segment in segments)
        return PairedPart(segments, end, more, target.start, source.end, records)

    async def _untrue(self, last: tuple[int, int], source: LogBounds, target: LogBounds) -> bool:
        """Whether the newest known pair no longer holds: a log ends before it, or the two records differ."""
        if last[0] >= source.end or last[1] >= target.end:
            return True
        same = await self._drive(are_copies(*last, source, target, PartitionMemory()))
        return same is False

    async def _bounds(self, side: Side) -> LogBounds:
        cluster, tp, committed_only = self._sides[side]
        info = (await cluster.topics([tp.topic]))[tp.topic]
        if isinstance(info, KafkaFailure):
            raise info
        copied = self._task.copied
        expected = copied.source_topic_id if side is Side.SOURCE else copied.target_topic_id
        if info.topic_id != expected:
            raise KafkaFailure(KafkaFault.UNKNOWN_TOPIC, f"topic {tp.topic} was deleted and made again")
        bounds = (await cluster.bounds([tp], committed_only=committed_only))[tp]
        if isinstance(bounds, KafkaFailure):
            raise bounds
        return _log_bounds(bounds)

    async def _drive(self, steps: Steps[T]) -> T:
        """Answers the needs of a generator. Raises KafkaFailure."""
        answer: LookupResult = None
        while True:
            try:
                need = steps.send(answer)
            except StopIteration as stop:
                result: T = stop.value
                return result
            cluster, tp, committed_only = self._sides[need.side]
            answered = (await cluster.answer({tp: [need]}, committed_only=committed_only))[tp][need]
            if isinstance(answered, KafkaFailure):
                raise answered
            answer = answered


def _log_bounds(bounds: Bounds) -> LogBounds:
    return LogBounds(bounds.start, bounds.end)


def place(tp: TopicPartition) -> str:
    return f"{tp.topic}-{tp.partition}"
