"""Writes times, which are milliseconds since the epoch, as people read them: ISO 8601, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime


def iso_time(at_ms: int, timespec: str = "seconds") -> str:
    """Formats a time as ISO 8601 has it. `timespec`: as of datetime.isoformat."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec=timespec)
