"""BridgeMirrorHeartbeatConnector as a kind of connector."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.model.key_rules import Use
from bridge.model.values import Side
from connectors.base import CheckedOnOpen, ConnectorKind, Instance, Publisher
from connectors.config.configdef import given
from connectors.heartbeat.options import DEFINITION, HeartbeatOptions, validate
from connectors.ports import Clusters, Pipelines


def _make(
    name: str,
    props: Mapping[str, str | None],
    clusters: Clusters,
    _pipelines: Pipelines,
    publisher: Publisher,
) -> Instance:
    from connectors.heartbeat.task import HeartbeatInstance

    options = HeartbeatOptions.from_props(props, CheckedOnOpen())
    return HeartbeatInstance(name, options, clusters, given(props), publisher)


_CLIENTS = {(Side.TARGET, "admin"): Use.ADMIN, (Side.TARGET, "consumer"): Use.FOLLOW}
KIND = ConnectorKind(
    "heartbeat", "dev.mirrorbridge.BridgeMirrorHeartbeatConnector", DEFINITION, _CLIENTS, validate, _make
)
