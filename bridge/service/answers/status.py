"""Builds what health and status answer, from the table and the snapshots. Pure.

Ready means that the service can accept work and carry it out, whatever its connectors wait for: a service that became
ready only with its first connector could never be reached by that one. What a connector waits for is in its status.

Names what is wrong with a connector: what it does not do, why, since when, and what to do. Pure; the table is in
docs/readiness.md.

Whether a connector that is gone is needed no more: it was renamed, say. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from bridge.model.partition_states import PartitionState
from bridge.protocol.messages import ConnectorStatus, FlowStatus, Ready, TaskStatus
from bridge.protocol.operators import Condition
from bridge.service.state.delivery import Traffic
from bridge.service.state.not_running import (
    lapsed,
    missing_tasks,
    not_started,
    not_written,
    waits_for_start,
    why_not_running,
)
from bridge.service.state.other_services import others
from bridge.service.state.snapshots import SILENT_SECONDS, ConnectorSnapshot, RoundsState, Snapshots
from bridge.service.state.task_table import Connector, Task
from connectors.base import COPYING_KINDS, GROUP_KINDS, Summary

STARTING = "starting"
GONE = "gone"
"""The name in why_not_running: an operator has stopped or deleted it, and others work. Degrades nothing."""
STARTING_MS = 60_000
"""A connector that was started or restarted may need this long before it works, without an alarm."""
LONG_MS = 120_000
"""Records that wait longer while the connector is active are an error: its tasks poll without getting them, because
the ones in flight are not acknowledged."""
_SIDES = ("source", "target")
_OF_PARTITIONS = {PartitionState.WAITING: "partition_waiting", PartitionState.FAILED: "partition_failed"}
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


def conditions(
    connector: Connector,
    snapshot: ConnectorSnapshot,
    traffic: Traffic,
    rounds: RoundsState,
    waits: Sequence[str],
    begun_ms: int,
    age_ms: Callable[[Task], int],
    other_tasks: Collection[int] = (),
) -> list[Condition]:
    """Lists the conditions of a connector; empty for a healthy one. `waits`: what it waits for; `begun_ms`: time since
    its start or restart; `other_tasks`: tasks that run on other services."""
    young = begun_ms < STARTING_MS
    listed = [*_failed(snapshot), *_tasks(connector, young, age_ms, other_tasks)]
    if rounds not in (RoundsState.RUNNING, RoundsState.STARTING):
        listed.append(
            _condition(
                "rounds_process_down", f"the rounds process is {rounds.value}: see the log of the service"
            )
        )
    if connector.same_cluster:
        listed.append(
            _condition("same_cluster", f"target.cluster.bootstrap.servers: {connector.same_cluster}")
        )
    listed += [
        _condition(
            "same_groups",
            f"connector {other} commits the offsets of {count} of its groups too, and both report them: give "
            "one of the two other groups, or delete it",
        )
        for other, count in sorted(connector.shared_groups.items())
    ]
    listed += _away(connector, snapshot)
    if snapshot.instance is not None and snapshot.instance.error is not None:
        listed.append(
            _condition(
                "restarting",
                f"the connector's instance has failed {snapshot.instance.restarts} time(s) and restarts in "
                f"{snapshot.instance.retry_in:.0f} s: {snapshot.instance.error}",
            )
        )
    reported = {_last_error(snapshot, side) for side in snapshot.summary.away_since_ms}
    listed += [
        _of_error(snapshot.summary, error) for error in snapshot.summary.errors if error not in reported
    ]
    listed += [_condition("gap", gap) for gap in snapshot.summary.gaps]
    if connector.active() and traffic.oldest_waiting_ms is not None and traffic.oldest_waiting_ms >= LONG_MS:
        listed.append(
            _condition(
                "records_waiting",
                f"{traffic.waiting} record(s) wait for a poll{'' if connector.dedicated else ' of Connect'}, "
                f"the oldest for {traffic.oldest_waiting_ms // 1000} s; "
                f"{traffic.in_flight} are in flight and not acknowledged: {not_written(connector)}",
            )
        )
    if waits and not listed:
        listed.append(_waits(connector, waits, begun_ms, young=young))
    return listed


def _failed(snapshot: ConnectorSnapshot) -> list[Condition]:
    summary = snapshot.summary
    if summary.failure is None:
        return []
    return [_condition(summary.failure_code or "failed", summary.failure)]


def _tasks(
    connector: Connector, young: bool, age_ms: Callable[[Task], int], other_tasks: Collection[int]
) -> list[Condition]:
    if connector.recorded or (connector.elsewhere and connector.kind in COPYING_KINDS):
        return []  # none of its tasks, or its one task, is to run here
    if not connector.active() and not connector.elsewhere:
        why = why_not_running(connector)
        if young and why.condition in ("no_task", "not_polled"):
            return [_condition(STARTING, f"connector {connector.name} has no task yet")]
        return [_condition(why.condition, why.detail)]
    lasting = [
        _condition(
            "task_stopped" if task.stopped else "task_paused" if task.idle else "task_lapsed",
            lapsed(connector, task, age_ms(task)),
        )
        for task in connector.current_tasks
        if not task.active and task.index not in other_tasks
    ]
    if missing := [task for task in missing_tasks(connector) if task not in other_tasks]:
        listed = ", ".join(map(str, missing))
        if young:
            lasting.append(_condition(STARTING, f"connector {connector.name} has no task {listed} yet"))
        else:
            lasting.append(_condition("task_missing", not_started(connector, missing)))
    return lasting


def _away(connector: Connector, snapshot: ConnectorSnapshot) -> list[Condition]:
    """Lists clusters that did not answer the last round, or the validation and nothing since."""
    summary, away = snapshot.summary, []
    for side in _SIDES:
        since = summary.away_since_ms.get(side)
        text = connector.unreachable.get(side) if side not in summary.clusters_seen else None
        if since is None and text is None:
            continue
        detail = text or _last_error(snapshot, side) or f"the {side} cluster does not answer"
        if text is None and not connector.active():
            detail = f"the {side} cluster did not answer the last request, and no running task sends another"
        away.append(_condition(f"{side}_unreachable", detail, since))
    return away


def _of_error(summary: Summary, error: str) -> Condition:
    """An error that lasts: of single partitions by their state, or of the whole."""
    state, since_ms = summary.partitions.get(error, (None, None))
    return _condition("trouble" if state is None else _OF_PARTITIONS[state], error, since_ms)


def _last_error(snapshot: ConnectorSnapshot, side: str) -> str | None:
    return next((error for error in snapshot.summary.errors if error.startswith(f"{side} cluster: ")), None)


def _waits(connector: Connector, waits: Sequence[str], begun_ms: int, *, young: bool) -> Condition:
    listed = ", ".join(waits)
    if young:
        return _condition(STARTING, f"connector {connector.name} waits for: {listed}")
    return _condition(
        "not_begun",
        f"connector {connector.name} has not begun to work within {begun_ms // 1000} s; it waits for: {listed}",
    )


def _condition(condition: str, detail: str, since_ms: int | None = None) -> Condition:
    return Condition(condition=condition, detail=detail, since_ms=since_ms)


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
            condition.detail
            for condition in lasting
            if condition.condition not in _NO_ERRORS and condition.detail != summary.failure
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
    named = {condition.condition for status in connector for condition in status.conditions}
    for flow in flows:
        if flow.detail is not None:
            named.add(flow.state)
        elif flow.state == WAITING:
            named.add(STARTING)
    if named - {STARTING, GONE}:
        return "degraded"
    return STARTING if STARTING in named or rounds is RoundsState.STARTING else "ok"


def superseded(connector: Connector, connectors: Iterable[Connector], snapshots: Snapshots) -> bool:
    """Whether running connectors of the same flow report each group that it has reported, and it has moved none: only
    itself can roll a group back."""
    running = [
        snapshots.connector(each.name).groups
        for each in connectors
        if each.kind in GROUP_KINDS and each.flow == connector.flow and (each.active() or each.elsewhere)
    ]
    return all(
        moved_ms is None and any(group in groups for groups in running)
        for group, *_, moved_ms, _, _, _, _ in snapshots.connector(connector.name).groups.values()
    )
