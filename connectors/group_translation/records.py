"""Converts plans to records of the readiness topic, and records to reports and to what rounds remember. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter

from bridge.model.state_records.group_record import GroupRecord, GroupRow, NotBegunRow
from bridge.model.values import (
    Committed,
    Evidence,
    Flag,
    Judgement,
    Reason,
    TopicPartition,
    Verdict,
)
from bridge.protocol.messages import GroupReport, NotCopiedTopic, PartitionReport
from bridge.translation.plan import GroupPlan, NotBegun, OwnCommit, PartitionPlan
from connectors.group_translation.report import lacking

_UNPROVEN = (
    Reason.RECORDS_NOT_ON_TARGET,
    Reason.NOT_MIRRORED_YET,
    Reason.COPIES_UNKNOWN,
    Reason.OTHER_SOURCE_NOT_READY,
)
_FLAGS = frozenset(Flag)
_WEAKEST = ("pending", "bounded", "exact")


def record_of(plan: GroupPlan, as_of_ms: int, task: int, task_count: int, state: str) -> GroupRecord:
    reason = None if plan.reason is None else plan.reason.value
    rows = tuple(map(_row, sorted(plan.rows, key=attrgetter("source"))))
    not_begun = tuple(map(NotBegunRow._make, plan.not_begun))
    return GroupRecord(as_of_ms, task, task_count, state, reason, rows, plan.not_copied, not_begun)


def _row(row: PartitionPlan) -> GroupRow:
    verdict = row.verdict
    return GroupRow(
        topic=row.source.topic,
        partition=row.source.partition,
        offset=row.committed.offset,
        metadata=row.committed.metadata,
        target_topic=row.target.topic,
        target_offset=verdict.offset,
        verdict=verdict.judgement.value,
        bound=verdict.bound,
        evidence=verdict.evidence.value if verdict.evidence else None,
        reason=verdict.reason.value if verdict.reason else None,
        standing=row.standing,
        flags=tuple(flag.value for flag in verdict.flags),
        detail=verdict.detail,
    )


def report_of(
    record: GroupRecord,
    group: str,
    *,
    connector: str,
    source: str,
    target: str,
    task: int,
    reason: Reason | None,
    needs_all_topics: bool = False,
) -> GroupReport:
    """Returns the report that the record was written with. `reason`: why the group was not read since."""
    bounds = [row.bound for row in record.rows]
    known_bounds = [bound for bound in bounds if bound is not None]
    lacks_topics = needs_all_topics and bool(record.not_copied)
    reasons = [row.reason for row in record.rows if row.reason]
    reasons += [Reason.TOPIC_NOT_COPIED] if lacks_topics else []
    if record.rows and not lacks_topics and all(map(_at_home, record.rows)):
        reasons = [Reason.AT_HOME]
    verdicts = {row.verdict for row in record.rows}
    ready = record.reason is None and not lacks_topics and all(map(_stands, record.rows))
    if ready and any(Flag.OTHER_SOURCE_OUTDATED in row.flags for row in record.rows):
        reasons = [Reason.OTHER_SOURCE_OUTDATED]
    return GroupReport(
        group=group,
        connector=connector,
        source=source,
        target=target,
        task=task,
        ready=ready,
        verdict=next((text for text in _WEAKEST if text in verdicts), "pending"),
        bound=sum(known_bounds) if known_bounds and len(known_bounds) == len(bounds) else None,
        target_state=record.state,
        synced_at_ms=record.as_of_ms,
        reason=reason.value if reason else record.reason or (reasons[0] if reasons else None),
        partitions=[_partition(row) for row in sorted(record.rows, key=attrgetter("topic", "partition"))],
        not_copied=[NotCopiedTopic(topic=topic, key=key) for topic, key in record.not_copied],
        not_begun=lacking(map(NotBegun._make, record.not_begun)),
    )


def _at_home(row: GroupRow) -> bool:
    known = row.reason == Reason.MOVED_BY_MIRROR and "said" not in row.detail
    return known and row.standing is not None


def _stands(row: GroupRow) -> bool:
    # A flag that only a later version knows may say that this is no whole yes, as other_source_outdated does.
    known = all(flag in _FLAGS for flag in row.flags)
    return known and row.verdict != Judgement.PENDING and row.standing == row.target_offset


def _unproven(row: GroupRow) -> bool:
    """Whether the offset is right and stands on the target, and is pending for what is missing behind it."""
    return row.reason in _UNPROVEN and row.standing is not None and row.standing == row.target_offset


def _partition(row: GroupRow) -> PartitionReport:
    return PartitionReport(
        topic=row.topic,
        partition=row.partition,
        target_topic=row.target_topic,
        committed=row.offset,
        target_offset=row.target_offset,
        written=row.standing,
        verdict=row.verdict,
        evidence=row.evidence,
        bound=row.bound,
        reason=row.reason,
        flags=list(row.flags),
        detail=dict(row.detail),
    )


def committed_of(record: GroupRecord) -> dict[TopicPartition, Committed]:
    """Returns the committed offsets of the source, by source partition."""
    return {
        TopicPartition(row.topic, row.partition): Committed(row.offset, row.metadata) for row in record.rows
    }


def written_of(record: GroupRecord) -> Mapping[TopicPartition, OwnCommit]:
    """Returns, by target partition, the offsets that stand there because they translate those of the source."""
    return {
        TopicPartition(row.target_topic, row.partition): OwnCommit(row.offset, verdict)
        for row in record.rows
        if (_stands(row) or _unproven(row)) and (verdict := _verdict(row)) is not None
    }


def _verdict(row: GroupRow) -> Verdict | None:
    """Returns a row's verdict on its offset; None where it has values of a later version that this one does not
    know."""
    judgement, reason = row.verdict, row.reason
    if reason in _UNPROVEN:
        judgement, reason = Judgement.EXACT if row.bound == 0 else Judgement.BOUNDED, None
    try:
        return Verdict(
            Judgement(judgement),
            row.target_offset,
            row.bound,
            None if row.evidence is None else Evidence(row.evidence),
            None if reason is None else Reason(reason),
            tuple(map(Flag, row.flags)),
            detail=dict(row.detail),
        )
    except ValueError:
        return None
