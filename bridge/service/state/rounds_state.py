"""How the rounds process stands, as health shows it."""

from __future__ import annotations

from enum import StrEnum

SILENT_SECONDS = 10.0
"""No beat for this long: shown as `stalled`."""


class RoundsState(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    STALLED = "stalled"
    RESTARTING = "restarting"
    STOPPED = "stopped"
