"""The kinds of connector that the service knows."""

from __future__ import annotations

from collections.abc import Mapping

from connectors.base import Kind
from connectors.checkpoint.connector import Checkpoint
from connectors.group_offset.connector import GroupOffset
from connectors.heartbeat.connector import Heartbeat

KINDS: Mapping[str, Kind] = {kind.kind: kind for kind in (GroupOffset(), Checkpoint(), Heartbeat())}
