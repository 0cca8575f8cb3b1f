"""Runs MirrorGroupOffsetConnector: its clusters, its strategy, its interval."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.model.values import Side
from connectors.base import Publisher
from connectors.group_offset.options import GroupOffsetOptions
from connectors.group_translation.instance import GroupsInstance
from connectors.group_translation.translating.reverse_flow import ReverseFlow
from connectors.group_translation.translating.runs import FollowedRuns
from connectors.group_translation.translating.strategies import ByRecords, ByRuns, ByTimestamp, Runs, Strategy
from connectors.outages import Outages
from connectors.ports import Clusters


class GroupOffsetInstance(GroupsInstance[GroupOffsetOptions]):
    """Commits the offsets of groups on the target, translated by runs and records; see GroupsInstance."""

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
        strategy = strategy_of(options, runs)
        # A forward flow of this kind leaves no checkpoints: what is not noted may be the mirror's own.
        reverse_flow = ReverseFlow(options, sides[0], known_only=True) if options.reverse else None
        super().__init__(
            name,
            options,
            clusters,
            sides,
            publisher,
            strategy,
            options.sync_interval,
            outages=Outages(name, props),
            reverse=options.reverse,
            reverse_flow=reverse_flow,
            runs=runs,
        )


def strategy_of(options: GroupOffsetOptions, runs: Runs | None = None) -> Strategy:
    if not options.verify:
        return ByTimestamp()
    return ByRecords() if runs is None else ByRuns(runs, ByRecords())
