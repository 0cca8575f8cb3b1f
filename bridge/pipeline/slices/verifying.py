"""Verifies runs that reach beyond the logs before anything is skipped for them (see doubts)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bridge.errors import KafkaFailure
from bridge.kafka.consumer.record_lookups import Lookups
from bridge.kafka.network.client import NetworkClient
from bridge.model.copying import Copied
from bridge.model.lookups import Read, Window
from bridge.model.values import Bounds, Side, TopicPartition
from bridge.pipeline.slices.doubts import RunCheck, doubted
from bridge.translation.runs.partition_runs import PartitionRuns
from bridge.translation.runs.runs import OffsetRun

log = logging.getLogger(__name__)

_BYTES = 1024


class ClusterLogs(NamedTuple):
    """One cluster, whose leaders the client knows (`NetworkClient.metadata`); `bounds` by its own partitions."""

    client: NetworkClient
    bounds: Mapping[TopicPartition, Bounds]
    committed_only: bool


class IgnoredRuns(NamedTuple):
    """Runs of a partition that are ignored because they can't be true, the furthest first, and why."""

    runs: list[OffsetRun]
    why: str


async def ignore_untrue(
    source: ClusterLogs,
    target: ClusterLogs,
    partitions: Sequence[Copied],
    runs: Mapping[TopicPartition, PartitionRuns],
) -> dict[TopicPartition, IgnoredRuns]:
    """Ignores the newest runs of each partition while they contradict the logs; returns those, by source partition.
    Raises KafkaFailure."""
    ignored: dict[TopicPartition, IgnoredRuns] = {}
    sides = {Side.SOURCE: source, Side.TARGET: target}
    left = [each for each in partitions if each.source in runs]
    while left:
        checks: dict[Side, dict[TopicPartition, tuple[Copied, RunCheck]]] = {side: {} for side in sides}
        untrue: dict[TopicPartition, tuple[Copied, str]] = {}
        for each in left:
            tps = {
                Side.SOURCE: each.source,
                Side.TARGET: each.remote,
            }
            known = runs[each.source]
            if known.last is None:
                continue
            here, there = (sides[side].bounds[tp] for side, tp in tps.items())
            doubt = doubted(known.last, each, here, there, known.others)
            if isinstance(doubt, str):
                untrue[each.source] = each, doubt
            elif doubt is not None:
                checks[doubt.side][tps[doubt.side]] = each, doubt
        for side, pending in checks.items():
            untrue |= await _unconfirmed(side, sides[side], pending)
        for tp, (_, why) in untrue.items():
            wrong = runs[tp].pass_over()
            ignored.setdefault(tp, IgnoredRuns([], why)).runs.append(wrong)
            log.warning("%s-%d: ignoring an offset run, because %s: %s", *tp, why, wrong)
        left = [each for each, _ in untrue.values()]
    return ignored


async def _unconfirmed(
    side: Side, logs: ClusterLogs, checks: Mapping[TopicPartition, tuple[Copied, RunCheck]]
) -> dict[TopicPartition, tuple[Copied, str]]:
    """Reads the records that runs need; returns, by source partition, why a run can't be true whose record is
    missing."""
    there = {
        tp: Read(side, check.offset, _BYTES)
        for tp, (_, check) in checks.items()
        if logs.bounds[tp].start <= check.offset < logs.bounds[tp].end
    }
    lookups = Lookups(logs.client, committed_only=logs.committed_only)
    answers = await lookups.answer({tp: [need] for tp, need in there.items()})
    untrue = {}
    for tp, (copied, check) in checks.items():
        answer = answers[tp][there[tp]] if tp in there else None
        if isinstance(answer, KafkaFailure):
            raise answer
        if not isinstance(answer, Window) or not check.confirms(answer):
            where = f"{tp.topic}-{tp.partition} on the {side.value}"
            untrue[copied.source] = (
                copied,
                f"its last record is not at offset {check.offset} of {where}",
            )
    return untrue
