"""What health says of a connector, by name: what it does not do, why, since when, and what to do. Pure; the table is in
docs/readiness.md."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from bridge.protocol.operators import Condition
from bridge.service.state.delivery import Traffic
from bridge.service.state.halts import halt, lapsed, missing_tasks
from bridge.service.state.rounds_state import RoundsState
from bridge.service.state.snapshots import ConnectorSnapshot
from bridge.service.state.task_table import Connector, Task

STARTING = "starting"
STARTING_MS = 60_000
"""For so long a connector that was started, or made anew, may do nothing yet without an alarm."""
LONG_MS = 120_000
"""Records that wait for longer while the connector is active are an error that lasts: its tasks poll, and don't take
them, because Connect does not acknowledge those before."""
_SIDES = ("source", "target")


def conditions(
    known: Connector,
    snapshot: ConnectorSnapshot,
    traffic: Traffic,
    rounds: RoundsState,
    waits: Sequence[str],
    begun_ms: int,
    age_ms: Callable[[Task], int],
    elsewhere: Collection[int] = (),
) -> list[Condition]:
    """Empty for one that does all that it is to do. `waits`: what it waits for; `begun_ms`: since it was started, or
    made anew; `elsewhere`: tasks that other services look after."""
    young = begun_ms < STARTING_MS
    found = [*_failed(snapshot), *_tasks(known, young, age_ms, elsewhere)]
    if rounds not in (RoundsState.RUNNING, RoundsState.STARTING):
        found.append(_named("rounds_process_down", f"the process that asks the clusters is {rounds.value}"))
    found += _away(known, snapshot)
    if snapshot.instance is not None and snapshot.instance.error is not None:
        found.append(
            _named(
                "restarting",
                f"instance broke {snapshot.instance.restarts} time(s), is made anew in "
                f"{snapshot.instance.retry_in:.0f} s: {snapshot.instance.error}",
            )
        )
    said = {_last_error(snapshot, side) for side in snapshot.summary.away_since_ms}
    found += [_named("trouble", error) for error in snapshot.summary.errors if error not in said]
    found += [_named("gap", gap) for gap in snapshot.summary.gaps]
    if known.active() and traffic.oldest_waiting_ms is not None and traffic.oldest_waiting_ms >= LONG_MS:
        found.append(
            _named(
                "records_waiting",
                f"{traffic.waiting} record(s) wait to be written by Connect, the first for "
                f"{traffic.oldest_waiting_ms // 1000} s; {traffic.in_flight} were handed out and are not acknowledged",
            )
        )
    if waits and not found:
        found.append(_waits(known, waits, begun_ms, young=young))
    return found


def _failed(snapshot: ConnectorSnapshot) -> list[Condition]:
    said = snapshot.summary
    return [_named(said.failure_code or "failed", said.failure)] if said.failure is not None else []


def _tasks(
    known: Connector, young: bool, age_ms: Callable[[Task], int], elsewhere: Collection[int]
) -> list[Condition]:
    if not known.active():
        why = halt(known)
        if young and why.condition in ("no_task", "not_polled"):
            return [_named(STARTING, f"connector {known.name} has no task yet")]
        return [_named(why.condition, why.detail)]
    found = [
        _named(
            "task_stopped" if task.stopped else "task_paused" if task.idle else "task_lapsed",
            lapsed(known, task, age_ms(task)),
        )
        for task in known.tasks.values()
        if task.index < known.task_count and not task.active and task.index not in elsewhere
    ]
    if missing := [task for task in missing_tasks(known) if task not in elsewhere]:
        listed = ", ".join(map(str, missing))
        if young:
            found.append(_named(STARTING, f"connector {known.name} has no task {listed} yet"))
        else:
            found.append(
                _named(
                    "task_missing",
                    f"Connect has not started task {listed} of connector {known.name} here: look at its status in "
                    "Connect, and whether all workers name the same bridge.url",
                )
            )
    return found


def _away(known: Connector, snapshot: ConnectorSnapshot) -> list[Condition]:
    """Clusters that did not answer the last round, or when the configuration was validated, and not since."""
    said, found = snapshot.summary, []
    for side in _SIDES:
        since = said.away_since_ms.get(side)
        text = known.unreachable.get(side) if side not in said.clusters_seen else None
        if since is None and text is None:
            continue
        detail = text or _last_error(snapshot, side) or f"the {side} cluster does not answer"
        if text is None and not known.active():
            detail = f"the {side} cluster did not answer when it was asked last, and no task asks it now"
        found.append(_named(f"{side}_unreachable", detail, since))
    return found


def _last_error(snapshot: ConnectorSnapshot, side: str) -> str | None:
    return next((error for error in snapshot.summary.errors if error.startswith(f"{side} cluster: ")), None)


def _waits(known: Connector, waits: Sequence[str], begun_ms: int, *, young: bool) -> Condition:
    listed = ", ".join(waits)
    if young:
        return _named(STARTING, f"connector {known.name} waits for: {listed}")
    return _named(
        "not_begun",
        f"connector {known.name} has done nothing for {begun_ms // 1000} s, it waits for: {listed}",
    )


def _named(condition: str, detail: str, since_ms: int | None = None) -> Condition:
    return Condition(condition=condition, detail=detail, since_ms=since_ms)
