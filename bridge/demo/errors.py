"""Why a demo could not be carried through; an answer that is not exact is no error but a line of the report."""

from __future__ import annotations

from bridge.errors import BridgeError


class DemoFailed(BridgeError):
    """What did not happen, in one line for the person at the command line."""
