"""What both clusters answer about a pair of partitions, topic ids and log bounds, as one state of the pair. Pure.

A failure of one topic or partition is a pending verdict on that pair, and holds up no other one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from bridge.errors import KafkaFailure
from bridge.model.values import Bounds, Reason, Side, TopicInfo, TopicPartition, Verdict
from connectors.cluster_away import reason_of
from connectors.group_translation.translating.pair_memory import PairIdentity
from connectors.group_translation.translating.partition_pairs import PartitionPair


class BothSides(NamedTuple):
    """A pair of partitions that both clusters answered about."""

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


def topics_of(
    pair: PartitionPair,
    originals: Mapping[str, TopicInfo | KafkaFailure],
    copies: Mapping[str, TopicInfo | KafkaFailure],
) -> tuple[TopicInfo, TopicInfo] | Verdict:
    """Returns both topics of a pair, or why it is pending: what the source lacks is the cause of what the target
    lacks."""
    source, target = originals[pair[0].topic], copies[pair[1].topic]
    if isinstance(source, KafkaFailure):
        return pending_verdict(Side.SOURCE, source)
    if pair[0].partition >= source.partitions:
        return missing_partition(Reason.SOURCE_TOPIC_MISSING, pair[0], source)
    if isinstance(target, KafkaFailure):
        return pending_verdict(Side.TARGET, target)
    if pair[1].partition >= target.partitions:
        return missing_partition(Reason.TARGET_PARTITION_MISSING, pair[1], target)
    return source, target


def both_sides(
    source: TopicInfo,
    target: TopicInfo,
    source_bounds: Bounds | KafkaFailure,
    target_bounds: Bounds | KafkaFailure,
) -> PairState:
    if isinstance(source_bounds, KafkaFailure):
        unanswered = pending_verdict(Side.SOURCE, source_bounds)
        return (
            unanswered
            if isinstance(target_bounds, KafkaFailure)
            else TargetOnly(target.topic_id, target_bounds, unanswered)
        )
    if isinstance(target_bounds, KafkaFailure):
        return pending_verdict(Side.TARGET, target_bounds)
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


def target_only(info: TopicInfo, bounds: Bounds | KafkaFailure, unanswered: Verdict) -> PairState:
    if isinstance(bounds, KafkaFailure):
        return pending_verdict(Side.TARGET, bounds)
    # A group that stands below has lost what it has not read, whatever its last verdict says; one that stands beyond
    # the end begins anew.
    detail = unanswered.detail | {"target_start": bounds.start, "target_end": bounds.end}
    return TargetOnly(info.topic_id, bounds, replace(unanswered, detail=detail))


def pending_verdict(side: Side, failure: KafkaFailure) -> Verdict:
    return Verdict.pending(reason_of(side, failure), said=str(failure))


def missing_partition(reason: Reason, tp: TopicPartition, info: TopicInfo) -> Verdict:
    return Verdict.pending(reason, said=f"{tp.topic} has {info.partitions} partitions")
