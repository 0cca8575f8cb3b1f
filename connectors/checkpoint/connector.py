"""BridgeMirrorCheckpointConnector as a kind of connector."""

from __future__ import annotations

from collections.abc import Mapping

from connectors.base import CheckedOnOpen, ConnectorKind, Instance, Publisher
from connectors.checkpoint.options import DEFINITION, CheckpointOptions, validate
from connectors.config.configdef import given
from connectors.config.key_effects import FOR_GROUPS
from connectors.ports import Clusters, Pipelines


def _make(
    name: str,
    props: Mapping[str, str | None],
    clusters: Clusters,
    _pipelines: Pipelines,
    publisher: Publisher,
) -> Instance:
    from connectors.checkpoint.task import CheckpointInstance

    options = CheckpointOptions.from_props(props, CheckedOnOpen())
    return CheckpointInstance(name, options, clusters, given(props), publisher)


KIND = ConnectorKind(
    "checkpoint", "dev.mirrorbridge.BridgeMirrorCheckpointConnector", DEFINITION, FOR_GROUPS, validate, _make
)
