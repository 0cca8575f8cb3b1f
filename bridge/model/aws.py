"""Names of AWS' own Kafka clusters (MSK)."""

from __future__ import annotations

import re

from bridge.model.java_values import trimmed

_HOST = re.compile(r"(?:^|\.)kafka(?:-serverless)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$")


def region_of(server: str) -> str | None:
    """The region that the name of an MSK broker (host:port) tells; None for another one. Below these names nobody but
    AWS has machines."""
    found = _HOST.search(trimmed(server).rpartition("//")[2].rpartition(":")[0].lower())
    return None if found is None else found["region"]
