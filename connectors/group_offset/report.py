"""A plan that has been carried out, as operators read it."""

from __future__ import annotations

from bridge.protocol.messages import GroupReport, PartitionReport
from bridge.translation.model import Judgement, Reason
from bridge.translation.plan import GroupPlan, Row

_ORDER = (Judgement.EXACT, Judgement.BOUNDED, Judgement.PENDING)


def report(
    plan: GroupPlan,
    *,
    connector: str,
    source: str,
    target: str,
    task: int,
    state: str,
    synced_at_ms: int | None,
) -> GroupReport:
    """The report on one group. Ready: every partition has an answer, and it stands on the target."""
    rows = [_row(row) for row in plan.rows]
    judgements = [row.verdict.judgement for row in plan.rows]
    ready = plan.reason is None and all(_stands(row) for row in plan.rows)
    reasons = [row.verdict.reason for row in plan.rows if row.verdict.reason]
    reason: Reason | None = plan.reason or (reasons[0] if reasons else None)
    bounds = [row.verdict.bound for row in plan.rows]
    known = [bound for bound in bounds if bound is not None]
    return GroupReport(
        group=plan.group,
        connector=connector,
        source=source,
        target=target,
        task=task,
        ready=ready,
        verdict=max(judgements, key=_ORDER.index, default=Judgement.PENDING).value,
        bound=sum(known) if len(known) == len(bounds) else None,
        target_state=state,
        synced_at_ms=synced_at_ms,
        reason=reason.value if reason else None,
        partitions=rows,
    )


def _stands(row: Row) -> bool:
    return row.verdict.judgement is not Judgement.PENDING and row.standing == row.verdict.offset


def _row(row: Row) -> PartitionReport:
    verdict = row.verdict
    return PartitionReport(
        topic=row.source.topic,
        partition=row.source.partition,
        target_topic=row.target.topic,
        committed=row.committed.offset,
        target_offset=verdict.offset,
        written=row.standing,
        verdict=verdict.judgement.value,
        evidence=verdict.evidence.value if verdict.evidence else None,
        bound=verdict.bound,
        reason=verdict.reason.value if verdict.reason else None,
        flags=[flag.value for flag in verdict.flags],
        detail=verdict.detail,
    )
