"""Why a connector, or a task, does not run, and what to do: in the words of every surface. Pure."""

from __future__ import annotations

from typing import NamedTuple

from bridge.service.state.task_table import Connector, Task

_PAUSED = "Connect has paused it, or waits to write its records; look at its status in Connect"


class Halt(NamedTuple):
    condition: str
    detail: str


def halt(known: Connector) -> Halt:
    """Of a connector without a running task."""
    idle = [task for task in known.tasks.values() if task.idle and task.index < known.task_count]
    if idle and not known.stopped:
        return Halt("paused", f"connector {known.name} is alive and not polled: {_PAUSED}")
    if known.stopped and known.tasks and not all(task.stopped for task in known.tasks.values()):
        return Halt("paused", f"connector {known.name} is paused: resume it in Connect")
    if known.stopped:
        return Halt(
            "stopped",
            f"connector {known.name} is stopped or deleted: start it in Connect, or, if it was deleted, forget it with "
            f"DELETE /v1/connectors/{known.name}",
        )
    if known.tasks:
        return Halt(
            "not_polled",
            f"connector {known.name} is not polled: look at its tasks' status in Connect, and at its worker",
        )
    return Halt(
        "no_task", f"Connect has started no task of connector {known.name}: look at its status in Connect"
    )


def lapsed(known: Connector, task: Task, age_ms: int) -> str:
    if task.idle:
        return f"task {task.index} of connector {known.name} is alive and not polled: {_PAUSED}"
    if task.stopped:
        return f"task {task.index} of connector {known.name} is stopped"
    return (
        f"task {task.index} of connector {known.name} has not polled for {age_ms // 1000} s: look at its status in "
        "Connect, and at its worker"
    )


def missing_tasks(known: Connector) -> list[int]:
    """Tasks that Connect has been asked for and has never started."""
    return [index for index in range(known.task_count) if index not in known.tasks]
