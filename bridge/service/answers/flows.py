"""GET /v1/readiness: how the groups of each connector stand, and of all of them together. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bridge.protocol.operators import FlowReadiness, FlowStatus, ReadinessReason, ReadinessReport
from bridge.protocol.readiness import Readiness
from bridge.service.answers.missing_records import of_flow
from bridge.service.answers.readiness import Answers, ConnectorView
from bridge.service.answers.reasons import REASONS
from bridge.service.state.snapshots import ConnectorSnapshot, Snapshots
from bridge.service.state.task_table import Connector
from connectors.base import GROUP_KINDS

_WEAKEST = (
    Readiness.NOT_READY,
    Readiness.CANNOT_TELL,
    Readiness.READY_AS_OF,
    Readiness.READY,
    Readiness.MOVED,
)


def readiness_report(
    connectors: Iterable[Connector],
    snapshots: Snapshots,
    views: Mapping[str, ConnectorView],
    others: Iterable[FlowStatus] = (),
) -> ReadinessReport:
    """Reports the readiness of all flows. `others`: flows that copy, and of which the connectors may run on other
    nodes."""
    known = list(connectors)
    flows = [
        _flow(connector, snapshots.connector(connector.name), views[connector.name])
        for connector in known
        if connector.kind in GROUP_KINDS
    ]
    here = {connector.flow for connector in known if connector.kind in GROUP_KINDS}
    flows += [_elsewhere(each) for each in others if (each.source, each.target) not in here]
    times = [each.as_of_ms for each in flows]
    known_times = [at for at in times if at is not None]
    return ReadinessReport(
        readiness=_weakest(Readiness(each.readiness) for each in flows),
        as_of_ms=min(known_times) if known_times and len(known_times) == len(times) else None,
        flows=flows,
    )


def _flow(connector: Connector, snapshot: ConnectorSnapshot, view: ConnectorView) -> FlowReadiness:
    counts, (source, target) = Answers(view, snapshot).all(), connector.flow
    away = [] if view.source_away is None else [view.source_away]
    reasons = [*view.unknown, *view.tasks.values(), *view.copying_reasons(view.not_copied), *away]
    if set(counts) - {Readiness.READY, Readiness.MOVED}:
        reasons += view.causes
    if not counts and not view.unknown:
        reasons.append(ReadinessReason(reason="no_groups", detail=REASONS["no_groups"]))
    # A task that runs nowhere may have groups that are not known.
    unknown = [Readiness.CANNOT_TELL] if view.tasks else []
    nothing = {("", 0): (0, -1)} if snapshot.missing else {}
    missing, since_ms = of_flow(snapshot.incomplete or nothing, snapshot.lacking.values())
    if view.as_of_ms is None:
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
        reasons=list({each.detail: each for each in reasons}.values()),
    )


def _elsewhere(flow: FlowStatus) -> FlowReadiness:
    """Reports a flow whose group connector does not run here: this node can say nothing of its groups."""
    detail = f"{REASONS['elsewhere']}: ask {flow.node}" if flow.node is not None else flow.detail
    reason = "elsewhere" if flow.node is not None else "connector_stopped"
    return FlowReadiness(
        connector=flow.flow,
        source=flow.source,
        target=flow.target,
        readiness=Readiness.CANNOT_TELL,
        as_of_ms=None,
        groups=0,
        ready=0,
        ready_as_of=0,
        not_ready=0,
        cannot_tell=0,
        reasons=[ReadinessReason(reason=reason, detail=detail or f"no node runs flow {flow.flow}")],
    )


def _weakest(readiness: Iterable[Readiness]) -> Readiness:
    """The weakest of the answers; CANNOT_TELL for none."""
    there = set(readiness)
    return next((each for each in _WEAKEST if each in there), Readiness.CANNOT_TELL)
