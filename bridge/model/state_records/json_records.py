"""Reads fields of state records that are JSON objects, and checks each for its type and range.

Whoever may write to a state topic may write anything there: these raise nothing but SchemaError, and return no value
that a later step could fail on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bridge.model.state_records.fields import SchemaError

LAST_MS = 253_402_300_799_999
"""Ms since the epoch at the end of the year 9999: no calendar shows what is later."""
_LONGEST = 2**15 - 1
_SHOWN = 60
_NUMBERS = -(2**63), 2**63 - 1


def read_object(encoded: bytes | None, what: str) -> Mapping[str, Any]:
    """Decodes a JSON object. Raises SchemaError."""
    if encoded is None:
        raise SchemaError(f"no {what}: it is null")
    try:
        obj = json.loads(encoded)
    except RecursionError:
        raise SchemaError(f"no {what}: it is nested too deep") from None
    except ValueError:
        raise SchemaError(f"no {what}: it is not JSON") from None
    if not isinstance(obj, dict):
        raise SchemaError(f"no {what}: it is a {type(obj).__name__} and no object")
    return obj


def number(obj: Mapping[str, Any], name: str, least: int, most: int) -> int:
    """Raises SchemaError."""
    value = obj.get(name)
    # A bool is an int to Python.
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise _wrong(obj, name, f"a whole number from {least} to {most}")
    return value


def text(obj: Mapping[str, Any], name: str, least: int = 0) -> str:
    """Reads a text of at least so many characters. Raises SchemaError; also for a text that can't be encoded in UTF-8,
    for it could not be shown."""
    value = obj.get(name)
    if isinstance(value, str) and least <= len(value) <= _LONGEST:
        if value.isascii():
            return value
        try:
            value.encode()
        except UnicodeEncodeError:
            pass
        else:
            return value
    raise _wrong(obj, name, f"a text of {least} to {_LONGEST} characters")


def flag(obj: Mapping[str, Any], name: str) -> bool:
    """Raises SchemaError."""
    value = obj.get(name)
    if not isinstance(value, bool):
        raise _wrong(obj, name, "true or false")
    return value


def number_or_none(obj: Mapping[str, Any], name: str, least: int, most: int) -> int | None:
    """Reads an optional field; None where it is missing. Raises SchemaError."""
    return None if obj.get(name) is None else number(obj, name, least, most)


def text_or_none(obj: Mapping[str, Any], name: str) -> str | None:
    """Reads an optional field; None where it is missing. Raises SchemaError."""
    return None if obj.get(name) is None else text(obj, name)


def objects(obj: Mapping[str, Any], name: str) -> Iterator[Mapping[str, Any]]:
    """Yields the objects of a list. Raises SchemaError."""
    for each in _listed(obj, name):
        if not isinstance(each, dict):
            raise SchemaError(f"{name} holds a {type(each).__name__}: objects are needed")
        yield each


def numbers(obj: Mapping[str, Any], name: str, ranges: Sequence[tuple[int, int]]) -> Iterator[Sequence[int]]:
    """Yields the rows of a list, each with a whole number of each of the ranges. Raises SchemaError."""
    for row in _listed(obj, name):
        if not isinstance(row, list) or len(row) != len(ranges):
            raise SchemaError(f"{name} holds what is no list of {len(ranges)} whole numbers")
        yield [number({name: each}, name, *span) for each, span in zip(row, ranges, strict=True)]


def texts(obj: Mapping[str, Any], name: str) -> list[str]:
    """Reads a list of texts; empty where there is none. Raises SchemaError."""
    return [text({name: each}, name) for each in _listed(obj, name)] if obj.get(name) is not None else []


def simple_values(obj: Mapping[str, Any], name: str) -> dict[str, str | int | None]:
    """Reads an object of texts, whole numbers and nulls; empty where there is none. Raises SchemaError."""
    values = obj.get(name)
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise _wrong(obj, name, "an object")
    made: dict[str, str | int | None] = {}
    for key, value in values.items():
        field = f"{name}.{text({name: key}, name)[:_SHOWN]}"
        if value is not None:
            at = {field: value}
            value = text(at, field) if isinstance(value, str) else number(at, field, *_NUMBERS)
        made[key] = value
    return made


def _listed(obj: Mapping[str, Any], name: str) -> list[Any]:
    values = obj.get(name)
    if not isinstance(values, list):
        raise _wrong(obj, name, "a list")
    return values


def _wrong(obj: Mapping[str, Any], name: str, needed: str) -> SchemaError:
    if name not in obj:
        return SchemaError(f"{name} is missing: {needed} is needed")
    value = obj[name]
    # What is nested may be so deep that it can be read, and not be printed.
    shown = f"a {type(value).__name__}" if isinstance(value, dict | list) else ascii(value)
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
    return SchemaError(f"{name} is {shown}: {needed} is needed")
