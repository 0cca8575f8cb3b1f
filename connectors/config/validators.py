"""Validators as data, so that one definition serves Python, the exported JSON and the Java shim.

`check` says what is wrong in Kafka's own words, or None. Values come parsed; no value (None) is not checked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol
from urllib.parse import urlsplit

from bridge.mm2.filters import pattern_list_problem

Value = object
Json = dict[str, object]


_SHOWN = 10_000
"""Characters of a value that an error shows: the value itself stands beside it in every answer."""


class Validator(Protocol):
    def check(self, name: str, value: Value) -> str | None: ...

    def json(self) -> Json: ...


def invalid(name: str, value: Value, why: str) -> str:
    """Words an error as Kafka's `ConfigException(name, value, message)`."""
    text = shown(value)
    if len(text) > _SHOWN:
        text = f"{text[:_SHOWN]}… ({len(text)} characters)"
    return f"Invalid value {text} for configuration {name}: {why}"


def shown(value: Value) -> str:
    """Formats a value as Java prints it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    if isinstance(value, float):
        return _double(value)
    return "null" if value is None else str(value)


def _double(value: float) -> str:
    """Formats a number as Java's Double.toString: with an exponent from 10^7 on, and below 10^-3."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return str(value)
    digits, exponent = f"{Decimal(repr(value)).normalize():E}".split("E")
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"


@dataclass(frozen=True, slots=True)
class Range:
    min: float | None = None
    max: float | None = None

    def check(self, name: str, value: Value) -> str | None:
        assert isinstance(value, int | float)
        if self.min is not None and value < self.min:
            return invalid(name, value, f"Value must be at least {self.min}")
        if self.max is not None and value > self.max:
            return invalid(name, value, f"Value must be no more than {self.max}")
        return None

    def json(self) -> Json:
        return {"kind": "range", "min": self.min, "max": self.max}


@dataclass(frozen=True, slots=True)
class In:
    values: tuple[str, ...]
    ignore_case: bool = False

    def check(self, name: str, value: Value) -> str | None:
        given = str(value)
        if given in self.values or (self.ignore_case and given.upper() in {v.upper() for v in self.values}):
            return None
        how = " (case insensitive)" if self.ignore_case else ""
        return invalid(name, value, f"String must be one of{how}: {', '.join(self.values)}")

    def json(self) -> Json:
        return {"kind": "in", "values": list(self.values), "ignore_case": self.ignore_case}


@dataclass(frozen=True, slots=True)
class NonEmpty:
    def check(self, name: str, value: Value) -> str | None:
        return None if str(value) else invalid(name, value, "String must be non-empty")

    def json(self) -> Json:
        return {"kind": "non_empty"}


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list without empty elements and duplicates; of these values only, if there are any (Kafka's ValidList)."""

    allow_empty: bool = True
    values: tuple[str, ...] = ()

    def check(self, name: str, value: Value) -> str | None:
        assert isinstance(value, tuple)
        if not value and not self.allow_empty:
            allowed = shown(self.values) if self.values else "any non-empty value"
            return f"Configuration '{name}' must not be empty. Valid values include: {allowed}"
        return list_problem(name, value, self.values)

    def json(self) -> Json:
        return {"kind": "list", "allow_empty": self.allow_empty, "values": list(self.values)}


@dataclass(frozen=True, slots=True)
class Servers:
    """A list of servers; one that stands there twice counts once, as with Java's clients."""

    def check(self, name: str, value: Value) -> str | None:
        assert isinstance(value, tuple)
        return ListOf(allow_empty=False).check(name, tuple(dict.fromkeys(value)))

    def json(self) -> Json:
        return {"kind": "servers"}


@dataclass(frozen=True, slots=True)
class ReplicationFactor:
    """In the words that Connect has for `topic.creation.default.replication.factor`."""

    def check(self, name: str, value: Value) -> str | None:
        assert isinstance(value, int)
        if value == -1 or value >= 1:
            return None
        why = (
            "Replication factor must be positive and not larger than the number of brokers in the Kafka cluster, "
            "or -1 to use the broker's default"
        )
        return invalid(name, value, why)

    def json(self) -> Json:
        return {"kind": "replication_factor"}


@dataclass(frozen=True, slots=True)
class Patterns:
    """A list of names and regexes, joined with `|`; as a list, and the whole has to compile."""

    def check(self, name: str, value: Value) -> str | None:
        assert isinstance(value, tuple)
        if problem := list_problem(name, value):
            return problem
        problem = pattern_list_problem(value)
        return None if problem is None else invalid(name, ",".join(value), problem)

    def json(self) -> Json:
        return {"kind": "pattern_list"}


@dataclass(frozen=True, slots=True)
class Regex:
    """A Java regex; "" for none."""

    def check(self, name: str, value: Value) -> str | None:
        problem = pattern_list_problem((str(value),)) if value else None
        return None if problem is None else invalid(name, value, problem)

    def json(self) -> Json:
        return {"kind": "regex"}


@dataclass(frozen=True, slots=True)
class Url:
    def check(self, name: str, value: Value) -> str | None:
        try:
            parts = urlsplit(str(value))
            good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            good = False
        if not good:
            return invalid(name, value, "must be a URL like http://127.0.0.1:8900 or https://bridge:8900")
        if parts.username is not None or parts.password is not None:
            return invalid(name, "[hidden]", "must not carry credentials; use bridge.auth.token")
        return None

    def json(self) -> Json:
        return {"kind": "url"}


def list_problem(name: str, value: Sequence[str], allowed: tuple[str, ...] = ()) -> str | None:
    """Checks a list as Kafka does: duplicates first, then one element after the other. `allowed`: none for any."""
    if len(set(value)) < len(value):
        return f"Configuration '{name}' values must not be duplicated."
    for one in value:
        if not one:
            return f"Configuration '{name}' values must not be empty."
        if allowed and (problem := In(allowed).check(name, one)):
            return problem
    return None
