"""Configuration keys: what a key is, and how Kafka reads the text of a value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from bridge.model.java_values import boolean, double, integer, split_list, trimmed
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


_BITS = {Type.SHORT: 16, Type.INT: 32, Type.LONG: 64}


def parse(kind: Type, text: str) -> Value:
    """Parses a value as Kafka's `ConfigDef.parseType` does. Lists come as tuples, a CLASS stays a name: the JVM loads
    those."""
    value: object
    if kind is Type.LIST:
        value = split_list(text)
    elif kind is Type.PASSWORD:
        value = Password(trimmed(text))
    elif kind is Type.BOOLEAN:
        value = boolean(text)
    elif kind is Type.DOUBLE:
        value = double(text)
    elif kind in _BITS:
        value = integer(text, _BITS[kind])
    else:
        value = trimmed(text)
    if value is None:
        true_or_false = "Expected value to be either true or false"
        raise Unparsable(true_or_false if kind is Type.BOOLEAN else f"Not a number of type {kind}")
    return value


def undefined(name: str) -> Key:
    """Returns a stand-in for a key that no definition of ours has (client properties under a prefix)."""
    return Key(name, Type.STRING, None, Importance.LOW, "A property of the Kafka clients.", "Clients")


def flag(name: str, default: str, doc: str, group: str, importance: Importance = Importance.LOW) -> Key:
    return Key(name, Type.BOOLEAN, default, importance, doc, group)


def interval(name: str, default: str, doc: str, group: str) -> Key:
    return Key(name, Type.LONG, default, Importance.LOW, doc, group, validator=Range(1))
