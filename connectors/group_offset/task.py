"""MirrorGroupOffsetConnector at work."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.translation.model import Side
from connectors.base import Publisher
from connectors.group_offset.options import GroupOffsetOptions
from connectors.groups.instance import GroupsInstance
from connectors.groups.ways import ByRecords, ByTimestamp, Way
from connectors.ports import Clusters


class GroupOffsetInstance(GroupsInstance[GroupOffsetOptions]):
    """Groups of the source resume on the target where the records say; see connectors.groups."""

    def __init__(
        self,
        name: str,
        options: GroupOffsetOptions,
        clusters: Clusters,
        props: Mapping[str, str],
        publisher: Publisher,
    ) -> None:
        sides = clusters.open(Side.SOURCE, props), clusters.open(Side.TARGET, props)
        super().__init__(name, options, clusters, sides, publisher, way(options), options.sync_interval)


def way(options: GroupOffsetOptions) -> Way:
    return ByRecords() if options.verify else ByTimestamp()
