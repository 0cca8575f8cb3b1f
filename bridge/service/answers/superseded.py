"""Whether a connector that is gone is needed no more: it was renamed, say. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from bridge.service.state.snapshots import Snapshots
from bridge.service.state.task_table import Connector
from connectors.base import GROUP_KINDS


def superseded(connector: Connector, connectors: Iterable[Connector], snapshots: Snapshots) -> bool:
    """Whether running connectors of the same flow report each group that it has reported, and it has moved none: only
    itself can roll a group back."""
    running = [
        snapshots.connector(each.name).groups
        for each in connectors
        if each.kind in GROUP_KINDS and each.flow == connector.flow and (each.active() or each.elsewhere)
    ]
    return all(
        moved_ms is None and any(group in groups for groups in running)
        for group, *_, moved_ms, _, _, _, _ in snapshots.connector(connector.name).groups.values()
    )
