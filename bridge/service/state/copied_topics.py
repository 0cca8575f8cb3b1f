"""Lists what the connectors of the service copy now, to find conflicts with a new one."""

from __future__ import annotations

from bridge.service.state.snapshots import Snapshots
from bridge.service.state.task_table import TaskTable
from connectors.base import COPYING_KINDS, CopiedTopics


def copied_topics(table: TaskTable, snapshots: Snapshots) -> list[CopiedTopics]:
    """Returns the topics of connectors that have a running task: others may have handed their copies back."""
    return [
        CopiedTopics(each.name, each.config, _topics(snapshots, each.name))
        for each in table
        if each.kind in COPYING_KINDS and each.active()
    ]


def _topics(snapshots: Snapshots, name: str) -> set[tuple[str, str]]:
    return {(row.topic, row.target_topic) for row in snapshots.connector(name).copying.partitions()}
