"""Encodes the start of the next page as text for the query parameter `next`."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from bridge.errors import BodyErrors, ConfigError


def to_cursor(*position: str | int) -> str:
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode()


def from_cursor(cursor: str | None, types: tuple[type, ...]) -> tuple[Any, ...]:
    """Decodes a cursor to values of these types; () for the beginning. Raises BodyErrors for text that is no cursor."""
    if not cursor:
        return ()
    try:
        position = json.loads(base64.b64decode(cursor.encode(), b"-_", validate=True))
        if isinstance(position, list) and [type(value) for value in position] == list(types):
            return tuple(position)
    except (ValueError, TypeError, RecursionError, binascii.Error):
        pass
    raise BodyErrors([ConfigError("query.next", "is not a `next` of an earlier page")])
