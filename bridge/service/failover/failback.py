"""Fails groups back: their connectors commit them again, once the flow back has committed their offsets on the
source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bridge.errors import OperationRefused
from bridge.protocol.messages import GroupReport, MoveGroups, RolledBack
from bridge.protocol.readiness import Readiness
from bridge.service.answers.reasons import reason
from bridge.service.failover.failover import (
    GroupOfConnector,
    Refused,
    answered,
    connectors_of,
    end_moves,
    flow_name,
    moved_of,
    operate,
    refusal,
    reported,
    rolled_back,
    select,
)
from bridge.service.failover.next_steps import after_return
from bridge.service.service import Service
from bridge.service.state.task_table import Connector
from connectors.base import GROUP_KINDS, Operation

_NEEDED: Mapping[str, Mapping[str, str]] = {
    "checkpoint": {"reverse.checkpointing.enabled": "true", "sync.group.offsets.enabled": "true"},
    "group_offset": {"reverse.checkpointing.enabled": "true"},
}
"""By kind of connector, the settings that failback needs."""


async def fail_back(service: Service, request: MoveGroups) -> RolledBack:
    """Fails moved groups back. Raises OperationRefused without a flow back, GroupsRefused, NotFound, and what `operate`
    raises."""
    connectors = connectors_of(service, request.flow)
    source, target = connectors[0].flow
    returning = _flow_back(service, f"{target}-to-{source}")
    seconds = request.timeout_ms / 1000
    for connector in returning:
        if connector.active():  # else groups are refused by what readiness says of it
            await operate(service, connector.name, Operation.REFRESH, {}, seconds)
    selected = reported(service, connectors, request)
    moved = {
        group: [one for one in some if one.answer.readiness is Readiness.MOVED]
        for group, some in selected.items()
    }
    home = select(service, returning, sorted(group for group, some in moved.items() if some))
    refused = [
        refused for some in moved.values() for one in some for refused in why_not(one, home[one.report.group])
    ]
    if refused:
        count = len({refused_group.group for refused_group in refused})
        text = f"{count} of {len(selected)} group(s) can't fail back to {source} now; nothing was changed"
        raise refusal(text, refused, len(selected))
    pairs = {group: _pairs(some[0].report, home[group]) for group, some in moved.items() if some}
    for connector in connectors:
        groups = {group: pairs[group] for group in moved_of(connector, selected)}
        if groups and not request.dry_run:
            await end_moves(service, connector, Operation.GIVE_BACK, {"groups": groups}, request)
    done = rolled_back(connectors, selected, request)
    again = sum(row["bound"] for rows in pairs.values() for row in rows)
    return done.model_copy(update={"next": after_return(done, source, target, again)})


def _pairs(moved: GroupReport, home: Sequence[GroupOfConnector]) -> list[dict[str, Any]]:
    """Fields of MoveRow: the committed offsets of each partition on the source and on the target."""
    rows = {(row.target_topic, row.partition): row for one in home for row in one.report.partitions}
    return [
        {
            "topic": part.topic,
            "partition": part.partition,
            "offset": row.written,
            "targetTopic": row.topic,
            "targetOffset": row.committed,
            "verdict": "bounded" if row.verdict == "bounded" else "exact",
            "bound": row.bound or 0,
        }
        for part in moved.partitions
        if (row := rows[part.topic, part.partition])
    ]


def why_not(moved: GroupOfConnector, home: Sequence[GroupOfConnector]) -> list[Refused]:
    """Why a moved group can't fail back yet: each of its partitions has to be committed on the source where the flow
    back puts it, or to be unchanged where no consumer has moved it on the target."""
    unknown = [
        answered(one, f"connector {one.connector}: ")
        for one in home
        if one.answer.readiness in (Readiness.CANNOT_TELL, Readiness.READY_AS_OF)
    ]
    if unknown:
        return unknown
    rows = {(row.target_topic, row.partition): row for one in home for row in one.report.partitions}

    def refused(code: str, text: str) -> Refused:
        return Refused(moved.report.group, Readiness.NOT_READY, [reason(code)], f"{code}: {text}")

    found = []
    for part in moved.report.partitions:
        tp, row = f"{part.topic}-{part.partition}", rows.get((part.topic, part.partition))
        if row is None:
            text = (
                f"the flow back does not cover {tp}: its groups and topics have to include the group and "
                f"{part.target_topic}"
            )
            found.append(refused("not_covered", text))
        elif row.verdict == "pending":
            stayed = row.reason == "moved_by_mirror" and row.written == part.committed
            if not stayed:
                found.append(refused(row.reason or "not_looked_at_yet", f"{tp} is pending"))
        elif row.written != row.target_offset:
            text = f"{tp} is committed at {row.written} and not at {row.target_offset}"
            found.append(refused("not_looked_at_yet", text))
    return found


def _flow_back(service: Service, name: str) -> list[Connector]:
    """The connectors of the flow back that are configured for failback. Raises OperationRefused without any."""
    connectors = [
        connector
        for connector in service.table
        if connector.kind in GROUP_KINDS and flow_name(connector) == name and not connector.gone
    ]
    usable = [connector for connector in connectors if _set(connector.config, _NEEDED[connector.kind])]
    if not usable:
        raise OperationRefused(
            f"failback needs a MirrorGroupOffsetConnector of the flow {name} in this service, with "
            "reverse.checkpointing.enabled=true, or a BridgeMirrorCheckpointConnector with that and "
            "sync.group.offsets.enabled=true, and without dry.run=true; there is "
            f"{', '.join(connector.name for connector in connectors) or 'none of this flow'}"
        )
    return usable


def _set(config: Mapping[str, str | None], needed: Mapping[str, str]) -> bool:
    def value(key: str) -> str:
        return (config.get(key) or "").lower()

    return value("dry.run") != "true" and all(value(key) == expected for key, expected in needed.items())
