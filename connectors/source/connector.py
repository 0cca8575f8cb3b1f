"""BridgeMirrorSourceConnector as a kind of connector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bridge.errors import ConfigError
from bridge.model.key_rules import Use
from bridge.model.values import Side
from connectors.base import CheckedOnOpen, ConnectorKind, CopiedTopics, Instance, Publisher
from connectors.config.configdef import given
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


def _taken(props: Mapping[str, str | None], others: Sequence[CopiedTopics]) -> Sequence[ConfigError]:
    from connectors.source.owners import taken

    return taken(props, others)


CLIENTS = {
    (Side.SOURCE, "admin"): Use.ADMIN,
    (Side.TARGET, "admin"): Use.ADMIN,
    (Side.SOURCE, "consumer"): Use.COPY,
    (Side.TARGET, "consumer"): Use.FOLLOW,
    (Side.TARGET, "producer"): Use.WRITE,
    (Side.SOURCE, "producer"): Use.SYNC,
}
KIND = ConnectorKind(
    "source", "dev.mirrorbridge.BridgeMirrorSourceConnector", DEFINITION, CLIENTS, validate, _make, _taken
)
