"""Tasks of a connector that other services look after, as the readiness topic tells of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bridge.protocol.operators import ReadinessReason
from bridge.service.state.task_table import Connector
from connectors.base import Summary

MOST_INTERVALS = 3
"""A verdict that is older than so many intervals of its connector is none,"""
LEAST_AGE_MS = 5_000
"""or than so long, where intervals are short: a busy machine may pause for a few seconds."""
_AHEAD_MS = 5_000
"""By which the clock of another service may be ahead of ours."""


class Others(NamedTuple):
    """`as_of_ms`: of tasks whose groups another service has looked at, and that it still looks after. `unknown`: of all
    other tasks that don't run here, why nothing is known."""

    as_of_ms: Mapping[int, int]
    unknown: Mapping[int, ReadinessReason]


def others(known: Connector, said: Summary, now_ms: int, *, source_away: bool) -> Others:
    """While the source is away what was known when it answered last still counts, as in the service's own rounds."""
    as_of_ms: dict[int, int] = {}
    unknown: dict[int, ReadinessReason] = {}
    active = known.active()
    for task in range(known.task_count):
        if task in active:
            continue
        looked = said.elsewhere.get(task)
        if looked is None:
            if task not in known.tasks:
                text = (
                    f"nothing is known of task {task} of connector {known.name}: it runs beside another service, which "
                    "has written no record of it, or does not run; look at its status in Connect"
                )
                unknown[task] = ReadinessReason(reason="task_lapsed", detail=text)
            continue
        at_ms, interval_ms = looked
        age, longest = now_ms - at_ms, max(LEAST_AGE_MS, MOST_INTERVALS * interval_ms)
        if age < -_AHEAD_MS:
            text = (
                f"the groups of task {task} of connector {known.name} were looked at by another service whose clock is "
                f"more than {_AHEAD_MS // 1000} s ahead of this one's: set the clocks"
            )
            unknown[task] = ReadinessReason(reason="outdated", detail=text)
        elif age > longest and not source_away:
            text = (
                f"task {task} of connector {known.name} runs beside another service, which has not looked at its "
                f"groups for more than {longest // 1000} s: look at that service, and at the task's worker"
            )
            unknown[task] = ReadinessReason(reason="outdated", detail=text, since_ms=at_ms)
        else:
            as_of_ms[task] = at_ms
    return Others(as_of_ms, unknown)
