"""Names clusters in logs and in health: by side, alias and bootstrap servers."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.model.values import Side


def cluster_name(side: Side, props: Mapping[str, str | None]) -> str:
    """Returns a name such as `source cluster A (kafka-a:9092)`."""
    alias = props.get(f"{side}.cluster.alias") or side.value
    servers = props.get(f"{side}.cluster.bootstrap.servers")
    return f"{side} cluster {alias}" + (f" ({servers})" if servers else "")
