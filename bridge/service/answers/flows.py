"""GET /v1/readiness: how the groups of each connector stand, and of all of them together. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bridge.protocol.base import ReadinessReason
from bridge.protocol.operators import FlowReadiness, FlowStatus, ReadinessReport
from bridge.protocol.readiness import Readiness
from bridge.service.answers.missing_records import of_flow
from bridge.service.answers.readiness import Answers, ConnectorView, counted
from bridge.service.answers.reasons import REASONS, reason, under_causes
from bridge.service.answers.status import RUNNING
from bridge.service.ipc.messages import PackedGroup
from bridge.service.state.not_running import why_not_running
from bridge.service.state.snapshots import ConnectorSnapshot, Snapshots
from bridge.service.state.task_table import Connector
from connectors.base import COPYING_KINDS, GROUP_KINDS, Summary

_WEAKEST = (
    Readiness.NOT_READY,
    Readiness.CANNOT_TELL,
    Readiness.READY_AS_OF,
    Readiness.READY,
    Readiness.MOVED,
    Readiness.HOME,
)


def readiness_report(
    connectors: Iterable[Connector],
    snapshots: Snapshots,
    views: Mapping[str, ConnectorView],
    others: Iterable[FlowStatus] = (),
    now_ms: int = 0,
) -> ReadinessReport:
    """Reports the readiness of all flows. `others`: flows that copy, and of which the connectors may run on other
    nodes; `now_ms`: the time now."""
    known = list(connectors)
    flows = [
        _flow(connector, snapshots.connector(connector.name), views[connector.name])
        for connector in known
        if connector.kind in GROUP_KINDS
    ]
    here = {connector.flow for connector in known if connector.kind in GROUP_KINDS}
    elsewhere = [status for status in others if (status.source, status.target) not in here]
    flows += map(_elsewhere, elsewhere)
    here |= {(status.source, status.target) for status in elsewhere}
    copied = {connector.flow: connector for connector in known if connector.kind in COPYING_KINDS}
    alone = [
        _without_groups(connector, snapshots.connector(connector.name).summary, now_ms)
        for flow, connector in copied.items()
        if flow not in here
    ]
    # A flow of which nobody follows groups, on purpose maybe, says nothing of the groups of others.
    flows += [flow for flow, followed in alone if followed] if flows else [flow for flow, _ in alone]
    times = [flow.as_of_ms for flow in flows]
    known_times = [position for position in times if position is not None]
    missing = [flow.missing_records for flow in flows]
    known_missing = [records for records in missing if records is not None]
    return ReadinessReport(
        readiness=_weakest(Readiness(flow.readiness) for flow in flows),
        as_of_ms=min(known_times) if known_times and len(known_times) == len(times) else None,
        missing_records=sum(known_missing) if missing and len(known_missing) == len(missing) else None,
        flows=flows,
    )


def _flow(connector: Connector, snapshot: ConnectorSnapshot, view: ConnectorView) -> FlowReadiness:
    answers, (source, target) = Answers(view, snapshot), connector.flow
    counts = answers.all()
    some = bool(set(counts) - {Readiness.READY, Readiness.MOVED, Readiness.HOME})
    of_groups = answers.reasons() if some else {}
    own = [*view.unknown, *view.tasks.values(), *view.copying_reasons(_read(snapshot, view))]
    own += view.causes if some else ()
    if view.source_away is not None:
        own.append(view.source_away)
    if not counts and not view.unknown:
        own.append(reason("no_groups"))
    reasons = {
        readiness_reason.detail: counted(readiness_reason, 0, ()) for readiness_reason in own
    } | of_groups
    # A task that runs nowhere may have groups that are not known.
    unknown = [Readiness.CANNOT_TELL] if view.tasks else []
    nothing = {("", 0): (0, -1)} if snapshot.missing else {}
    missing, since_ms = of_flow(snapshot.incomplete or nothing, snapshot.lacking.values())
    # What a group lacks of which nothing can be told is not known.
    if view.as_of_ms is None or counts[Readiness.CANNOT_TELL]:
        missing = since_ms = None
    return FlowReadiness(
        missing_records=missing,
        missing_since_ms=since_ms,
        connector=connector.name,
        source=source or "",
        target=target or "",
        readiness=_weakest([*counts, *unknown]),
        as_of_ms=view.as_of_ms,
        groups=sum(counts.values()),
        ready=counts[Readiness.READY],
        ready_as_of=counts[Readiness.READY_AS_OF],
        not_ready=counts[Readiness.NOT_READY],
        cannot_tell=counts[Readiness.CANNOT_TELL],
        moved=counts[Readiness.MOVED],
        home=counts[Readiness.HOME],
        reasons=under_causes(reasons.values()),
    )


def _read(snapshot: ConnectorSnapshot, view: ConnectorView) -> list[str]:
    """Topics that are not copied and that a group reads which has not been failed over; all where there is no group."""
    if not view.not_copied or not snapshot.groups:
        return list(view.not_copied)
    groups = map(PackedGroup._make, snapshot.groups.values())
    read = {topic for group in groups if group.moved_ms is None for topic in group.topics}
    return [topic for topic in view.not_copied if topic in read]


def _elsewhere(flow: FlowStatus) -> FlowReadiness:
    """Reports a flow whose group connector is not known here: this node can say nothing of its groups."""
    if flow.state == RUNNING:
        text = f"this node runs flow {flow.flow}, and has not started its connectors yet, or is ending them"
        why = reason("not_looked_at_yet", text)
    elif flow.node is not None:
        why = reason("elsewhere", f"{REASONS['elsewhere'].means}: ask {flow.node}")
    else:
        why = reason("connector_stopped", flow.detail or f"no node runs flow {flow.flow}")
    return _not_known(flow.flow, flow.source, flow.target, why)


def _without_groups(connector: Connector, summary: Summary, now_ms: int) -> tuple[FlowReadiness, bool]:
    """Reports a flow that is copied here, and of which no connector here knows the groups; and whether another service
    follows them, or may."""
    source, target = connector.flow
    group_connectors = summary.group_connectors
    followed = bool(group_connectors) or bool(summary.groups_unread)
    if not connector.active():
        # It reads nothing: what it has read before is no more than that.
        away = f"connector {connector.name} runs in another service: ask that one"
        why = reason("elsewhere", away) if connector.elsewhere else _stopped(connector)
    elif group_connectors:
        name = max(group_connectors, key=lambda each: group_connectors[each][0])
        seconds = (now_ms - group_connectors[name][0]) // 1000
        text = (
            f"connector {name}, which follows the groups of this flow, runs in another service, which has reported "
            f"nothing for {seconds} s: check that service, and the connector's status in Connect"
        )
        why = reason("outdated", text, since_ms=group_connectors[name][0])
    elif group_connectors is None:
        text = f"connector {connector.name} has not read yet which connectors follow the groups of this flow"
        why = reason("not_looked_at_yet", text)
    else:
        said = f" ({summary.groups_unread})" if summary.groups_unread else ""
        why = reason("no_group_connector", f"{REASONS['no_group_connector'].detail}{said}")
    return _not_known(connector.name, source or "", target, why), followed


def _stopped(connector: Connector) -> ReadinessReason:
    return reason("connector_stopped", why_not_running(connector).detail)


def _not_known(connector: str, source: str, target: str, why: ReadinessReason) -> FlowReadiness:
    return FlowReadiness(
        connector=connector,
        source=source,
        target=target,
        readiness=Readiness.CANNOT_TELL,
        as_of_ms=None,
        groups=0,
        ready=0,
        ready_as_of=0,
        not_ready=0,
        cannot_tell=0,
        reasons=[counted(why, 0, ())],
    )


def _weakest(readiness: Iterable[Readiness]) -> Readiness:
    """The weakest of the answers; CANNOT_TELL for none."""
    answers = set(readiness)
    return next((readiness for readiness in _WEAKEST if readiness in answers), Readiness.CANNOT_TELL)
