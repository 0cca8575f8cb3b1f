"""Kafka's ConfigDef: keys with types, defaults and validators; values parsed and rejected in Kafka's words.

Two differences, both for the reader of the errors: a value that does not parse is not checked by the validator
as well (Kafka adds "Value must be non-null"), and a key given as null counts as not given.

Validators as data, so that one definition serves Python, the exported JSON and the Java shim.

`check` says what is wrong in Kafka's own words, or None. Values come parsed; no value (None) is not checked.

Configuration keys: what a key is, and how Kafka reads the text of a value.

Holds a validated configuration: every key with its value, and all errors at once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from typing import Final, Protocol
from urllib.parse import urlsplit

from bridge.errors import ConfigError, ConfigRejected
from bridge.mm2.filters import pattern_list_problem
from bridge.model.java_values import boolean, double, given, integer, split_list, trimmed
from bridge.model.key_rules import KeyRule
from bridge.protocol.messages import ConfigEntry, ConfigKey, ConfigValue, ValidateResponse
from bridge.protocol.operators import ConfigWarning, IgnoredSetting

__all__ = [
    "REQUIRED",
    "ConfigDef",
    "ForbiddenValue",
    "Importance",
    "Key",
    "Password",
    "Type",
    "ValidatedConfig",
    "Width",
    "given",
    "parse",
]


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
        text = str(value)
        if text in self.values or (self.ignore_case and text.upper() in {v.upper() for v in self.values}):
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


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A key with its value and errors. `value` is parsed (None: not given, or not to be parsed)."""

    key: Key
    value: object
    errors: tuple[str, ...] = ()
    visible: bool = True

    @property
    def text(self) -> str | None:
        """The value as Connect shows it; `[hidden]` for secrets."""
        value = self.value
        if value is None:
            return None
        if self.key.secret:
            return "[hidden]"
        if isinstance(value, bool):
            return str(value).lower()
        return ",".join(value) if isinstance(value, tuple) else str(value)

    def entry(self) -> ConfigEntry:
        value = ConfigValue(
            name=self.key.name,
            value=self.text,
            recommended_values=list(self.key.recommended),
            errors=list(self.errors),
            visible=self.visible,
        )
        return ConfigEntry(definition=describe(self.key), value=value)


def parse_value(key: Key, text: str | None) -> KeyValue:
    """Parses and checks the value of a key as the operator wrote it (None: not given)."""
    if text is None:
        if key.required:
            missing = f'Missing required configuration "{key.name}" which has no default value.'
            return KeyValue(key, None, (missing,))
        text = key.default_text
    if text is None:
        return KeyValue(key, None)
    try:
        value = parse(key.type, text)
    except Unparsable as error:
        return KeyValue(key, None, (invalid(key.name, "[hidden]" if key.secret else text, str(error)),))
    problem = key.validator.check(key.name, value) if key.validator else None
    return KeyValue(key, value, (problem,) if problem else ())


@dataclass(frozen=True, slots=True)
class ValidatedConfig:
    entries: tuple[KeyValue, ...]
    ignored: tuple[IgnoredSetting, ...] = ()
    """Settings that were given and do nothing; none that has an error."""

    @property
    def errors(self) -> tuple[ConfigError, ...]:
        return tuple(ConfigError(entry.key.name, text) for entry in self.entries for text in entry.errors)

    def raise_if_invalid(self) -> None:
        if errors := self.errors:
            raise ConfigRejected(errors)

    def value(self, name: str) -> object:
        return next(entry.value for entry in self.entries if entry.key.name == name)

    def good(self, name: str) -> bool:
        """Whether the key has a value and no error yet, so that rules across keys may use it."""
        return any(e.key.name == name and e.value is not None and not e.errors for e in self.entries)

    def text(self, name: str) -> str:
        return str(self.value(name))

    def number(self, name: str) -> int:
        value = self.value(name)
        assert isinstance(value, int)
        return value

    def flag(self, name: str) -> bool:
        return self.value(name) is True

    def items(self, name: str) -> tuple[str, ...] | None:
        value = self.value(name)
        return value if isinstance(value, tuple) else None

    def with_errors(self, errors: Iterable[ConfigError]) -> ValidatedConfig:
        """Returns the configuration with more errors; those of keys that are not defined come last."""
        entries = {entry.key.name: entry for entry in self.entries}
        for error in errors:
            entry = entries.get(error.key) or KeyValue(undefined(error.key), None)
            if error.message not in entry.errors:
                entries[error.key] = replace(entry, errors=(*entry.errors, error.message), visible=True)
        return ValidatedConfig(tuple(entries.values()), _unrefused(self.ignored, entries))

    def with_errors_instead(self, errors: Sequence[ConfigError]) -> ValidatedConfig:
        """Returns the configuration with these errors in place of all others of their keys."""
        keys = {error.key for error in errors}
        kept = (replace(entry, errors=()) if entry.key.name in keys else entry for entry in self.entries)
        return ValidatedConfig(tuple(kept), self.ignored).with_errors(errors)

    def with_ignored(self, ignored: Sequence[IgnoredSetting], unseen: Iterable[str]) -> ValidatedConfig:
        """Adds the keys that are ignored. `unseen`: keys whose values are shown as not visible, as far as Connect can
        say that they do nothing."""
        entries = {entry.key.name: entry for entry in self.entries}
        for key in unseen:
            entry = entries.get(key) or KeyValue(undefined(key), None)
            entries[key] = replace(entry, visible=bool(entry.errors))
        return ValidatedConfig(tuple(entries.values()), _unrefused(ignored, entries))

    def response(self, name: str, warnings: Sequence[ConfigWarning] = ()) -> ValidateResponse:
        """Returns Connect's `ConfigInfos`; `name` is the connector's class."""
        return ValidateResponse(
            name=name,
            error_count=len(self.errors),
            groups=list(dict.fromkeys(entry.key.group for entry in self.entries)),
            configs=[entry.entry() for entry in self.entries],
            ignored_settings=list(self.ignored),
            warnings=list(warnings),
        )


def _unrefused(
    ignored: Iterable[IgnoredSetting], entries: Mapping[str, KeyValue]
) -> tuple[IgnoredSetting, ...]:
    """Leaves out settings with an error: they are refused, not ignored."""
    return tuple(
        setting for setting in ignored if setting.key not in entries or not entries[setting.key].errors
    )


def describe(key: Key) -> ConfigKey:
    """Describes a key as Connect does."""
    return ConfigKey(
        name=key.name,
        type=key.type.value,
        required=key.required,
        default_value=key.default_text,
        importance=key.importance.value,
        documentation=key.documentation,
        group=key.group,
        order_in_group=key.order,
        width=key.width.value,
        display_name=key.display_name or key.name,
    )


@dataclass(frozen=True, slots=True)
class ForbiddenValue:
    """A value that a key can't have, unless another key has the value given for it there. Values are parsed before they
    are compared (stock compares raw texts, so that `FALSE` slips through), and `message` is all that is said."""

    key: str
    value: str
    message: str
    unless: Mapping[str, str] = field(default_factory=dict)

    def json(self) -> Json:
        return {"key": self.key, "value": self.value, "message": self.message, "unless": dict(self.unless)}


class ConfigDef:
    """Keys in order; names are unique. Rules across keys that are data hold wherever the definition is read."""

    def __init__(self, keys: Sequence[Key], forbidden: Sequence[ForbiddenValue] = ()) -> None:
        self.forbidden = tuple(forbidden)
        self.keys: Mapping[str, Key] = {key.name: key for key in keys}
        if len(self.keys) != len(keys):
            raise ValueError("a key is defined twice")

    @property
    def groups(self) -> list[str]:
        return list(dict.fromkeys(key.group for key in self.keys.values()))

    def validate(self, props: Mapping[str, str | None]) -> ValidatedConfig:
        """Returns every key with its value and errors. Keys that are not defined are none of ours."""
        config = ValidatedConfig(tuple(parse_value(key, props.get(name)) for name, key in self.keys.items()))
        return config.with_errors(self._broken(config))

    def _broken(self, config: ValidatedConfig) -> Iterator[ConfigError]:
        texts = {entry.key.name: entry.text for entry in config.entries}
        for rule in self.forbidden:
            excused = any(texts[key] == value for key, value in rule.unless.items())
            if texts[rule.key] == rule.value and not excused:
                yield ConfigError(rule.key, rule.message)
