"""MirrorGroupOffsetConnector at work."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.model.values import Side
from connectors.base import Publisher
from connectors.group_offset.options import GroupOffsetOptions
from connectors.group_translation.instance import GroupsInstance
from connectors.group_translation.reverse_flow import Opposite
from connectors.group_translation.runs import FollowedRuns
from connectors.group_translation.strategies import ByRecords, ByRuns, ByTimestamp, Way
from connectors.outages import Outages
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
        runs = FollowedRuns(options, sides[1]) if options.verify else None
        by = way(options, runs)
        # A forward flow of this kind leaves no checkpoints: what is not noted may be the mirror's own.
        opposite = Opposite(options, sides[0], known_only=True) if options.reverse else None
        super().__init__(
            name,
            options,
            clusters,
            sides,
            publisher,
            by,
            options.sync_interval,
            outages=Outages(name, props),
            reverse=options.reverse,
            opposite=opposite,
            runs=runs,
        )


def way(options: GroupOffsetOptions, runs: FollowedRuns | None = None) -> Way:
    if not options.verify:
        return ByTimestamp()
    return ByRecords() if runs is None else ByRuns(runs, ByRecords())
