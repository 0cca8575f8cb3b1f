"""BridgeMirrorSinkConnector as a kind of connector: the source connector's pipeline, for a worker at the source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bridge.errors import ConfigError
from connectors.base import CheckedOnOpen, ConnectorKind, CopiedTopics, Instance, Publisher
from connectors.config.configdef import given
from connectors.ports import Clusters, Pipelines
from connectors.sink.checks import validate
from connectors.sink.definition import DEFINITION
from connectors.source.connector import CLIENTS


def _make(
    name: str,
    props: Mapping[str, str | None],
    clusters: Clusters,
    pipelines: Pipelines,
    publisher: Publisher,
) -> Instance:
    from connectors.source.options import SourceOptions
    from connectors.source.task import SourceInstance

    options = SourceOptions.from_props(props, CheckedOnOpen(), DEFINITION)
    return SourceInstance(name, options, clusters, pipelines, given(props), publisher)


def _taken(props: Mapping[str, str | None], others: Sequence[CopiedTopics]) -> Sequence[ConfigError]:
    from connectors.source.owners import taken

    return taken(props, others, DEFINITION)


KIND = ConnectorKind(
    "sink", "dev.mirrorbridge.BridgeMirrorSinkConnector", DEFINITION, CLIENTS, validate, _make, _taken
)
