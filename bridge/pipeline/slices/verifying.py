"""Verifies runs that reach beyond the logs before anything is skipped for them (see gaps).

Whether a target that a stock mirror has filled ends with what that mirror has copied last. Where it does not,
somebody has copied on: this connector, if it has lost its state topics, and would copy all of that once more.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bridge.errors import KafkaFailure
from bridge.kafka.admin.topic_configs import describe_configs
from bridge.kafka.consumer.record_lookups import Lookups
from bridge.kafka.network.client import NetworkClient
from bridge.model.copying import Copied
from bridge.model.lookups import Read, Window
from bridge.model.values import Bounds, RecordView, Side, TopicPartition
from bridge.pipeline.slices.gaps import RunCheck, doubted
from bridge.translation.records.log_window import same
from bridge.translation.runs.partition_runs import PartitionRuns
from bridge.translation.runs.runs import OffsetRun

log = logging.getLogger(__name__)


_BYTES = 1024
_MOST_STEPS = 16
"""Offsets at the end of a target's log that are looked at for a record: the others hold marks of transactions."""


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
    left = [partition for partition in partitions if partition.source in runs]
    while left:
        checks: dict[Side, dict[TopicPartition, tuple[Copied, RunCheck]]] = {side: {} for side in sides}
        untrue: dict[TopicPartition, tuple[Copied, str]] = {}
        for copied in left:
            tps = {
                Side.SOURCE: copied.source,
                Side.TARGET: copied.remote,
            }
            known = runs[copied.source]
            if known.last is None:
                continue
            here, there = (sides[side].bounds[tp] for side, tp in tps.items())
            doubt = doubted(known.last, copied, here, there, known.others)
            if isinstance(doubt, str):
                untrue[copied.source] = copied, doubt
            elif doubt is not None:
                checks[doubt.side][tps[doubt.side]] = copied, doubt
        for side, pending in checks.items():
            untrue |= await _unconfirmed(side, sides[side], pending)
        for tp, (_, why) in untrue.items():
            wrong = runs[tp].pass_over()
            ignored.setdefault(tp, IgnoredRuns([], why)).runs.append(wrong)
            log.warning("%s-%d: ignoring an offset run, because %s: %s", *tp, why, wrong)
        left = [copied for copied, _ in untrue.values()]
    return ignored


async def _unconfirmed(
    side: Side, logs: ClusterLogs, checks: Mapping[TopicPartition, tuple[Copied, RunCheck]]
) -> dict[TopicPartition, tuple[Copied, str]]:
    """Reads the records that runs need; returns, by source partition, why a run can't be true whose record is
    missing."""
    standing = {
        tp: Read(side, check.offset, _BYTES)
        for tp, (_, check) in checks.items()
        if logs.bounds[tp].start <= check.offset < logs.bounds[tp].end
    }
    lookups = Lookups(logs.client, committed_only=logs.committed_only)
    answers = await lookups.answer({tp: [need] for tp, need in standing.items()})
    untrue = {}
    for tp, (copied, check) in checks.items():
        answer = answers[tp][standing[tp]] if tp in standing else None
        if isinstance(answer, KafkaFailure):
            raise answer
        if not isinstance(answer, Window) or not check.confirms(answer):
            where = f"{tp.topic}-{tp.partition} on the {side.value}"
            untrue[copied.source] = (
                copied,
                f"its last record is not at offset {check.offset} of {where}",
            )
    return untrue


async def copied_on(
    source: ClusterLogs, target: ClusterLogs, partitions: Sequence[Copied]
) -> set[TopicPartition]:
    """Source partitions of those that are to begin where a stock mirror had come to whose copies do not end with the
    record before that, or whose end nobody can tell. Raises KafkaFailure."""
    last_copied = {partition.source: partition.start - 1 for partition in partitions if partition.start}
    originals = await _at(source, Side.SOURCE, last_copied)
    copies = await _last(target, [partition.remote for partition in partitions])
    different = {
        partition
        for partition in partitions
        if (one := originals.get(partition.source)) is None
        or (other := copies.get(partition.remote)) is None
        or not _alike(one, other, partition)
    }
    late = await _late(target, {copied.target_topic for copied in different})
    return {
        copied.source
        for copied in different
        if copied.target_topic not in late
        or not _same_texts(originals.get(copied.source), copies.get(copied.remote))
    }


async def _at(
    logs: ClusterLogs, side: Side, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, RecordView]:
    """Reads the records at these offsets, of those that exist."""
    needs = {
        tp: Read(side, offset, _BYTES)
        for tp, offset in offsets.items()
        if logs.bounds[tp].start <= offset < logs.bounds[tp].end
    }
    lookups = Lookups(logs.client, committed_only=logs.committed_only)
    answers = await lookups.answer({tp: [need] for tp, need in needs.items()})
    records: dict[TopicPartition, RecordView] = {}
    for tp, need in needs.items():
        answer = answers[tp][need]
        if isinstance(answer, KafkaFailure):
            raise answer
        if isinstance(answer, Window):
            records |= [(tp, record) for record in answer.records if record.offset == need.offset]
    return records


async def _last(logs: ClusterLogs, tps: Sequence[TopicPartition]) -> dict[TopicPartition, RecordView]:
    records: dict[TopicPartition, RecordView] = {}
    for step in range(1, _MOST_STEPS + 1):
        left = {tp: logs.bounds[tp].end - step for tp in tps if tp not in records}
        if not left:
            break
        records |= await _at(logs, Side.TARGET, left)
    return records


def _alike(original: RecordView, copy: RecordView, copied: Copied) -> bool:
    """Compares a record with its copy; of one that went through a transform only the timestamp is the same."""
    return original.timestamp == copy.timestamp if copied.transforms else same(original, copy)


def _same_texts(one: RecordView | None, other: RecordView | None) -> bool:
    return one is not None and other is not None and (one.key, one.value) == (other.key, other.value)


async def _late(target: ClusterLogs, topics: set[str]) -> set[str]:
    """The topics whose brokers overwrite timestamps."""
    configs = await describe_configs(target.client, sorted(topics)) if topics else {}
    return {
        topic
        for topic, entries in configs.items()
        if not isinstance(entries, KafkaFailure)
        and entries["message.timestamp.type"].value == "LogAppendTime"
    }
