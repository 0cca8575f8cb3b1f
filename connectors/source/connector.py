"""BridgeMirrorSourceConnector as a kind of connector."""

from __future__ import annotations

from collections.abc import Mapping

from connectors.base import CheckedOnOpen, ConnectorKind, Instance, Publisher
from connectors.configdef import given
from connectors.ports import Clusters, Pipelines
from connectors.source.checks import validate
from connectors.source.definition import DEFINITION


def _make(
    name: str,
    props: Mapping[str, str | None],
    clusters: Clusters,
    pipelines: Pipelines,
    publisher: Publisher,
) -> Instance:
    from connectors.source.options import SourceOptions
    from connectors.source.task import SourceInstance

    options = SourceOptions.from_props(props, CheckedOnOpen())
    return SourceInstance(name, options, clusters, pipelines, given(props), publisher)


KIND = ConnectorKind("source", "dev.mirrorbridge.BridgeMirrorSourceConnector", DEFINITION, validate, _make)
