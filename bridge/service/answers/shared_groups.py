"""Finds groups whose offsets two connectors of one flow commit: a second one was made by mistake, say. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from bridge.model.java_values import boolean
from bridge.service.state.snapshots import Snapshots
from bridge.service.state.task_table import Connector
from connectors.base import GROUP_KINDS


def shared_groups(connectors: Iterable[Connector], snapshots: Snapshots) -> dict[str, Mapping[str, int]]:
    """By connector, the others that commit offsets of its groups, and of how many."""
    flows = defaultdict[tuple[str | None, str], list[Connector]](list)
    for connector in connectors:
        if connector.active() and _commits(connector):
            flows[connector.flow].append(connector)
    result = defaultdict[str, Counter[str]](Counter)
    for together in flows.values():
        if len(together) < 2:
            continue
        names = defaultdict[str, list[str]](list)
        for connector in together:
            for group in snapshots.connector(connector.name).groups:
                names[group].append(connector.name)
        for several in names.values():
            for name in several if len(several) > 1 else ():
                result[name].update(other for other in several if other != name)
    return dict(result)


def _commits(connector: Connector) -> bool:
    """Of a checkpoint connector that syncs no offsets, another one commits them."""
    if connector.kind not in GROUP_KINDS or _on(connector, "dry.run"):
        return False
    return connector.kind != "checkpoint" or _on(connector, "sync.group.offsets.enabled")


def _on(connector: Connector, key: str) -> bool:
    return boolean(connector.config.get(key) or "") is True
