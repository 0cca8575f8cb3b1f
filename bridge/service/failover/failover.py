"""Carries out failover and rollback: which groups of which connectors, whether they may be moved, and what to do next.

Decides by the same answers as every other view (readiness.py); the instances carry it out and check the groups once
more on the target. A request moves all of its groups, or moves none and says why.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from bridge.errors import BridgeError, ErrorCode, GroupsRefused, NotFound
from bridge.protocol.messages import (
    Failover,
    GroupReport,
    LeftOffset,
    MovedGroup,
    MoveGroups,
    PlannedOffset,
    RolledBack,
)
from bridge.protocol.operators import Readiness
from bridge.service.answers.missing_records import summed
from bridge.service.answers.readiness import GROUP_KINDS, Answers, GroupAnswer, flow
from bridge.service.failover.next_steps import after_move, after_roll_back
from bridge.service.failover.operating import operate
from bridge.service.service import Service
from bridge.service.state.task_table import Connector
from connectors.base import Arguments, Operation

UNKNOWN_GROUP = "unknown_group"


class Chosen(NamedTuple):
    """A group of a connector."""

    connector: str
    report: GroupReport
    answer: GroupAnswer


def connectors_of(service: Service, name: str) -> list[Connector]:
    """The connectors that follow the groups of a flow. Raises NotFound."""
    there = [known for known in service.table if known.kind in GROUP_KINDS]
    found = [known for known in there if flow_name(known) == name]
    if not found:
        flows = ", ".join(sorted({flow_name(known) for known in there})) or "none"
        raise NotFound(
            f"no checkpoint or group offset connector has the flow {name}; known flows: {flows} "
            "(source.cluster.alias-to-target.cluster.alias)",
            code=ErrorCode.UNKNOWN_CONNECTOR,
        )
    return found


def flow_name(known: Connector) -> str:
    source, target = flow(known)
    return f"{source}-to-{target}"


def chosen(
    service: Service, connectors: Iterable[Connector], groups: Sequence[str]
) -> dict[str, list[Chosen]]:
    """The reports of these groups, or of all, by group; each group that was asked for is there, perhaps without any."""
    views = service.views()
    found: dict[str, list[Chosen]] = {group: [] for group in groups}
    for known in connectors:
        snapshot = service.snapshots.connector(known.name)
        answers = Answers(views[known.name], snapshot)
        for group in groups or list(snapshot.groups):
            packed, full = (
                service.snapshots.report(known.name, group),
                service.snapshots.full(known.name, group),
            )
            if packed is not None and full is not None:
                one = Chosen(known.name, full, answers.of(packed))
                found.setdefault(group, []).append(one)
    return found


async def fail_over(service: Service, wanted: MoveGroups) -> Failover:
    """Raises GroupsRefused, and what `operate` raises."""
    connectors = connectors_of(service, wanted.flow)
    seconds = wanted.timeout_ms / 1000
    for known in connectors:
        await operate(service, known.name, Operation.REFRESH, {"without_source": True}, seconds)
    found = chosen(service, connectors, wanted.groups)
    refuse(found, accept_as_of=wanted.accept_as_of)
    arguments = {
        known.name: {"groups": _facts(service, known.name, found)}
        for known in connectors
        if any(one.connector == known.name for some in found.values() for one in some)
    }
    # All connectors are asked first whether they would: of a group that two look after none is to be left behind.
    answers = await _moved(service, arguments, seconds, dry_run=True)
    if not wanted.dry_run:
        answers = await _moved(service, arguments, seconds, dry_run=False)
    source, target = flow(connectors[0])
    groups = [
        moved_group(group, connector, record, dry_run=wanted.dry_run)
        for connector, records in answers.items()
        for group, record in sorted(records.items())
    ]
    since = [record.get("missingSinceMs") for records in answers.values() for record in records.values()]
    missing, _ = summed(
        {
            (row.topic, row.partition): None if row.missing_records is None else (row.missing_records, -1)
            for each in groups
            for row in each.partitions
        }.values()
    )
    known_since = [at for at in since if at is not None]
    answer = Failover(
        flow=wanted.flow,
        source=source or "",
        target=target or "",
        dry_run=wanted.dry_run,
        groups=groups,
        missing_records=missing,
        missing_since_ms=min(known_since) if missing and known_since else None,
    )
    return answer.model_copy(update={"next": after_move(answer)})


async def roll_back(service: Service, wanted: MoveGroups) -> RolledBack:
    """Raises NotFound for a group that nobody reports, and what `operate` raises."""
    connectors = connectors_of(service, wanted.flow)
    found = reported(service, connectors, wanted)
    left: list[LeftOffset] = []
    for known in connectors:
        groups = moved_of(known, found)
        if not groups or wanted.dry_run:
            continue
        answer = await ended(service, known, Operation.ROLL_BACK, {"groups": groups}, wanted)
        left += [
            LeftOffset(group=group, topic=at["topic"], partition=at["partition"], offset=at["offset"])
            for group, some in answer["left"].items()
            for at in some
        ]
    done = undone(connectors, found, wanted).model_copy(update={"left": left})
    return done.model_copy(update={"next": after_roll_back(done, *flow(connectors[0]))})


def reported(
    service: Service, connectors: Iterable[Connector], wanted: MoveGroups
) -> dict[str, list[Chosen]]:
    """The groups that are asked for. Raises NotFound where nobody reports one."""
    found = chosen(service, connectors, wanted.groups)
    unknown = [group for group, some in found.items() if not some]
    if unknown:
        text = f"no connector of the flow {wanted.flow} reports a group {unknown[0]}"
        raise NotFound(text, code=ErrorCode.UNKNOWN_GROUP)
    return found


def moved_of(known: Connector, found: Mapping[str, Sequence[Chosen]]) -> list[str]:
    """Groups that a connector has moved."""
    return [
        group
        for group, some in found.items()
        for one in some
        if one.connector == known.name and one.answer.readiness is Readiness.MOVED
    ]


async def ended(
    service: Service, known: Connector, operation: Operation, arguments: Arguments, wanted: MoveGroups
) -> Arguments:
    """An operation that ends moves; a round follows."""
    seconds = wanted.timeout_ms / 1000
    answer = await operate(service, known.name, operation, arguments, seconds)
    with contextlib.suppress(BridgeError):  # the next round does the same
        await operate(service, known.name, Operation.REFRESH, {}, seconds)
    return answer


def undone(
    connectors: Iterable[Connector], found: Mapping[str, Sequence[Chosen]], wanted: MoveGroups
) -> RolledBack:
    done = {group for known in connectors for group in moved_of(known, found)}
    return RolledBack(
        flow=wanted.flow,
        dry_run=wanted.dry_run,
        groups=sorted(done),
        unchanged=sorted(found.keys() - done),
    )


def refuse(found: Mapping[str, Sequence[Chosen]], *, accept_as_of: bool) -> None:
    """Raises GroupsRefused with every group that may not be moved, and why."""
    accepted = {Readiness.READY, Readiness.MOVED} | ({Readiness.READY_AS_OF} if accept_as_of else set())
    refused: list[tuple[str, Readiness, str]] = []
    for group, some in found.items():
        if not some:
            refused.append(
                (group, Readiness.CANNOT_TELL, f"{UNKNOWN_GROUP}: no connector of the flow reports it")
            )
        for one in some:
            if one.answer.readiness not in accepted:
                why = "; ".join(f"{each.reason}: {each.detail}" for each in one.answer.reasons)
                refused.append((group, one.answer.readiness, f"{one.answer.readiness}: {why}"))
    if not found:
        refused.append(("", Readiness.CANNOT_TELL, "no_groups: the flow has no group"))
    if refused:
        raise _refusal(refused, len(found))


def moved_group(group: str, connector: str, record: Arguments, *, dry_run: bool = False) -> MovedGroup:
    """As a MoveRecord has it."""
    return MovedGroup(
        group=group,
        connector=connector,
        moved_at_ms=None if dry_run else record["atMs"],
        as_of_ms=record["asOfMs"],
        source_away=record["sourceAway"],
        partitions=[
            PlannedOffset(
                topic=row["topic"],
                partition=row["partition"],
                committed=row["offset"],
                target_topic=row["targetTopic"],
                offset=row["targetOffset"],
                verdict=row["verdict"],
                bound=row.get("bound"),
                missing_records=row.get("missing"),
            )
            for row in record["partitions"]
        ],
    )


async def _moved(
    service: Service, arguments: Mapping[str, Arguments], seconds: float, *, dry_run: bool
) -> dict[str, Arguments]:
    """By connector, the records of its groups. Raises GroupsRefused."""
    moved: dict[str, Arguments] = {}
    refused: list[tuple[str, Readiness, str]] = []
    for name, given in arguments.items():
        answer = await operate(service, name, Operation.MOVE, {**given, "dry_run": dry_run}, seconds)
        moved[name] = answer["moved"]
        refused += [
            (group, Readiness.NOT_READY, f"{code}: {detail}")
            for group, (code, detail) in answer["refused"].items()
        ]
    if refused:
        done = 0 if dry_run else len(set().union(*moved.values()))
        raise _refusal(refused, sum(len(given["groups"]) for given in arguments.values()), done)
    return moved


def _facts(service: Service, connector: str, found: Mapping[str, Sequence[Chosen]]) -> dict[str, Any]:
    """By group, what a move rests on beside the group itself."""
    rows = service.snapshots.connector(connector).missing
    facts = {}
    for group, some in found.items():
        for one in some:
            if one.connector != connector:
                continue
            places = [(part.topic, part.partition) for part in one.report.partitions]
            facts[group] = {
                "as_of_ms": one.answer.as_of_ms or 0,
                "source_away": one.answer.readiness is Readiness.READY_AS_OF,
                "missing_since_ms": summed(rows.get(place) for place in places)[1],
                "missing": [
                    [*place, rows[place][0]] for place in places if place in rows and rows[place][0] >= 0
                ],
            }
    return facts


def _refusal(refused: Sequence[tuple[str, Readiness, str]], groups: int, done: int = 0) -> GroupsRefused:
    """`done`: groups that are moved all the same. Not ready where one is known not to be; else it can't be told."""
    known = any(answer is Readiness.NOT_READY for _, answer, _ in refused)
    count = len({group for group, _, _ in refused})
    moved = f"{done} group(s) are moved; repeat it for all" if done else "nothing was changed"
    text = f"{count} of {groups} group(s) can't fail over now; {moved}"
    lines = [(f"group {group}" if group else "groups", why) for group, _, why in refused]
    return GroupsRefused(text, lines, code=ErrorCode.NOT_READY if known else ErrorCode.CANNOT_TELL)
