"""Explains why a connector, or a task, is not running, and what to do. Pure."""

from __future__ import annotations

from typing import NamedTuple

from bridge.service.state.task_table import Connector, Task

_PAUSED = "Connect has paused it, or is still writing its records; check its status in Connect"


class Halt(NamedTuple):
    condition: str
    detail: str


def halt(known: Connector) -> Halt:
    """Why a connector has no running task."""
    idle = [task for task in known.tasks.values() if task.idle and task.index < known.task_count]
    if idle and not known.stopped:
        return Halt(
            "paused", f"connector {known.name} is alive, but Connect does not poll its tasks: {_PAUSED}"
        )
    if known.stopped and known.tasks and not all(task.stopped for task in known.tasks.values()):
        return Halt("paused", f"connector {known.name} is paused: resume it in Connect")
    if known.stopped:
        return Halt(
            "stopped",
            f"connector {known.name} is stopped or deleted: start it in Connect, or, if it was deleted, remove it "
            f"here with DELETE /v1/connectors/{known.name}",
        )
    if known.tasks:
        return Halt(
            "not_polled",
            f"Connect does not poll connector {known.name}: check the status of its tasks in Connect, and its worker",
        )
    return Halt(
        "no_task", f"Connect has started no task of connector {known.name}: check its status in Connect"
    )


def lapsed(known: Connector, task: Task, age_ms: int) -> str:
    if task.idle:
        return (
            f"task {task.index} of connector {known.name} is alive, but Connect does not poll it: {_PAUSED}"
        )
    if task.stopped:
        return f"task {task.index} of connector {known.name} is stopped"
    return (
        f"task {task.index} of connector {known.name} has not polled for {age_ms // 1000} s: check its status in "
        "Connect, and its worker"
    )


def missing_tasks(known: Connector) -> list[int]:
    """Tasks that the connector has by its task count and that Connect has never started."""
    return [index for index in range(known.task_count) if index not in known.tasks]
