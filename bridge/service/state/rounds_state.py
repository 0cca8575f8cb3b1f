"""The state of the rounds process, as health shows it."""

from __future__ import annotations

from enum import StrEnum

SILENT_SECONDS = 10.0
"""Without a heartbeat for this long the state is `stalled`."""


class RoundsState(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    STALLED = "stalled"
    RESTARTING = "restarting"
    STOPPED = "stopped"
