"""Decides whether a group may be moved to the target, and makes the record that moves it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bridge.errors import KafkaFailure
from bridge.model.state_records.move_record import MOVED, MoveRecord, MoveRow, NotBegunMoved, Standing
from bridge.model.values import (
    Committed,
    Evidence,
    GroupState,
    Judgement,
    Reason,
    Side,
    TopicPartition,
    Verdict,
)
from bridge.protocol.messages import GroupReport
from bridge.translation.plan import OwnCommit
from connectors.cluster_away import reason_of

Refusal = tuple[str, str]
"""A reason code and a sentence."""
Offsets = Mapping[TopicPartition, Committed]
QUIET = (GroupState.EMPTY, GroupState.DEAD, GroupState.NOT_FOUND)
"""States of groups without members."""


@dataclass(frozen=True, slots=True)
class MoveFacts:
    """What the decision rests on beside the group itself."""

    as_of_ms: int
    source_away: bool
    missing_since_ms: int | None
    missing: Mapping[tuple[str, int], int]
    """Records, by source partition."""
    not_begun: tuple[NotBegunMoved, ...] = ()


def planned(
    report: GroupReport | None,
    state: GroupState,
    there: Offsets | KafkaFailure,
    facts: MoveFacts,
    now_ms: int,
) -> MoveRecord | Refusal:
    """Returns the record that moves a group, or why it can't be moved: it must have committed on the target, now, what
    the last round translated."""
    if report is None or not report.partitions:
        return "not_looked_at_yet", "the group has no report of the last round"
    if isinstance(there, KafkaFailure):
        return reason_of(Side.TARGET, there).value, str(there)
    if state is GroupState.UNKNOWN:
        return Reason.GROUP_STATE_UNKNOWN.value, "the group's state on the target can't be read: try again"
    if state not in QUIET:
        active = Reason.GROUP_ACTIVE_ON_TARGET
        return active.value, f"the group is {state.value} on the target: stop its consumers there"
    rows = []
    for part in report.partitions:
        standing = there.get(TopicPartition(part.target_topic, part.partition))
        if part.verdict == "pending" or part.target_offset is None:
            return part.reason or "not_looked_at_yet", f"{part.topic}-{part.partition} is pending"
        place = f"{part.target_topic}-{part.partition}"
        if standing is None:
            return (
                "not_looked_at_yet",
                f"the group has committed nothing in {place} on the target: a checkpoint connector commits groups "
                "only with sync.group.offsets.enabled=true",
            )
        if standing.offset != part.target_offset:
            said = (
                f"the committed offset of {place} is {standing.offset} and not {part.target_offset} any more"
            )
            return "not_looked_at_yet", said
        rows.append(
            MoveRow(
                part.topic,
                part.partition,
                part.committed,
                part.target_topic,
                part.target_offset,
                part.verdict,
                part.bound,
                facts.missing.get((part.topic, part.partition)),
            )
        )
    snapshot = tuple(standing_of(tp, at) for tp, at in sorted(there.items()))
    since = facts.missing_since_ms
    return MoveRecord(
        MOVED, now_ms, facts.as_of_ms, facts.source_away, since, tuple(rows), snapshot, facts.not_begun
    )


def standing_of(tp: TopicPartition, at: Committed) -> Standing:
    return Standing(tp.topic, tp.partition, at.offset, at.metadata, at.leader_epoch)


def pairs_of(
    record: MoveRecord,
) -> tuple[Mapping[TopicPartition, Committed], Mapping[TopicPartition, OwnCommit]]:
    """Returns, for a group that was given back, its offsets on the source and the equivalent ones on the target. These
    may stand behind a transaction marker where a translation stands before it: a consumer reads the same from both."""
    source = {TopicPartition(row.topic, row.partition): Committed(row.offset) for row in record.rows}
    target = {
        TopicPartition(row.target_topic, row.partition): OwnCommit(
            row.offset, Verdict(Judgement(row.verdict), row.target_offset, row.bound, Evidence.VERIFIED)
        )
        for row in record.rows
    }
    return source, target
