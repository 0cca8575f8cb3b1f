"""Explains why a connector, or a task, is not running, and what to do. Pure.

Connect starts and polls connectors, or, in dedicated mode, this node does (bridge.dedicated): what to look at differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bridge.service.state.task_table import GONE_MS, Connector, Task

_PAUSED = "Connect has paused it, or is still writing its records; check its status in Connect"


class NotRunning(NamedTuple):
    condition: str
    detail: str


def why_not_running(connector: Connector) -> NotRunning:
    """Why a connector has no running task."""
    if connector.dedicated:
        return _not_running_here(connector)
    tasks = connector.current_tasks
    if connector.elsewhere:
        return NotRunning(
            "elsewhere",
            f"the tasks of connector {connector.name} run on another service: send the request to that one",
        )
    if any(task.idle for task in tasks) and not connector.stopped:
        return NotRunning(
            "paused", f"connector {connector.name} is alive, but Connect does not poll its tasks: {_PAUSED}"
        )
    if connector.gone:
        return NotRunning(
            "gone",
            f"Connect stopped or deleted connector {connector.name} more than {GONE_MS // 60_000} minutes ago: start "
            f"it in Connect, or, if it was deleted, mirror-bridge forget {connector.name}",
        )
    if connector.seen_elsewhere:
        return NotRunning(
            "stopped",
            f"connector {connector.name} ran on another service, which no longer reports it: check that service, and "
            f"the connector's status in Connect; if it was deleted, mirror-bridge forget {connector.name}",
        )
    if connector.stopped and not connector.stopped_whole:
        # Connect's call that ends the connector can be lost with its worker: then only its tasks have ended here.
        return NotRunning(
            "paused",
            f"connector {connector.name} is paused: resume it in Connect, or, if it was deleted, mirror-bridge forget "
            f"{connector.name}",
        )
    if connector.stopped:
        return NotRunning(
            "stopped",
            f"connector {connector.name} is stopped or deleted: start it in Connect, or, if it was deleted, "
            f"mirror-bridge forget {connector.name}",
        )
    if tasks:
        return NotRunning(
            "not_polled",
            f"Connect does not poll connector {connector.name}: check the status of its tasks in Connect, "
            "and its worker",
        )
    return NotRunning(
        "no_task", f"Connect has started no task of connector {connector.name}: check its status in Connect"
    )


def _not_running_here(connector: Connector) -> NotRunning:
    name = connector.name
    if connector.stopped:
        return NotRunning(
            "stopped", f"connector {name} is stopped: its flow goes to another node, or this node ends"
        )
    if connector.current_tasks:
        return NotRunning(
            "not_polled", f"this node does not poll connector {name}: check the log of this node"
        )
    return NotRunning(
        "no_task", f"this node has not started connector {name} yet: check the log of this node"
    )


def waits_for_start(connector: Connector) -> str:
    """Says in short what a connector without a running task waits for."""
    runner = "this node" if connector.dedicated else "Connect"
    if connector.dedicated:
        if connector.stopped:
            return f"a start: {runner} has stopped it"
    elif why_not_running(connector).condition == "paused":
        return (
            "a resume: Connect has paused it"
            if connector.stopped
            else "polls: Connect has paused it, or is busy"
        )
    elif connector.stopped:
        return f"a start: {runner} has stopped it, or it was deleted"
    return f"a task: {'the leases of all have expired' if connector.current_tasks else f'{runner} has started none'}"


def lapsed(connector: Connector, task: Task, age_ms: int) -> str:
    what = f"task {task.index} of connector {connector.name}"
    if task.idle:
        return f"{what} is alive, but Connect does not poll it: {_PAUSED}"
    if task.stopped:
        return f"{what} is stopped"
    return f"{what} has not polled for {age_ms // 1000} s: {check_polls(connector)}"


def check_polls(connector: Connector) -> str:
    """Says what to check where no polls arrive."""
    return (
        "check the log of this node" if connector.dedicated else "check its status in Connect, and its worker"
    )


def missing_tasks(connector: Connector) -> list[int]:
    """Tasks that the connector has by its task count and that were never started here."""
    return [index for index in range(connector.task_count) if index not in connector.tasks]


def not_started(connector: Connector, tasks: Sequence[int]) -> str:
    """Why tasks are missing."""
    listed = ", ".join(map(str, tasks))
    if connector.dedicated:
        return f"this node has not started task {listed} of connector {connector.name}: check the log of this node"
    return (
        f"Connect has not started task {listed} of connector {connector.name} on this service: "
        "check its status in Connect, and whether all workers have the same bridge.url"
    )


def not_written(connector: Connector) -> str:
    """Says what to check where records are not polled or not acknowledged."""
    if connector.dedicated:
        return (
            "the node has not written them to the target: check the flow's detail in /health, and the log of this "
            "node"
        )
    return "check the status of the tasks in Connect"
