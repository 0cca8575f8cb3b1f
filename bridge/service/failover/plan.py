"""GET /v1/failover/plan: the offsets at which groups would resume on the target. Pure but for the snapshots."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from bridge.protocol.messages import FailoverPlan, MovedGroup, PartitionReport, PlannedOffset
from bridge.protocol.readiness import Readiness
from bridge.service.answers.missing_records import MissingRows, not_begun_of
from bridge.service.answers.reasons import reason
from bridge.service.failover.failover import (
    GroupOfConnector,
    Refused,
    as_of_answers,
    connectors_of,
    groups_at_home,
    refusal,
    refused_groups,
    select_present,
    topics_not_copied,
)
from bridge.service.service import Service

_SKIPPING = {"records_not_on_target", "copies_unknown"}
_KNOWN = {Readiness.READY, Readiness.MOVED, Readiness.NOT_READY}
"""Answers whose translations are current."""


def plan(service: Service, flow: str, groups: Sequence[str], *, accept_as_of: bool) -> FailoverPlan:
    """Plans these groups, or all. Raises GroupsRefused where a translation is missing: there is no partial plan."""
    known = connectors_of(service, flow)
    selected, left_out = select_present(service, known, groups)
    # Where two connectors report a group, both translate it alike.
    at_home = groups_at_home(selected)
    first = {group: some[:1] for group, some in sorted(selected.items()) if group not in at_home}
    current = _KNOWN | ({Readiness.READY_AS_OF} if accept_as_of else set())
    refused = [] if at_home and not first else refused_groups(service, known, first, current)
    refused += [one for some in first.values() for one in _untranslated(some, current)]
    if refused:
        count = len({refused_group.group for refused_group in refused})
        text = (
            f"there is no plan: {count} of {len(first)} group(s) have offsets without a current translation"
            if first
            else f"there is no plan: the flow {flow} has no group"
        )
        raise refusal(text, refused, len(first), as_of_answers(service, first, accepted=accept_as_of))
    planned = [one for some in first.values() for one in some]
    times = [one.answer.as_of_ms for one in planned if one.answer.as_of_ms is not None]
    return FailoverPlan(
        flow=flow,
        as_of_ms=min(times) if times else None,
        groups=[_planned(service, one) for one in planned],
        not_copied=topics_not_copied(selected),
        left_out=left_out,
        at_home=at_home,
    )


def _untranslated(some: Sequence[GroupOfConnector], current: Collection[Readiness]) -> list[Refused]:
    """A refusal for each offset of a group that is not translated; what is not current is refused as a whole."""
    return [
        Refused(
            one.report.group,
            Readiness.NOT_READY,
            [reason(part.reason or "not_looked_at_yet")],
            f"{part.reason}: {part.topic}-{part.partition} is pending",
        )
        for one in some
        if one.answer.readiness in current
        for part in one.report.partitions
        if part.target_offset is None
    ]


def _count(part: PartitionReport) -> int | None:
    count = part.detail.get("not_on_target")
    return count if isinstance(count, int) else None


def _planned(service: Service, one: GroupOfConnector) -> MovedGroup:
    report, missing = one.report, MissingRows(service.snapshots.connector(one.connector).missing)
    return MovedGroup(
        group=report.group,
        connector=one.connector,
        moved_at_ms=report.moved_at_ms,
        as_of_ms=one.answer.as_of_ms or 0,
        source_away=one.answer.readiness is Readiness.READY_AS_OF,
        partitions=[
            PlannedOffset(
                topic=part.topic,
                partition=part.partition,
                committed=part.committed,
                target_topic=part.target_topic,
                offset=part.target_offset,
                verdict=part.verdict,
                bound=part.bound,
                missing_records=_count(part),
                reason=part.reason if part.reason in _SKIPPING else None,
            )
            for part in report.partitions
            if part.target_offset is not None
        ],
        not_begun=not_begun_of(report, missing.of_each(report)),
    )
