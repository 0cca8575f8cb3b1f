"""Configuration keys: what a key is, and how Kafka reads the text of a value."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from bridge.mm2.filters import JAVA_WHITESPACE, split_list
from bridge.model.key_rules import KeyRule
from connectors.config.validators import Json, Range, Validator, Value


class Type(StrEnum):
    STRING = "STRING"
    INT = "INT"
    LONG = "LONG"
    SHORT = "SHORT"
    DOUBLE = "DOUBLE"
    BOOLEAN = "BOOLEAN"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"  # noqa: S105


class Importance(StrEnum):
    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Width(StrEnum):
    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required()
"""Default of a key that has none."""


@dataclass(frozen=True, slots=True, repr=False)
class Password:
    """A secret. Printing it never shows it."""

    value: str

    def __repr__(self) -> str:
        return "[hidden]"


@dataclass(frozen=True, slots=True)
class Key:
    """One key. `default` is text as an operator would write it, None: none, REQUIRED: must be given. `rule`: of a key
    that does nothing here; None where it does what its documentation says."""

    name: str
    type: Type
    default: str | _Required | None
    importance: Importance
    documentation: str
    group: str
    order: int = -1
    width: Width = Width.MEDIUM
    display_name: str = ""
    validator: Validator | None = None
    recommended: tuple[str, ...] = ()
    rule: KeyRule | None = field(default=None, compare=False)

    @property
    def secret(self) -> bool:
        return self.type is Type.PASSWORD

    @property
    def required(self) -> bool:
        return isinstance(self.default, _Required)

    @property
    def default_text(self) -> str | None:
        return None if isinstance(self.default, _Required) else self.default

    def json(self) -> Json:
        return {
            "name": self.name,
            "type": self.type.value,
            "required": self.required,
            "default": self.default_text,
            "importance": self.importance.value,
            "documentation": self.documentation,
            "group": self.group,
            "order": self.order,
            "width": self.width.value,
            "display_name": self.display_name or self.name,
            "validator": self.validator.json() if self.validator else None,
            "recommended": list(self.recommended),
            "secret": self.secret,
        }


def numbered(keys: Iterable[Key]) -> tuple[Key, ...]:
    """Returns the keys, each with its order within its group."""
    counts: Counter[str] = Counter()
    ordered = []
    for key in keys:
        counts[key.group] += 1
        ordered.append(replace(key, order=counts[key.group]))
    return tuple(ordered)


class Unparsable(ValueError):
    """Raised for a text that is not of the key's type; the message is the end of Kafka's sentence."""


_INTEGER = re.compile(r"[+-]?\d+")
_DOUBLE = re.compile(r"[+-]?(NaN|Infinity|((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)[fFdD]?)", re.ASCII)
_BITS = {Type.SHORT: 16, Type.INT: 32, Type.LONG: 64}


def parse(kind: Type, text: str) -> Value:
    """Parses a value as Kafka's `ConfigDef.parseType` does. Lists come as tuples, a CLASS stays a name: the JVM loads
    those."""
    trimmed = text.strip(JAVA_WHITESPACE)
    if kind is Type.LIST:
        return split_list(text)
    if kind is Type.PASSWORD:
        return Password(trimmed)
    if kind is Type.BOOLEAN:
        if trimmed.lower() not in ("true", "false"):
            raise Unparsable("Expected value to be either true or false")
        return trimmed.lower() == "true"
    if kind is Type.DOUBLE:
        if _DOUBLE.fullmatch(trimmed) is None:
            raise Unparsable(f"Not a number of type {kind}")
        return float(trimmed.rstrip("fFdD"))
    if kind in _BITS:
        # Twenty digits are more than a LONG has; int() refuses thousands of them in words of its own.
        limit = 1 << (_BITS[kind] - 1)
        number = int(trimmed) if _INTEGER.fullmatch(trimmed) and len(trimmed.lstrip("+-0")) < 21 else limit
        if not -limit <= number < limit:
            raise Unparsable(f"Not a number of type {kind}")
        return number
    return trimmed


def undefined(name: str) -> Key:
    """Returns a stand-in for a key that no definition of ours has (client properties under a prefix)."""
    return Key(name, Type.STRING, None, Importance.LOW, "A property of the Kafka clients.", "Clients")


def flag(name: str, default: str, doc: str, group: str, importance: Importance = Importance.LOW) -> Key:
    return Key(name, Type.BOOLEAN, default, importance, doc, group)


def interval(name: str, default: str, doc: str, group: str) -> Key:
    return Key(name, Type.LONG, default, Importance.LOW, doc, group, validator=Range(1))
