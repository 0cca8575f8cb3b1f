"""Fields of state records that are JSON objects, each checked for its type and range.

Whoever may write to a state topic may write anything there: nothing but SchemaError comes out of these, and no value
that a later step could stumble over.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bridge.translation.fields import SchemaError

_LONGEST = 2**15 - 1
_SHOWN = 60


def read_object(encoded: bytes | None, what: str) -> Mapping[str, Any]:
    """What the object holds. Raises SchemaError."""
    if encoded is None:
        raise SchemaError(f"no {what}: it is null")
    try:
        found = json.loads(encoded)
    except RecursionError:
        raise SchemaError(f"no {what}: it is nested too deep") from None
    except ValueError:
        raise SchemaError(f"no {what}: it is not JSON") from None
    if not isinstance(found, dict):
        raise SchemaError(f"no {what}: it is a {type(found).__name__} and no object")
    return found


def number(found: Mapping[str, Any], name: str, least: int, most: int) -> int:
    """Raises SchemaError."""
    value = found.get(name)
    # A bool is an int to Python.
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise _wrong(found, name, f"a whole number from {least} to {most}")
    return value


def text(found: Mapping[str, Any], name: str, least: int = 0) -> str:
    """Of at least so many characters. Raises SchemaError; also for a text that has no UTF-8, for nobody could show
    it."""
    value = found.get(name)
    if isinstance(value, str) and least <= len(value) <= _LONGEST:
        try:
            value.encode()
        except UnicodeEncodeError:
            pass
        else:
            return value
    raise _wrong(found, name, f"a text of {least} to {_LONGEST} characters")


def flag(found: Mapping[str, Any], name: str) -> bool:
    """Raises SchemaError."""
    value = found.get(name)
    if not isinstance(value, bool):
        raise _wrong(found, name, "true or false")
    return value


def _wrong(found: Mapping[str, Any], name: str, needed: str) -> SchemaError:
    if name not in found:
        return SchemaError(f"{name} is missing: {needed} is needed")
    value = found[name]
    # What is nested may be so deep that it can be read, and not be printed.
    shown = f"a {type(value).__name__}" if isinstance(value, dict | list) else ascii(value)
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
    return SchemaError(f"{name} is {shown}: {needed} is needed")
