"""The desired state of the rounds process, connector by connector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connectors.base import Assignment

Config = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Desired:
    """The desired state of one connector: its configuration, and which tasks are active."""

    name: str
    kind: str
    config: Config
    generation: int
    assignment: Assignment
