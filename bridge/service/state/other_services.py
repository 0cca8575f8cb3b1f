"""Finds which tasks of a connector run on other services, from the readiness topic. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bridge.protocol.base import ReadinessReason
from bridge.service.state.not_running import not_started
from bridge.service.state.task_table import Connector
from connectors.base import Summary

MOST_INTERVALS = 3
"""A verdict older than this many intervals of its connector does not count,"""
LEAST_AGE_MS = 5_000
"""nor one older than this where intervals are short: a busy machine may pause for a few seconds."""
_AHEAD_MS = 5_000
"""How far the clock of another service may be ahead of this one's."""


class Others(NamedTuple):
    """Tasks that don't run on this service. `as_of_ms`: when another service last checked the groups of a task that it
    runs. `unknown`: of all others, why nothing is known."""

    as_of_ms: Mapping[int, int]
    unknown: Mapping[int, ReadinessReason]


def others(
    connector: Connector, summary: Summary, now_ms: int, monotonic_ms: int, *, source_away: bool
) -> Others:
    """While the source is away, what was known when it last answered still counts. `now_ms`, `monotonic_ms`: the time
    by the wall clock and by the monotonic one."""
    as_of_ms: dict[int, int] = {}
    unknown: dict[int, ReadinessReason] = {}
    active = connector.active()
    for task in range(connector.task_count):
        if task in active:
            continue
        report = summary.other_tasks.get(task)
        if report is None:
            if task not in connector.tasks:
                text = _not_reported(connector, task)
                unknown[task] = ReadinessReason(reason="task_lapsed", detail=text)
            continue
        at_ms, interval_ms, seen_ms = report
        age, longest = (
            max(now_ms - at_ms, monotonic_ms - seen_ms),
            max(LEAST_AGE_MS, MOST_INTERVALS * interval_ms),
        )
        if now_ms - at_ms < -_AHEAD_MS:
            text = (
                f"another service reports task {task} of connector {connector.name} by a clock that is more than "
                f"{_AHEAD_MS // 1000} s ahead of this service's: synchronize the clocks"
            )
            unknown[task] = ReadinessReason(reason="outdated", detail=text)
        elif age > longest and not source_away:
            text = (
                f"task {task} of connector {connector.name} runs on another service, which has not reported its groups "
                f"for more than {longest // 1000} s: check that service, and the task's worker"
            )
            unknown[task] = ReadinessReason(reason="outdated", detail=text, since_ms=at_ms)
        else:
            as_of_ms[task] = at_ms
    return Others(as_of_ms, unknown)


def run_elsewhere(summary: Summary, now_ms: int, monotonic_ms: int) -> set[str]:
    """Returns other connectors of which another service has just reported that it runs them. `summary`: of a connector
    of groups, whose rounds read that."""
    return {
        name
        for name, (at_ms, interval_ms, seen_ms) in summary.other_connectors.items()
        if now_ms - at_ms >= -_AHEAD_MS
        and max(now_ms - at_ms, monotonic_ms - seen_ms)
        <= max(LEAST_AGE_MS, MOST_INTERVALS * max(interval_ms, summary.interval_ms))
    }


def follow_groups(summary: Summary, now_ms: int, monotonic_ms: int) -> dict[str, int]:
    """Returns the connectors that follow the groups of a flow, as those that run them report now, with the time of that
    (ms). While the source is away they have nothing new to report, and what they have reported last still counts, but
    for what one has left that was gone before. `summary`: of the connector that copies."""
    group_connectors, away = summary.group_connectors or {}, "source" in summary.away_since_ms
    newest_ms, its_interval_ms, _ = max(group_connectors.values(), default=(0, 0, 0))

    def is_fresh(at_ms: int, interval_ms: int, seen_ms: int) -> bool:
        age_ms = newest_ms - at_ms if away else max(now_ms - at_ms, monotonic_ms - seen_ms)
        most_ms = max(interval_ms, its_interval_ms) if away else interval_ms
        return age_ms <= max(LEAST_AGE_MS, MOST_INTERVALS * most_ms)

    return {
        name: connector[0]
        for name, connector in group_connectors.items()
        if now_ms - connector[0] >= -_AHEAD_MS and is_fresh(*connector)
    }


def _not_reported(connector: Connector, task: int) -> str:
    if connector.dedicated:
        return not_started(connector, [task])
    return (
        f"task {task} of connector {connector.name} does not run on this service, and no other service reports it: "
        "check its status in Connect"
    )
