"""Explains why a connector, or a task, is not running, and what to do. Pure."""

from __future__ import annotations

from typing import NamedTuple

from bridge.service.state.task_table import Connector, Task

_PAUSED = "Connect has paused it, or is still writing its records; check its status in Connect"


class NotRunning(NamedTuple):
    condition: str
    detail: str


def why_not_running(connector: Connector) -> NotRunning:
    """Why a connector has no running task."""
    idle = [task for task in connector.tasks.values() if task.idle and task.index < connector.task_count]
    if idle and not connector.stopped:
        return NotRunning(
            "paused", f"connector {connector.name} is alive, but Connect does not poll its tasks: {_PAUSED}"
        )
    if connector.stopped and connector.tasks and not all(task.stopped for task in connector.tasks.values()):
        return NotRunning("paused", f"connector {connector.name} is paused: resume it in Connect")
    if connector.stopped:
        return NotRunning(
            "stopped",
            f"connector {connector.name} is stopped or deleted: start it in Connect, or, if it was deleted, "
            f"remove it here with DELETE /v1/connectors/{connector.name}",
        )
    if connector.tasks:
        return NotRunning(
            "not_polled",
            f"Connect does not poll connector {connector.name}: check the status of its tasks in Connect, "
            "and its worker",
        )
    return NotRunning(
        "no_task", f"Connect has started no task of connector {connector.name}: check its status in Connect"
    )


def lapsed(connector: Connector, task: Task, age_ms: int) -> str:
    if task.idle:
        return f"task {task.index} of connector {connector.name} is alive, but Connect does not poll it: {_PAUSED}"
    if task.stopped:
        return f"task {task.index} of connector {connector.name} is stopped"
    return (
        f"task {task.index} of connector {connector.name} has not polled for {age_ms // 1000} s: check its status in "
        "Connect, and its worker"
    )


def missing_tasks(connector: Connector) -> list[int]:
    """Tasks that the connector has by its task count and that Connect has never started."""
    return [index for index in range(connector.task_count) if index not in connector.tasks]
