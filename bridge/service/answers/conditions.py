"""Names what is wrong with a connector: what it does not do, why, since when, and what to do. Pure; the table is in
docs/readiness.md."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from bridge.model.partition_states import PartitionState
from bridge.protocol.operators import Condition
from bridge.service.state.delivery import Traffic
from bridge.service.state.not_running import (
    lapsed,
    missing_tasks,
    not_started,
    not_written,
    why_not_running,
)
from bridge.service.state.rounds_state import RoundsState
from bridge.service.state.snapshots import ConnectorSnapshot
from bridge.service.state.task_table import Connector, Task
from connectors.base import COPYING_KINDS, Summary

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
