"""`next` of a page: where the one after it begins, as text that travels in a query."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from bridge.errors import BodyErrors, ConfigError


def to_cursor(*place: str | int) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def from_cursor(cursor: str | None, types: tuple[type, ...]) -> tuple[Any, ...]:
    """Where to begin: values of these types, or () for the beginning. Raises BodyErrors for what is none of ours."""
    if not cursor:
        return ()
    try:
        place = json.loads(base64.b64decode(cursor.encode(), b"-_", validate=True))
        if isinstance(place, list) and [type(each) for each in place] == list(types):
            return tuple(place)
    except (ValueError, TypeError, RecursionError, binascii.Error):
        pass
    raise BodyErrors([ConfigError("query.next", "is not a `next` of an earlier page")])
