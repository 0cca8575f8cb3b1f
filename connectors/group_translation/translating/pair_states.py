"""Asks both clusters for topic ids, epochs and log bounds of pairs of partitions before their offsets are
translated."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bridge.errors import KafkaFailure
from bridge.model.values import Bounds, Reason, Side, TopicInfo, TopicPartition, Verdict
from connectors.cluster_away import ask, reason_of
from connectors.group_translation.translating.partition_pairs import PartitionPair
from connectors.group_translation.translating.verdict_cache import PairIdentity
from connectors.ports import Cluster


class BothSides(NamedTuple):
    """A pair that both clusters answered about."""

    identity: PairIdentity
    source: Bounds
    target: Bounds
    log_append_time: bool
    """The target overwrites timestamps (message.timestamp.type=LogAppendTime)."""
    compacted: bool | None = False
    """See TopicInfo, of the target."""
    partitions: int = 0
    """How many the source's topic has."""


class TargetOnly(NamedTuple):
    """A pair that only the target answered about. `pending`: why the source did not."""

    target_id: str
    target: Bounds
    pending: Verdict


PairState = BothSides | TargetOnly | Verdict
"""A verdict: it is pending, because the target did not answer, or the partition is missing."""


async def both_sides(
    pairs: Sequence[PartitionPair],
    source: Cluster,
    target: Cluster,
    *,
    source_committed_only: bool,
    timeout_ms: int,
) -> dict[PartitionPair, PairState]:
    """Asks both clusters for topics and log bounds, in two requests to each. Raises ClusterAway."""
    source_topics, target_topics = await asyncio.gather(
        _topics(Side.SOURCE, source, [pair[0] for pair in pairs], timeout_ms),
        _topics(Side.TARGET, target, [pair[1] for pair in pairs], timeout_ms),
    )
    topics = {pair: _topics_of(pair, source_topics, target_topics) for pair in pairs}
    present = {pair: infos for pair, infos in topics.items() if not isinstance(infos, Verdict)}
    source_bounds, target_bounds = await asyncio.gather(
        _bounds(Side.SOURCE, source, [pair[0] for pair in present], timeout_ms, source_committed_only),
        _bounds(Side.TARGET, target, [pair[1] for pair in present], timeout_ms),
    )
    return {
        pair: infos
        if isinstance(infos, Verdict)
        else _both_sides(*infos, source_bounds[pair[0]], target_bounds[pair[1]])
        for pair, infos in topics.items()
    }


async def target_only(
    pairs: Sequence[PartitionPair], target: Cluster, source_failure: KafkaFailure, *, timeout_ms: int
) -> dict[PartitionPair, PairState]:
    """Asks the target alone, while the source as a whole does not answer. Raises ClusterAway for the target."""
    unanswered = _pending(Side.SOURCE, source_failure)
    topics = await _topics(Side.TARGET, target, [pair[1] for pair in pairs], timeout_ms)
    present = [pair for pair in pairs if _has_partition(topics[pair[1].topic], pair[1])]
    bounds = await _bounds(Side.TARGET, target, [pair[1] for pair in present], timeout_ms)
    states: dict[PartitionPair, PairState] = {}
    for pair in pairs:
        info = topics[pair[1].topic]
        if isinstance(info, KafkaFailure):
            states[pair] = _pending(Side.TARGET, info)
        elif pair[1].partition >= info.partitions:
            states[pair] = unanswered
        else:
            states[pair] = _target_only(info, bounds[pair[1]], unanswered)
    return states


async def _topics(
    side: Side, cluster: Cluster, partitions: Sequence[TopicPartition], timeout_ms: int
) -> Mapping[str, TopicInfo | KafkaFailure]:
    return await ask(side, cluster.topics(sorted({tp.topic for tp in partitions})), timeout_ms)


async def _bounds(
    side: Side,
    cluster: Cluster,
    partitions: Sequence[TopicPartition],
    timeout_ms: int,
    committed_only: bool = True,
) -> Mapping[TopicPartition, Bounds | KafkaFailure]:
    # The request is made in here: a caller that makes one for a task that is cancelled before it begins, as at the end
    # of an instance, leaves a coroutine that nobody awaits, which Python reports on standard error.
    return await ask(side, cluster.bounds(partitions, committed_only=committed_only), timeout_ms)


def _has_partition(info: TopicInfo | KafkaFailure, tp: TopicPartition) -> bool:
    return not isinstance(info, KafkaFailure) and tp.partition < info.partitions


def _topics_of(
    pair: PartitionPair,
    source_topics: Mapping[str, TopicInfo | KafkaFailure],
    target_topics: Mapping[str, TopicInfo | KafkaFailure],
) -> tuple[TopicInfo, TopicInfo] | Verdict:
    """Returns both topics of a pair, or why it is pending: what the source lacks is the cause of what the target
    lacks."""
    source, target = source_topics[pair[0].topic], target_topics[pair[1].topic]
    if isinstance(source, KafkaFailure):
        return _pending(Side.SOURCE, source)
    if pair[0].partition >= source.partitions:
        return _missing(Reason.SOURCE_TOPIC_MISSING, pair[0], source)
    if isinstance(target, KafkaFailure):
        return _pending(Side.TARGET, target)
    if pair[1].partition >= target.partitions:
        return _missing(Reason.TARGET_PARTITION_MISSING, pair[1], target)
    return source, target


def _both_sides(
    source: TopicInfo,
    target: TopicInfo,
    source_bounds: Bounds | KafkaFailure,
    target_bounds: Bounds | KafkaFailure,
) -> PairState:
    if isinstance(source_bounds, KafkaFailure):
        unanswered = _pending(Side.SOURCE, source_bounds)
        if isinstance(target_bounds, KafkaFailure):
            return unanswered
        return TargetOnly(target.topic_id, target_bounds, unanswered)
    if isinstance(target_bounds, KafkaFailure):
        return _pending(Side.TARGET, target_bounds)
    identity = PairIdentity(
        source.topic_id, source_bounds.leader_epoch, target.topic_id, target_bounds.leader_epoch
    )
    return BothSides(
        identity,
        source_bounds,
        target_bounds,
        target.log_append_time,
        target.compacted,
        source.partitions,
    )


def _target_only(info: TopicInfo, bounds: Bounds | KafkaFailure, unanswered: Verdict) -> PairState:
    if isinstance(bounds, KafkaFailure):
        return _pending(Side.TARGET, bounds)
    return TargetOnly(info.topic_id, bounds, unanswered)


def _pending(side: Side, failure: KafkaFailure) -> Verdict:
    return Verdict.pending(reason_of(side, failure), said=str(failure))


def _missing(reason: Reason, tp: TopicPartition, info: TopicInfo) -> Verdict:
    return Verdict.pending(reason, said=f"{tp.topic} has {info.partitions} partitions")
