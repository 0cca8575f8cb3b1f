"""Lists the kinds of connector that the service runs."""

from __future__ import annotations

from collections.abc import Mapping

from connectors.base import Kind
from connectors.checkpoint.connector import KIND as CHECKPOINT
from connectors.group_offset.connector import KIND as GROUP_OFFSET
from connectors.heartbeat.connector import KIND as HEARTBEAT
from connectors.source.connector import KIND as SOURCE

KINDS: Mapping[str, Kind] = {kind.kind: kind for kind in (GROUP_OFFSET, CHECKPOINT, HEARTBEAT, SOURCE)}
