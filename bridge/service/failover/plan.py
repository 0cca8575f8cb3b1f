"""GET /v1/failover/plan: the offsets at which groups would resume on the target. Pure but for the snapshots."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from bridge.errors import ErrorCode, GroupsRefused
from bridge.protocol.messages import FailoverPlan, GroupReport, MovedGroup, PlannedOffset
from bridge.protocol.readiness import Readiness
from bridge.service.failover.failover import (
    UNKNOWN_GROUP,
    GroupOfConnector,
    as_of_remedy,
    connectors_of,
    select_present,
    topics_not_copied,
)
from bridge.service.service import Service

_KNOWN = {Readiness.READY, Readiness.MOVED, Readiness.NOT_READY}
"""Answers whose translations are current."""


def plan(service: Service, flow: str, groups: Sequence[str], *, accept_as_of: bool) -> FailoverPlan:
    """Plans these groups, or all. Raises GroupsRefused where a translation is missing: there is no partial plan."""
    selected, left_out = select_present(service, connectors_of(service, flow), groups)
    current = _KNOWN | ({Readiness.READY_AS_OF} if accept_as_of else set())
    _refuse(selected, current, "" if accept_as_of else as_of_remedy(service, selected))
    first = {group: some[0] for group, some in sorted(selected.items())}
    times = [one.answer.as_of_ms for one in first.values()]
    known = [at for at in times if at is not None]
    return FailoverPlan(
        flow=flow,
        as_of_ms=min(known) if known else None,
        groups=[_planned(one) for one in first.values()],
        not_copied=topics_not_copied(selected),
        left_out=left_out,
    )


def _refuse(
    selected: Mapping[str, Sequence[GroupOfConnector]], known: Collection[Readiness], remedy: str
) -> None:
    refused: list[tuple[str, str]] = []
    unknown = not selected
    for group, some in selected.items():
        if not some:
            refused.append((f"group {group}", f"{UNKNOWN_GROUP}: no connector of the flow reports it"))
            unknown = True
            continue
        one = some[0]
        if one.answer.readiness not in known:
            why = "; ".join(f"{each.reason}: {each.detail}" for each in one.answer.reasons)
            refused.append((f"group {group}", f"{one.answer.readiness}: {why}"))
            unknown = True
            continue
        refused += [(f"group {group}", text) for text in _untranslated(one.report)]
    if refused or not selected:
        text = (
            f"there is no plan: {len(refused)} offset(s) or group(s) of {len(selected)} group(s) have no current "
            f"translation{remedy}"
        )
        raise GroupsRefused(text, refused, code=ErrorCode.CANNOT_TELL if unknown else ErrorCode.NOT_READY)


def _untranslated(report: GroupReport) -> list[str]:
    return [
        f"{part.reason}: {part.topic}-{part.partition} is pending"
        for part in report.partitions
        if part.target_offset is None
    ]


def _planned(one: GroupOfConnector) -> MovedGroup:
    report = one.report
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
            )
            for part in report.partitions
            if part.target_offset is not None
        ],
    )
