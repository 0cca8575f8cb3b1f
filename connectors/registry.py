"""Lists the kinds of connector that the service runs."""

from __future__ import annotations

from collections.abc import Mapping

from connectors.base import Kind
from connectors.checkpoint.task import KIND as CHECKPOINT
from connectors.group_offset.task import KIND as GROUP_OFFSET
from connectors.heartbeat.task import KIND as HEARTBEAT
from connectors.sink.connector import KIND as SINK
from connectors.source.connector import KIND as SOURCE

KINDS: Mapping[str, Kind] = {kind.kind: kind for kind in (GROUP_OFFSET, CHECKPOINT, HEARTBEAT, SOURCE, SINK)}


def kind_of_class(name: str) -> Kind | None:
    """Returns the kind of connector that connector.class names; None for a class of somebody else. Connect accepts the
    simple name too, with or without Connector at its end."""
    for kind in KINDS.values():
        simple = kind.connector_class.rpartition(".")[2]
        if name in (kind.connector_class, simple, simple.removesuffix("Connector")):
            return kind
    return None
