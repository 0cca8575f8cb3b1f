"""Builds what health and status answer, from the table and the snapshots. Pure; conditions.py has the conditions.

Ready means that the service can accept work and carry it out, whatever its connectors wait for: a service that became
ready only with its first connector could never be reached by that one. What a connector waits for is in its status.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from bridge.protocol.messages import ConnectorStatus, FlowStatus, Ready, TaskStatus
from bridge.service.answers.conditions import GONE, STARTING, conditions
from bridge.service.state.delivery import Traffic
from bridge.service.state.not_running import waits_for_start
from bridge.service.state.other_services import others
from bridge.service.state.rounds_state import SILENT_SECONDS, RoundsState
from bridge.service.state.snapshots import ConnectorSnapshot
from bridge.service.state.task_table import Connector, Task

CLUSTERS = ("source", "target")
RUNNING, ELSEWHERE, WAITING = "running", "elsewhere", "waiting"
"""The states of a flow: this node runs it; another one; none that is known. They are states of connectors too: it
works; other services run its tasks; it has begun, and a cluster does not answer now."""
_NO_ERRORS = (STARTING, GONE, "rounds_process_down")
"""Conditions that are not in `errors`: the first two are none, the third is one of the service."""
_NOT_RUNNING = {
    RoundsState.STARTING: "the rounds process is starting",
    RoundsState.RESTARTING: "the rounds process has ended and is restarting",
    RoundsState.STALLED: f"the rounds process has sent no heartbeat for {SILENT_SECONDS:.0f} s",
    RoundsState.STOPPED: "the rounds process is stopped",
}


def connector_status(
    connector: Connector,
    snapshot: ConnectorSnapshot,
    traffic: Traffic,
    rounds: RoundsState,
    age_ms: Callable[[Task], int],
    begun_ms: int,
    now_ms: int,
    monotonic_ms: int,
) -> ConnectorStatus:
    """Builds the status of a connector. `begun_ms`: time since its start or restart; `now_ms`, `monotonic_ms`: now."""
    summary, waits = snapshot.summary, waiting_for(connector, snapshot, rounds)
    source_away = "source" in summary.away_since_ms
    other_tasks = others(connector, summary, now_ms, monotonic_ms, source_away=source_away).as_of_ms
    lasting = conditions(connector, snapshot, traffic, rounds, waits, begun_ms, age_ms, other_tasks)
    return ConnectorStatus(
        name=connector.name,
        kind=connector.kind,
        state=_state(connector, snapshot, rounds, waits),
        waiting_for=waits,
        tasks=[
            TaskStatus(
                task=task.index,
                session=task.session,
                state="active" if task.active else "stopped" if task.stopped else "lapsed",
                last_poll_age_ms=age_ms(task),
            )
            for task in sorted(connector.current_tasks, key=lambda task: task.index)
        ],
        task_count=connector.task_count,
        groups=summary.groups,
        exact=summary.exact,
        bounded=summary.bounded,
        pending=summary.pending,
        reasons=dict(summary.reasons),
        last_success_ms=summary.last_success_ms,
        last_round_seconds=summary.last_round_seconds,
        rounds=summary.rounds,
        checkpoints=summary.checkpoints,
        unreadable_records=dict(summary.unreadable_records),
        records_waiting=traffic.waiting,
        records_in_flight=traffic.in_flight,
        records_written=traffic.written,
        oldest_waiting_ms=traffic.oldest_waiting_ms,
        conditions=lasting,
        errors=[
            each.detail
            for each in lasting
            if each.condition not in _NO_ERRORS and each.detail != summary.failure
        ],
        failure=summary.failure,
        copying=snapshot.copying.totals,
        ignored_settings=list(connector.ignored),
    )


def waiting_for(connector: Connector, snapshot: ConnectorSnapshot, rounds: RoundsState) -> list[str]:
    """Says what a connector waits for before it can work, or go on; empty while it works, and after a failure, which
    says more."""
    if snapshot.summary.failure is not None:
        return []
    if connector.elsewhere:
        return []
    if not connector.active():
        return [waits_for_start(connector)]
    if rounds is not RoundsState.RUNNING:
        return ["rounds process"]
    summary = snapshot.summary
    if away := [f"{side} cluster" for side in CLUSTERS if side in summary.away_since_ms]:
        return away
    if not _has_begun(snapshot):
        # Both clusters may have answered: then an error holds it up, and says what would be right.
        unseen = [f"{side} cluster" for side in CLUSTERS if side not in summary.clusters_seen]
        return list(summary.errors[:1]) or unseen or ["its first round"]
    return [summary.waits_for] if summary.waits_for else []


def _has_begun(snapshot: ConnectorSnapshot) -> bool:
    return snapshot.summary.rounds > 0 and snapshot.summary.clusters_seen.issuperset(CLUSTERS)


def _state(
    connector: Connector, snapshot: ConnectorSnapshot, rounds: RoundsState, waits: Sequence[str]
) -> str:
    if snapshot.summary.failure is not None:
        return "failed"
    if not connector.active():
        return ELSEWHERE if connector.elsewhere else "idle"
    if rounds is not RoundsState.RUNNING:
        return rounds.value
    if snapshot.instance is not None and snapshot.instance.error is not None:
        return "restarting"
    if not _has_begun(snapshot):
        return "starting"
    # One that finds nothing to work on is at work: its clusters answer, and it looks again.
    return RUNNING if list(waits) in ([], [snapshot.summary.waits_for]) else WAITING


def can_take_work(rounds: RoundsState, *, draining: bool, overload: str | None) -> Ready:
    """Whether the service accepts work. `overload`: why it would refuse another configuration now; None when it would
    not."""
    reasons = [_NOT_RUNNING[rounds]] if rounds in _NOT_RUNNING else []
    if draining:
        reasons.append("the service is shutting down")
    if overload is not None:
        reasons.append(overload)
    return Ready(status="not_ready" if reasons else "ready", reasons=reasons)


def overall(
    connectors: Iterable[ConnectorStatus], rounds: RoundsState, flows: Iterable[FlowStatus] = ()
) -> str:
    """Sums up the state of the service. `down`: nothing is synced. `degraded`: something is not, on purpose or by an
    error. `starting`: something has just started and does not work yet. `ok`: everything works. A flow that another
    node runs is well."""
    connector = list(connectors)
    states = [status.state for status in connector]
    if rounds in (RoundsState.RESTARTING, RoundsState.STALLED, RoundsState.STOPPED):
        return "down"
    if states and all(state == "failed" for state in states):
        return "down"
    named = {each.condition for status in connector for each in status.conditions}
    for each in flows:
        if each.detail is not None:
            named.add(each.state)
        elif each.state == WAITING:
            named.add(STARTING)
    if named - {STARTING, GONE}:
        return "degraded"
    return STARTING if STARTING in named or rounds is RoundsState.STARTING else "ok"
