"""Runs MirrorGroupOffsetConnector: its clusters, its strategy, its interval.

MirrorGroupOffsetConnector as a kind of connector.
"""

from __future__ import annotations

from collections.abc import Mapping

from connectors.base import CheckedOnOpen, ConnectorKind, Instance, Publisher
from connectors.config.configdef import given
from connectors.config.key_effects import FOR_GROUPS
from connectors.group_offset.options import DEFINITION, GroupOffsetOptions, validate
from connectors.group_translation.instance import GroupsInstance, OpenClusters, Translation
from connectors.group_translation.translating.followed_topics import FollowedRuns, ReverseFlow
from connectors.group_translation.translating.strategies import ByRecords, ByRuns, ByTimestamp, Runs, Strategy
from connectors.ports import Clusters, Pipelines


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
        opened = OpenClusters.open(name, clusters, props)
        runs = FollowedRuns(options, opened.target) if options.verify else None
        # A forward flow of this kind leaves no checkpoints: what is not noted may be the mirror's own.
        reverse_flow = ReverseFlow(options, opened.source, known_only=True) if options.reverse else None
        translation = Translation(strategy_of(options, runs), runs, options.reverse, reverse_flow)
        super().__init__(name, options, opened, publisher, translation, options.sync_interval)


def strategy_of(options: GroupOffsetOptions, runs: Runs | None = None) -> Strategy:
    if not options.verify:
        return ByTimestamp()
    return ByRecords() if runs is None else ByRuns(runs, ByRecords())


def _make(
    name: str,
    props: Mapping[str, str | None],
    clusters: Clusters,
    _pipelines: Pipelines,
    publisher: Publisher,
) -> Instance:

    options = GroupOffsetOptions.from_props(props, CheckedOnOpen())
    return GroupOffsetInstance(name, options, clusters, given(props), publisher)


KIND = ConnectorKind(
    "group_offset",
    "org.apache.kafka.connect.mirror.MirrorGroupOffsetConnector",
    DEFINITION,
    FOR_GROUPS,
    validate,
    _make,
)
