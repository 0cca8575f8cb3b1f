"""Kafka's ConfigDef: keys with types, defaults and validators; values parsed and rejected in Kafka's words.

Two differences, both for the reader of the errors: a value that does not parse is not judged by the validator
as well (Kafka adds "Value must be non-null"), and a key given as null counts as not given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from connectors.keys import REQUIRED, Importance, Key, Password, Type, Width, parse
from connectors.validated import ValidatedConfig, judge

__all__ = [
    "REQUIRED",
    "ConfigDef",
    "Importance",
    "Key",
    "Password",
    "Type",
    "ValidatedConfig",
    "Width",
    "parse",
]


class ConfigDef:
    """Keys in order; names are unique."""

    def __init__(self, keys: Sequence[Key]) -> None:
        self.keys: Mapping[str, Key] = {key.name: key for key in keys}
        if len(self.keys) != len(keys):
            raise ValueError("a key is defined twice")

    @property
    def groups(self) -> list[str]:
        return list(dict.fromkeys(key.group for key in self.keys.values()))

    def validate(self, props: Mapping[str, str | None]) -> ValidatedConfig:
        """Every key with its value and errors. Keys that are not defined are none of ours."""
        return ValidatedConfig(tuple(judge(key, props.get(name)) for name, key in self.keys.items()))
