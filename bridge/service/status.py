"""What health and status say, from the table and the snapshots: pure functions.

Ready means: at least one connector is known, the rounds process runs, and every connector that has an
active task has seen both of its clusters. Not ready is 503 with what is waited
for. (Use /health/live for what routes the shim's requests to a service: it becomes ready only by them.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from bridge.protocol.messages import ConnectorStatus, Ready, TaskStatus
from bridge.service.delivery import Traffic
from bridge.service.engine import EngineState
from bridge.service.snapshots import ConnectorSnapshot
from bridge.service.tasks import Connector, Task

CLUSTERS = ("source", "target")
LONG_MS = 120_000
"""Records that wait for longer while the connector is active are an error that lasts: its tasks poll, and don't take
them, because Connect does not acknowledge those before."""


def connector_status(
    known: Connector, snapshot: ConnectorSnapshot, traffic: Traffic, age_ms: Callable[[Task], int]
) -> ConnectorStatus:
    said = snapshot.summary
    errors = [*said.errors, *said.gaps]
    if snapshot.note is not None and snapshot.note.error is not None:
        errors.append(
            f"instance broke {snapshot.note.restarts} time(s), is made anew in "
            f"{snapshot.note.retry_in:.0f} s: {snapshot.note.error}"
        )
    if known.active() and traffic.oldest_waiting_ms is not None and traffic.oldest_waiting_ms >= LONG_MS:
        errors.append(
            f"{traffic.waiting} record(s) wait to be written by Connect, the first for "
            f"{traffic.oldest_waiting_ms // 1000} s; {traffic.in_flight} were handed out and are not acknowledged"
        )
    return ConnectorStatus(
        name=known.name,
        kind=known.kind,
        state=_state(known, snapshot),
        tasks=[
            TaskStatus(
                task=task.index,
                session=task.session,
                state="active" if task.active else "stopped" if task.stopped else "lapsed",
                last_poll_age_ms=age_ms(task),
            )
            for task in sorted(known.tasks.values(), key=lambda task: task.index)
            if task.index < known.task_count
        ],
        task_count=known.task_count,
        groups=said.groups,
        exact=said.exact,
        bounded=said.bounded,
        pending=said.pending,
        reasons=dict(said.reasons),
        last_success_ms=said.last_success_ms,
        last_round_seconds=said.last_round_seconds,
        rounds=said.rounds,
        checkpoints=said.checkpoints,
        unreadable_records=said.unreadable_records,
        records_waiting=traffic.waiting,
        records_in_flight=traffic.in_flight,
        records_written=traffic.written,
        oldest_waiting_ms=traffic.oldest_waiting_ms,
        errors=errors,
        failure=said.failure,
        copying=snapshot.copying.totals,
    )


def _state(known: Connector, snapshot: ConnectorSnapshot) -> str:
    if snapshot.summary.failure is not None:
        return "failed"
    if not known.active():
        return "idle"
    if snapshot.note is not None and snapshot.note.error is not None:
        return "restarting"
    return "running" if snapshot.summary.rounds > 0 else "starting"


def readiness(connectors: Iterable[tuple[Connector, ConnectorSnapshot]], engine: EngineState) -> Ready:
    waiting: list[str] = [] if engine is EngineState.RUNNING else ["rounds process"]
    known = list(connectors)
    if not known:
        waiting.append("connector")
    for connector, snapshot in known:
        if connector.active():
            waiting += [
                f"{connector.name}: {side} cluster"
                for side in CLUSTERS
                if side not in snapshot.summary.clusters_seen
            ]
    return Ready(status="waiting" if waiting else "ready", waiting_for=waiting)


def overall(connectors: Iterable[ConnectorStatus], engine: EngineState) -> str:
    """`down`: nothing is synced. `degraded`: something is not, and it lasts."""
    states = [(status.state, bool(status.errors)) for status in connectors if status.state != "idle"]
    if engine in (EngineState.RESTARTING, EngineState.STALLED, EngineState.STOPPED):
        return "down"
    if states and all(state == "failed" for state, _ in states):
        return "down"
    if any(state in ("failed", "restarting") or errors for state, errors in states):
        return "degraded"
    return "ok"
