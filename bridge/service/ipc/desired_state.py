"""The desired state of the rounds process, connector by connector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connectors.base import Assignment

Config = Mapping[str, str | None]
_PUNCTUATION = 2
"""Characters that a setting counts beside its key and value: JSON has ten bytes of punctuation for it."""


def characters(config: Config) -> int:
    """The size of a configuration; JSON takes at most six bytes for each of these characters."""
    return sum(len(key) + len(value or "") + _PUNCTUATION for key, value in config.items())


@dataclass(frozen=True, slots=True)
class Desired:
    """The desired state of one connector: its configuration, and which tasks are active."""

    name: str
    kind: str
    config: Config
    generation: int
    assignment: Assignment
