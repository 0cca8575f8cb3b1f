"""Drives translations: gathers their look-ups, asks both clusters at once, and sends the answers back in."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from bridge.errors import KafkaFailure
from bridge.model.lookups import LookupResult, Need
from bridge.model.values import Side, TopicPartition, Verdict
from connectors.cluster_away import reason_of
from connectors.ports import Cluster

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

AT_ONCE = 500
"""Translations under way at a time: enough to fill the fetches of many partitions, few enough to bound memory (each
holds two decoded batches or so)."""


class Job(NamedTuple, Generic[T]):
    """One translation, or another look at both logs: where it reads on either side, its offset, and its steps."""

    source: TopicPartition
    target: TopicPartition
    offset: int
    steps: Generator[Need, LookupResult, T]


async def translate_all(
    jobs: Mapping[K, Job[T]], source: Cluster, target: Cluster, *, source_committed_only: bool
) -> dict[K, T | Verdict]:
    """Returns the jobs' results by their keys. The failure of a partition is a verdict: pending, with a reason; nothing
    is raised for it."""
    verdicts: dict[K, T | Verdict] = {}
    clusters = {Side.SOURCE: source, Side.TARGET: target}
    for part in _portions(jobs):
        done: dict[K, T | Verdict] = await _translate(part, clusters, source_committed_only)
        verdicts |= done
    return verdicts


def _portions(jobs: Mapping[K, Job[T]]) -> Iterator[dict[K, Job[T]]]:
    """Yields first one job of each partition, which finds the partition's low anchor for the others; then the rest: a
    few of each partition at a time (a fetch reads each partition once), neighbours together (they share fetches)."""
    by_partition: dict[tuple[TopicPartition, TopicPartition], list[K]] = {}
    for key, job in jobs.items():
        by_partition.setdefault((job.source, job.target), []).append(key)
    yield {keys[0]: jobs[keys[0]] for keys in by_partition.values()}
    rest = [sorted(keys[1:], key=lambda key: jobs[key].offset) for keys in by_partition.values()]
    while rest := [keys for keys in rest if keys]:
        few = max(1, AT_ONCE // len(rest))
        yield {key: jobs[key] for keys in rest[:AT_ONCE] for key in keys[:few]}
        rest = [keys[few:] if index < AT_ONCE else keys for index, keys in enumerate(rest)]


async def _translate(
    jobs: dict[K, Job[T]], clusters: Mapping[Side, Cluster], source_committed_only: bool
) -> dict[K, T | Verdict]:
    verdicts: dict[K, T | Verdict] = {}
    waiting: dict[K, Need] = {}
    _advance(jobs, ((key, None) for key in list(jobs)), waiting, verdicts)
    while waiting:
        needs: dict[Side, dict[TopicPartition, list[Need]]] = {Side.SOURCE: {}, Side.TARGET: {}}
        for key, need in waiting.items():
            needs[need.side].setdefault(_tp(jobs[key], need.side), []).append(need)
        results = await _ask(clusters, needs, source_committed_only)
        answers = []
        for key, need in list(waiting.items()):
            answer = results[need.side][_tp(jobs[key], need.side)][need]
            del waiting[key]
            if isinstance(answer, KafkaFailure):
                verdicts[key] = Verdict.pending(reason_of(need.side, answer), said=str(answer))
                jobs[key].steps.close()
            else:
                answers.append((key, answer))
        _advance(jobs, answers, waiting, verdicts)
    return verdicts


async def _ask(
    clusters: Mapping[Side, Cluster],
    needs: Mapping[Side, Mapping[TopicPartition, Sequence[Need]]],
    source_committed_only: bool,
) -> dict[Side, Mapping[TopicPartition, Mapping[Need, LookupResult | KafkaFailure]]]:
    sides = [side for side in Side if needs[side]]
    # On the target only committed data is a copy; on the source, what the mirror is known to copy.
    results = await asyncio.gather(
        *(
            clusters[side].answer(needs[side], committed_only=side is Side.TARGET or source_committed_only)
            for side in sides
        )
    )
    return dict(zip(sides, results, strict=True))


def _tp(job: Job[T], side: Side) -> TopicPartition:
    return job.source if side is Side.SOURCE else job.target


def _advance(
    jobs: Mapping[K, Job[T]],
    answers: Iterable[tuple[K, LookupResult]],
    waiting: dict[K, Need],
    verdicts: dict[K, T | Verdict],
) -> None:
    for key, answer in answers:
        try:
            waiting[key] = jobs[key].steps.send(answer)
        except StopIteration as stop:
            verdicts[key] = stop.value
