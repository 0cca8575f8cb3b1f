"""Configurations that are valid, one for each kind of connector."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.kafka.config.settings import StaticClientCheck
from connectors.source.checks import validate

CLIENTS = StaticClientCheck()
SOURCE = {
    "name": "mirror",
    "source.cluster.alias": "source1",
    "source.cluster.bootstrap.servers": "a:9092",
    "target.cluster.alias": "target2",
    "target.cluster.bootstrap.servers": "b:9092",
}
SINK = {**SOURCE, "topics": "orders"}
CHECKPOINT = {
    "name": "checkpoints",
    "connector.class": "BridgeMirrorCheckpointConnector",
    "source.cluster.alias": "source1",
    "target.cluster.alias": "target2",
    "source.cluster.bootstrap.servers": "a:9092",
    "target.cluster.bootstrap.servers": "b:9092",
}
HEARTBEAT = {
    "name": "heartbeats",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "target.cluster.bootstrap.servers": "b:9092",
}
GROUP_OFFSET = {
    "name": "a-to-b",
    "connector.class": "MirrorGroupOffsetConnector",
    "tasks.max": "3",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "a:9092",
    "target.cluster.bootstrap.servers": "b:9092",
}
CONFIGS: Mapping[str, Mapping[str, str]] = {
    "source": SOURCE,
    "sink": SINK,
    "checkpoint": CHECKPOINT,
    "heartbeat": HEARTBEAT,
    "group_offset": GROUP_OFFSET,
}
"""By kind."""


def source_errors(changes: Mapping[str, str | None]) -> list[tuple[str, str]]:
    """Key and message of each error of a source connector with these keys; None takes one away."""
    return [(error.key, error.message) for error in validate(SOURCE | dict(changes), CLIENTS).errors]
