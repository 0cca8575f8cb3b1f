"""Names that no other test has used, so that tests can share one stack in any order."""

from __future__ import annotations

import uuid


def unique(prefix: str) -> str:
    """A topic, group or connector name; letters, digits and `-` only."""
    return f"{prefix}-{uuid.uuid4().hex[:10]}"
