"""Errors of the local stack.

    LocalStackError             first line: what is missing or broken, and what to do about it
    ├── ProcessDied             a process ended on its own; the end of its log follows
    ├── WaitTimedOut            a condition did not become true in time; the last failure and ends of logs follow
    └── ConnectFailed           the worker's REST API refused a call

They are shown on the command line or by a test, never over HTTP.
"""

from __future__ import annotations

from bridge.errors import BridgeError


class LocalStackError(BridgeError):
    """Root of this room's errors."""


class ProcessDied(LocalStackError):
    """A supervised process ended without being asked to."""


class WaitTimedOut(LocalStackError):
    """A condition did not become true in time."""


class ConnectFailed(LocalStackError):
    """Connect answered with an error; `status` is the HTTP status, the message is Connect's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
