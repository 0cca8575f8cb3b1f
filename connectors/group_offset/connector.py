"""MirrorGroupOffsetConnector as a kind of connector."""

from __future__ import annotations

from collections.abc import Mapping

from connectors.base import CheckedOnOpen, ConnectorKind, Instance, Publisher
from connectors.config.configdef import given
from connectors.config.key_effects import FOR_GROUPS
from connectors.group_offset.options import DEFINITION, GroupOffsetOptions, validate
from connectors.ports import Clusters, Pipelines


def _make(
    name: str,
    props: Mapping[str, str | None],
    clusters: Clusters,
    _pipelines: Pipelines,
    publisher: Publisher,
) -> Instance:
    from connectors.group_offset.task import GroupOffsetInstance

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
