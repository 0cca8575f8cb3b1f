"""Carries out failover and rollback: which groups of which connectors, whether they may be moved, and what to do next.

Decides by the same answers as every other view (readiness.py); the instances carry it out and check the groups once
more on the target. A request moves all of its groups, or moves none and says why.

Sends operations to running connectors, and refuses those that nobody could carry out.

Says why groups can't be moved, or planned: each reason once, with all groups that have it. Pure.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from bridge.errors import BridgeError, ErrorCode, GroupsRefused, NotAnswered, NotFound, OperationRefused
from bridge.model.values import iso_time
from bridge.protocol.messages import (
    CountedReason,
    Failover,
    GroupReport,
    LeftOffset,
    LeftOut,
    MovedGroup,
    MoveGroups,
    NotBegunPartition,
    NotCopiedTopic,
    PlannedOffset,
    ReadinessReason,
    Refusal,
    RolledBack,
)
from bridge.protocol.readiness import Readiness
from bridge.service.answers.missing_records import (
    MissingRows,
    Place,
    most_of_each,
    not_begun_of,
    summed,
)
from bridge.service.answers.readiness import Answers, GroupAnswer, counted
from bridge.service.answers.reasons import REASONS, reason, under_causes
from bridge.service.failover.next_steps import after_move, after_roll_back
from bridge.service.service import Service
from bridge.service.state.not_running import why_not_running
from bridge.service.state.snapshots import RoundsState
from bridge.service.state.task_table import Connector
from connectors.base import COPYING_KINDS, GROUP_KINDS, Arguments, Operation

ACCEPT_AS_OF = "--accept-as-of"
UNKNOWN_GROUP = "unknown_group"


async def operate(
    service: Service, name: str, operation: Operation, arguments: Arguments, seconds: float
) -> Arguments:
    """Returns the answer of the running instance. Raises NotFound, OperationRefused where the connector does not run,
    NotAnswered, and the errors of the instance."""
    connector = service.table.connector(name)
    if not connector.active():
        # Of groups of a connector that does not run readiness says cannot_tell too.
        moves = operation not in (Operation.REFRESH, Operation.SKIP)
        code = ErrorCode.CANNOT_TELL if moves else ErrorCode.REFUSED
        raise OperationRefused(why_not_running(connector).detail, code=code)
    state = service.rounds.state
    if state is not RoundsState.RUNNING:
        raise NotAnswered(f"the rounds process is {state.value}; send the request again")
    return await service.rounds.operate(name, connector.generation, operation, arguments, seconds)


class Refused(NamedTuple):
    """A group, "" for a flow without any, that can't be moved now, or only as of a time."""

    group: str
    readiness: Readiness
    reasons: Sequence[ReadinessReason]
    text: str = ""
    """What is said of this group, where it is more than the reasons."""

    @property
    def line(self) -> str:
        return self.text or "; ".join(
            f"{readiness_reason.reason}: {readiness_reason.detail}" for readiness_reason in self.reasons
        )


class AsOf(NamedTuple):
    """Groups that were ready when the source answered last, which an option takes as they were then."""

    groups: int
    as_of_ms: int | None
    missing_records: int | None

    def __str__(self) -> str:
        as_of = "" if self.as_of_ms is None else f" as of {iso_time(self.as_of_ms)}"
        then = {
            None: "how many records were missing then is not known",
            0: "no record was missing then",
        }.get(self.missing_records, f"at most {self.missing_records} record(s) were missing then")
        return (
            f"; {self.groups} of them were ready{as_of}, and {then}: {ACCEPT_AS_OF} (accept_as_of) takes these as they "
            "were"
        )


def answer_of(code: str) -> Readiness:
    """The answer that a reason makes; a code of a newer rounds process makes a no."""
    known = REASONS.get(code)
    return Readiness.NOT_READY if known is None else Readiness(known.answer)


def refusal(text: str, refused: Sequence[Refused], groups: int, as_of: AsOf | None = None) -> GroupsRefused:
    """Builds the error of refused groups, of so many `groups` that were asked for. Its code is NOT_READY where one is
    known not to be ready, else CANNOT_TELL."""
    answers: dict[str, Readiness] = {}
    for each in refused:
        if answers.get(each.group) is not Readiness.NOT_READY:
            answers[each.group] = each.readiness
    listed = list(answers.values())
    certain = Readiness.NOT_READY in listed
    facts = Refusal(
        groups=groups,
        refused=len(answers.keys() - {""}),
        not_ready=listed.count(Readiness.NOT_READY),
        cannot_tell=listed.count(Readiness.CANNOT_TELL),
        ready_as_of=listed.count(Readiness.READY_AS_OF),
        as_of_ms=None if as_of is None else as_of.as_of_ms,
        missing_records=None if as_of is None else as_of.missing_records,
        option="" if as_of is None else ACCEPT_AS_OF,
        reasons=under_causes(_by_sentence(refused)),
    )
    return GroupsRefused(
        f"{text}{'' if as_of is None else as_of}",
        [(f"group {each.group}" if each.group else "groups", each.line) for each in refused],
        code=ErrorCode.NOT_READY if certain else ErrorCode.CANNOT_TELL,
        facts=facts.model_dump(),
    )


def _by_sentence(refused: Iterable[Refused]) -> list[CountedReason]:
    groups: dict[str, dict[str, None]] = {}
    reasons: dict[str, ReadinessReason] = {}
    for each in refused:
        for found in each.reasons:
            groups.setdefault(found.detail, {})[each.group] = None
            reasons.setdefault(found.detail, found)
    shared = [
        counted(reason, len(names), sorted(name for name in names if name))
        for reason, names in ((reasons[detail], names) for detail, names in groups.items())
    ]
    return sorted(shared, key=lambda each: (-each.groups, each.names))


class GroupOfConnector(NamedTuple):
    """A group as one connector reports it."""

    connector: str
    report: GroupReport
    answer: GroupAnswer


def connectors_of(service: Service, name: str) -> list[Connector]:
    """The connectors that follow the groups of a flow. Raises NotFound."""
    group_connectors = [connector for connector in service.table if connector.kind in GROUP_KINDS]
    connectors = [connector for connector in group_connectors if flow_name(connector) == name]
    away = [flow for flow in service.flows if f"{flow.source}-to-{flow.target}" == name and flow.node]
    if not connectors and away:
        text = f"another node runs flow {away[0].flow}: ask {away[0].node}"
        raise NotFound(text, code=ErrorCode.UNKNOWN_CONNECTOR)
    copied = [
        connector
        for connector in service.table
        if connector.kind in COPYING_KINDS and flow_name(connector) == name
    ]
    if not connectors and copied:
        told = service.snapshots.connector(copied[0].name).summary.group_connectors
        who = f" ({', '.join(sorted(told))} has told of them before)" if told else ""
        text = (
            f"flow {name} is copied here, and its groups are followed in no service that tells of them now{who}: "
            "send the request to the service that runs its group connector"
        )
        raise NotFound(text, code=ErrorCode.UNKNOWN_CONNECTOR)
    if not connectors:
        flows = ", ".join(sorted({flow_name(connector) for connector in group_connectors})) or "none"
        raise NotFound(
            f"no checkpoint or group offset connector has the flow {name}; known flows: {flows} "
            "(source.cluster.alias-to-target.cluster.alias)",
            code=ErrorCode.UNKNOWN_CONNECTOR,
        )
    return connectors


def flow_name(connector: Connector) -> str:
    source, target = connector.flow
    return f"{source}-to-{target}"


def select(
    service: Service, connectors: Iterable[Connector], groups: Sequence[str]
) -> dict[str, list[GroupOfConnector]]:
    """The reports of these groups, or of all, by group. Each requested group has an entry, which may be empty."""
    views = service.views()
    by_group: dict[str, list[GroupOfConnector]] = {group: [] for group in groups}
    for connector in connectors:
        snapshot = service.snapshots.connector(connector.name)
        answers = Answers(views[connector.name], snapshot)
        for group in groups or list(snapshot.groups):
            packed, full = (
                service.snapshots.report(connector.name, group),
                service.snapshots.full(connector.name, group),
            )
            if packed is not None and full is not None:
                one = GroupOfConnector(connector.name, full, answers.answer(packed))
                by_group.setdefault(group, []).append(one)
    return by_group


def topics_not_copied(selected: Mapping[str, Sequence[GroupOfConnector]]) -> list[NotCopiedTopic]:
    """Returns the topics that these groups read and their flow does not copy, each with its groups. What another
    connector of the flow copies is no such topic."""
    readers: dict[tuple[str, str], list[str]] = {}
    for group, reports in sorted(selected.items()):
        copied = {part.topic for one in reports for part in one.report.partitions}
        for topic, key in sorted(
            {(left.topic, left.key) for one in reports for left in one.report.not_copied}
        ):
            if topic not in copied:
                readers.setdefault((topic, key), []).append(group)
    return [NotCopiedTopic(topic=topic, key=key, groups=groups) for (topic, key), groups in readers.items()]


def select_present(
    service: Service, connectors: Iterable[Connector], groups: Sequence[str]
) -> tuple[dict[str, list[GroupOfConnector]], list[LeftOut]]:
    """The reports of these groups, or of all, without those of connectors that are gone; and the groups of all that
    only these report. A group that is asked for by name keeps such a report: it says why the group can't be moved."""
    listed = list(connectors)
    gone = select(service, [connector for connector in listed if connector.gone], groups)
    selected = select(service, [connector for connector in listed if not connector.gone], groups)
    if groups:
        return {group: some or gone[group] for group, some in selected.items()}, []
    left = [
        LeftOut(group=group, connector=some[0].connector)
        for group, some in sorted(gone.items())
        if group not in selected
    ]
    return selected, left


async def fail_over(service: Service, request: MoveGroups) -> Failover:
    """Moves groups to the target. Raises GroupsRefused, and what `operate` raises."""
    known = connectors_of(service, request.flow)
    connectors = [connector for connector in known if not connector.gone]
    seconds = request.timeout_ms / 1000
    for connector in connectors:
        if connector.active():  # else its groups are refused by what readiness says of it
            await operate(service, connector.name, Operation.REFRESH, {"without_source": True}, seconds)
    selected, left_out = select_present(service, known, request.groups)
    at_home = groups_at_home(selected)
    selected = {group: some for group, some in selected.items() if group not in at_home}
    accepted = {Readiness.READY, Readiness.MOVED}
    if request.accept_as_of:
        accepted.add(Readiness.READY_AS_OF)
    refused = [] if at_home and not selected else refused_groups(service, known, selected, accepted)
    if refused:
        as_of = as_of_answers(service, selected, accepted=request.accept_as_of)
        raise _refused(refused, len(selected), request.flow, as_of=as_of)
    arguments = {
        connector.name: {"groups": _facts(service, connector.name, selected)}
        for connector in connectors
        if any(one.connector == connector.name for some in selected.values() for one in some)
    }
    # A dry run on all connectors first: a group that two connectors follow is moved by both or by none.
    answers, members = await _moved(service, arguments, request.flow, seconds, dry_run=True)
    if not request.dry_run:
        answers, members = await _moved(service, arguments, request.flow, seconds, dry_run=False)
    source, target = connectors[0].flow
    groups = [
        moved_group(group, connector, record, dry_run=request.dry_run)
        for connector, records in answers.items()
        for group, record in sorted(records.items())
    ]
    since = [record.get("missingSinceMs") for records in answers.values() for record in records.values()]
    missing = _sum(
        ((row.topic, row.partition), row.missing_records) for group in groups for row in _rows_of(group)
    )
    known_since = [at for at in since if at is not None]
    answer = Failover(
        flow=request.flow,
        source=source or "",
        target=target or "",
        dry_run=request.dry_run,
        groups=groups,
        missing_records=missing,
        missing_since_ms=min(known_since) if missing and known_since else None,
        not_copied=topics_not_copied(selected),
        left_out=left_out,
        members_on_source=members,
        at_home=at_home,
    )
    return answer.model_copy(update={"next": after_move(answer, shared_with(service, connectors, groups))})


def _rows_of(group: MovedGroup) -> list[PlannedOffset | NotBegunPartition]:
    """The partitions of the topics that a group reads, as far as records of them may be missing."""
    return [*group.partitions, *group.not_begun]


def shared_with(
    service: Service, connectors: Iterable[Connector], groups: Iterable[MovedGroup]
) -> dict[str, list[str]]:
    """Returns, by flow, those of the groups that the flows of other sources bring into the same topics, and that have
    not failed over there."""
    views, flows = service.views(), dict[str, set[str]]()
    moved = {group.group: {row.target_topic for row in group.partitions} for group in groups}
    others = {
        name: one for connector in connectors for name, (one, _) in views[connector.name].merged.items()
    }
    for name, view in others.items():
        other = service.table.get(name)
        for group, topics in moved.items():
            report = service.snapshots.report(name, group)
            if other is None or report is None or report.moved_ms is not None:
                continue
            if not topics.isdisjoint(view.targets(report.topics)):
                flows.setdefault(flow_name(other), set()).add(group)
    return {flow: sorted(names) for flow, names in flows.items()}


async def roll_back(service: Service, request: MoveGroups) -> RolledBack:
    """Rolls moved groups back. Raises NotFound for a group that no connector reports, and what `operate` raises."""
    connectors = connectors_of(service, request.flow)
    selected = reported(service, connectors, request)
    left: list[LeftOffset] = []
    for connector in connectors:
        groups = moved_of(connector, selected)
        if not groups or request.dry_run:
            continue
        result = await end_moves(service, connector, Operation.ROLL_BACK, {"groups": groups}, request)
        left += [
            LeftOffset(group=group, topic=at["topic"], partition=at["partition"], offset=at["offset"])
            for group, some in result["left"].items()
            for at in some
        ]
    done = rolled_back(connectors, selected, request).model_copy(update={"left": left})
    views = service.views()
    away = any(views[connector.name].source_away is not None for connector in connectors)
    return done.model_copy(update={"next": after_roll_back(done, *connectors[0].flow, source_away=away)})


def reported(
    service: Service, connectors: Iterable[Connector], request: MoveGroups
) -> dict[str, list[GroupOfConnector]]:
    """The reports of the requested groups. Raises NotFound where no connector reports one."""
    selected = select(service, connectors, request.groups)
    unknown = [group for group, some in selected.items() if not some]
    if unknown:
        text = f"no connector of the flow {request.flow} reports a group {unknown[0]}"
        raise NotFound(text, code=ErrorCode.UNKNOWN_GROUP)
    return selected


def moved_of(connector: Connector, selected: Mapping[str, Sequence[GroupOfConnector]]) -> list[str]:
    """Groups that a connector has moved."""
    return [
        group
        for group, some in selected.items()
        for one in some
        if one.connector == connector.name and one.answer.readiness is Readiness.MOVED
    ]


async def end_moves(
    service: Service, connector: Connector, operation: Operation, arguments: Arguments, request: MoveGroups
) -> Arguments:
    """Carries out an operation that ends moves, and runs a round."""
    seconds = request.timeout_ms / 1000
    result = await operate(service, connector.name, operation, arguments, seconds)
    with contextlib.suppress(BridgeError):  # the next round does the same
        await operate(service, connector.name, Operation.REFRESH, {}, seconds)
    return result


def rolled_back(
    connectors: Iterable[Connector], selected: Mapping[str, Sequence[GroupOfConnector]], request: MoveGroups
) -> RolledBack:
    done = {group for connector in connectors for group in moved_of(connector, selected)}
    return RolledBack(
        flow=request.flow,
        dry_run=request.dry_run,
        groups=sorted(done),
        unchanged=sorted(selected.keys() - done),
    )


def as_of_answers(
    service: Service, selected: Mapping[str, Sequence[GroupOfConnector]], *, accepted: bool
) -> AsOf | None:
    """Returns what is known of the groups that were ready when the source answered last; None where there are none, or
    where they are accepted as they were."""
    some = [
        one for all_ in selected.values() for one in all_ if one.answer.readiness is Readiness.READY_AS_OF
    ]
    if not some or accepted:
        return None
    times = [one.answer.as_of_ms for one in some if one.answer.as_of_ms is not None]
    rows = {one.connector: MissingRows(service.snapshots.connector(one.connector).missing) for one in some}
    missing = _sum(
        ((f"{one.connector}/{topic}", partition), count)
        for one in some
        for (topic, partition), count in rows[one.connector].of_each(one.report).items()
    )
    groups = len({one.report.group for one in some})
    return AsOf(groups, min(times) if times else None, missing)


def _sum(rows: Iterable[tuple[Place, int | None]]) -> int | None:
    """Adds up missing records, those of one partition once; None where one is not known, and for none."""
    most = most_of_each(rows).values()
    return summed(None if count is None else (count, -1) for count in most)[0]


def groups_at_home(selected: Mapping[str, Sequence[GroupOfConnector]]) -> list[str]:
    """The groups that nobody has moved on the source, by all connectors that report them."""
    return sorted(
        group
        for group, some in selected.items()
        if some and all(one.answer.readiness is Readiness.HOME for one in some)
    )


def answered(one: GroupOfConnector, of: str = "") -> Refused:
    """A group that is refused by its answer. `of`: whose it is, where that is not the flow's own."""
    why = "; ".join(
        f"{readiness_reason.reason}: {readiness_reason.detail}" for readiness_reason in one.answer.reasons
    )
    readiness = one.answer.readiness
    return Refused(one.report.group, readiness, one.answer.reasons, f"{readiness}: {of}{why}")


def refused_groups(
    service: Service,
    connectors: Iterable[Connector],
    selected: Mapping[str, Sequence[GroupOfConnector]],
    accepted: Collection[Readiness],
) -> list[Refused]:
    """The groups that no connector reports, and those whose answer is not accepted; for a flow without groups why it
    has none."""
    refused = [
        answered(one) for some in selected.values() for one in some if one.answer.readiness not in accepted
    ]
    unknown = reason(UNKNOWN_GROUP, "no connector of the flow reports it")
    refused += [
        Refused(group, Readiness.CANNOT_TELL, [unknown]) for group, some in selected.items() if not some
    ]
    if not selected:
        views = service.views()
        why = [
            readiness_reason for connector in connectors for readiness_reason in views[connector.name].unknown
        ]
        refused.append(Refused("", Readiness.CANNOT_TELL, why or [reason("no_groups")]))
    return refused


def moved_group(group: str, connector: str, record: Arguments, *, dry_run: bool = False) -> MovedGroup:
    """The API's form of a move record."""
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
        not_begun=[
            NotBegunPartition(
                topic=row["topic"],
                partition=row["partition"],
                not_on_target=row.get("notOnTarget"),
                missing_records=row.get("missing"),
            )
            for row in record.get("notBegun", ())
        ],
    )


async def _moved(
    service: Service, arguments: Mapping[str, Arguments], flow: str, seconds: float, *, dry_run: bool
) -> tuple[dict[str, Arguments], list[str]]:
    """Moves the groups. Returns by connector the move records of its groups, and the groups that consumers are in on
    the source. Raises GroupsRefused."""
    moved: dict[str, Arguments] = {}
    members: set[str] = set()
    refused: list[Refused] = []
    for name, operation in arguments.items():
        result = await operate(service, name, Operation.MOVE, {**operation, "dry_run": dry_run}, seconds)
        moved[name] = result["moved"]
        # How it was when the source answered last says nothing of now.
        here = {group for group, facts in operation["groups"].items() if not facts["source_away"]}
        members |= here.intersection(result.get("membersOnSource", ()))
        refused += [
            Refused(group, answer_of(code), [reason(code, detail)])
            for group, (code, detail) in result["refused"].items()
        ]
    if refused:
        done = 0 if dry_run else len(set().union(*moved.values()))
        groups = set().union(*(operation["groups"] for operation in arguments.values()))
        raise _refused(refused, len(groups), flow, done)
    return moved, sorted(members)


def _facts(
    service: Service, connector: str, selected: Mapping[str, Sequence[GroupOfConnector]]
) -> dict[str, Any]:
    """Returns by group the facts that a move record keeps beside the group's own offsets."""
    rows = MissingRows(service.snapshots.connector(connector).missing)
    facts = {}
    for group, some in selected.items():
        for one in some:
            if one.connector != connector:
                continue
            missing = rows.of_each(one.report)
            tps = [(part.topic, part.partition) for part in one.report.partitions]
            facts[group] = {
                "as_of_ms": one.answer.as_of_ms or 0,
                "source_away": one.answer.readiness is Readiness.READY_AS_OF,
                "missing_since_ms": rows.of_report(one.report)["missing_since_ms"],
                "missing": [[*tp, missing[tp]] for tp in tps if missing[tp] is not None],
                "not_begun": [
                    [partition.topic, partition.partition, partition.not_on_target, partition.missing_records]
                    for partition in not_begun_of(one.report, missing)
                ],
            }
    return facts


def _refused(
    refused: Sequence[Refused], groups: int, flow: str, done: int = 0, as_of: AsOf | None = None
) -> GroupsRefused:
    """Builds the error of groups that can't be moved. `done`: groups that were moved nevertheless."""
    count = len({each.group for each in refused})
    moved = f"{done} group(s) are moved; repeat it for all" if done else "nothing was changed"
    what = (
        f"{count} of {groups} group(s) can't fail over now"
        if groups
        else f"the flow {flow} has no group to move"
    )
    return refusal(f"{what}; {moved}", refused, groups, as_of)
