"""What health and status say, from the table and the snapshots: pure functions.

Ready says that the service can take work and do it, whatever its connectors wait for: a service that was ready only
once a connector is known could never be reached by the first one. What a connector waits for is in its status.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from bridge.protocol.messages import ConnectorStatus, Ready, TaskStatus
from bridge.service.delivery import Traffic
from bridge.service.engine import SILENT_SECONDS, EngineState
from bridge.service.readiness import lapsed, stopped
from bridge.service.snapshots import ConnectorSnapshot
from bridge.service.tasks import Connector, Task

CLUSTERS = ("source", "target")
LONG_MS = 120_000
"""Records that wait for longer while the connector is active are an error that lasts: its tasks poll, and don't take
them, because Connect does not acknowledge those before."""


_NOT_RUNNING = {
    EngineState.STARTING: "the rounds process is starting",
    EngineState.RESTARTING: "the rounds process has ended and is started again",
    EngineState.STALLED: f"the rounds process has given no sign of life for {SILENT_SECONDS:.0f} s",
    EngineState.STOPPED: "the rounds process is stopped",
}


def connector_status(
    known: Connector,
    snapshot: ConnectorSnapshot,
    traffic: Traffic,
    engine: EngineState,
    age_ms: Callable[[Task], int],
) -> ConnectorStatus:
    said, waits = snapshot.summary, waiting_for(known, snapshot, engine)
    errors = [*said.errors, *said.gaps, *_unreachable(known, snapshot)]
    if snapshot.note is not None and snapshot.note.error is not None:
        errors.append(
            f"instance broke {snapshot.note.restarts} time(s), is made anew in "
            f"{snapshot.note.retry_in:.0f} s: {snapshot.note.error}"
        )
    if known.active():
        errors += [lapsed(known, task, age_ms(task)) for task in known.tasks.values() if _lapsed(known, task)]
    else:
        errors.append(stopped(known))
    if known.active() and traffic.oldest_waiting_ms is not None and traffic.oldest_waiting_ms >= LONG_MS:
        errors.append(
            f"{traffic.waiting} record(s) wait to be written by Connect, the first for "
            f"{traffic.oldest_waiting_ms // 1000} s; {traffic.in_flight} were handed out and are not acknowledged"
        )
    return ConnectorStatus(
        name=known.name,
        kind=known.kind,
        state=_state(known, snapshot, engine, waits),
        waiting_for=waits,
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
        unreadable_records=dict(said.unreadable_records),
        records_waiting=traffic.waiting,
        records_in_flight=traffic.in_flight,
        records_written=traffic.written,
        oldest_waiting_ms=traffic.oldest_waiting_ms,
        errors=errors,
        failure=said.failure,
        copying=snapshot.copying.totals,
        ignored_settings=list(known.ignored),
    )


def _unreachable(known: Connector, snapshot: ConnectorSnapshot) -> list[str]:
    """Of clusters that have not answered since."""
    seen = snapshot.summary.clusters_seen
    return [text for side, text in known.unreachable.items() if side not in seen]


def _lapsed(known: Connector, task: Task) -> bool:
    return task.index < known.task_count and not task.active


def waiting_for(known: Connector, snapshot: ConnectorSnapshot, engine: EngineState) -> list[str]:
    """What a connector needs before it does its work; empty while it does it, and where a failure says more."""
    if snapshot.summary.failure is not None:
        return []
    if not known.active():
        if known.stopped:
            return ["a start: Connect has stopped it"]
        return [f"a task: {'none has polled for its lease' if known.tasks else 'Connect has started none'}"]
    if engine is not EngineState.RUNNING:
        return ["rounds process"]
    unseen = [f"{side} cluster" for side in CLUSTERS if side not in snapshot.summary.clusters_seen]
    return unseen or ([] if snapshot.summary.rounds > 0 else ["its first round"])


def _state(known: Connector, snapshot: ConnectorSnapshot, engine: EngineState, waits: Sequence[str]) -> str:
    if snapshot.summary.failure is not None:
        return "failed"
    if not known.active():
        return "idle"
    if engine is not EngineState.RUNNING:
        return engine.value
    if snapshot.note is not None and snapshot.note.error is not None:
        return "restarting"
    return "starting" if waits else "running"


def can_take_work(engine: EngineState, *, draining: bool, overload: str | None) -> Ready:
    """`overload`: why another configuration would be refused now, None when it would be taken."""
    reasons = [_NOT_RUNNING[engine]] if engine in _NOT_RUNNING else []
    if draining:
        reasons.append("the service ends and takes no more work")
    if overload is not None:
        reasons.append(overload)
    return Ready(status="not_ready" if reasons else "ready", reasons=reasons)


def overall(connectors: Iterable[ConnectorStatus], engine: EngineState) -> str:
    """`down`: nothing is synced. `degraded`: something is not, on purpose or by a fault."""
    states = [(status.state, bool(status.errors)) for status in connectors]
    if engine in (EngineState.RESTARTING, EngineState.STALLED, EngineState.STOPPED):
        return "down"
    if states and all(state == "failed" for state, _ in states):
        return "down"
    if any(state not in ("running", "starting") or errors for state, errors in states):
        return "degraded"
    return "ok"
