"""The error of a demo that can't go on. An offset that is not exact is no error, but a line of the report."""

from __future__ import annotations

from bridge.errors import BridgeError


class DemoFailed(BridgeError):
    """The demo can't go on; the text is one line for the command line."""
