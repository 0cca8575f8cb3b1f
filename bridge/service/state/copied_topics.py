"""What the connectors of the service copy now, for whoever is about to copy the same."""

from __future__ import annotations

from bridge.service.state.snapshots import Snapshots
from bridge.service.state.task_table import TaskTable
from connectors.base import CopiedTopics


def copied_topics(table: TaskTable, snapshots: Snapshots, kind: str) -> list[CopiedTopics]:
    """Of those with a task that runs: what was handed back since is no other's any more."""
    return [
        CopiedTopics(each.name, each.config, _topics(snapshots, each.name))
        for each in table
        if each.kind == kind and each.active()
    ]


def _topics(snapshots: Snapshots, name: str) -> set[tuple[str, str]]:
    return {(row.topic, row.target_topic) for row in snapshots.connector(name).copying.partitions()}
