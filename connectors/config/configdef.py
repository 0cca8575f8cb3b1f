"""Kafka's ConfigDef: keys with types, defaults and validators; values parsed and rejected in Kafka's words.

Two differences, both for the reader of the errors: a value that does not parse is not checked by the validator
as well (Kafka adds "Value must be non-null"), and a key given as null counts as not given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bridge.errors import ConfigError
from bridge.model.java_values import given
from connectors.config.keys import REQUIRED, Importance, Key, Password, Type, Width, parse
from connectors.config.validated import ValidatedConfig, parse_value
from connectors.config.validators import Json

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
