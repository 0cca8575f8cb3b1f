"""What is wished of the rounds process, connector by connector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connectors.base import Assignment

Config = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Desired:
    """What the rounds process is to host for one connector."""

    name: str
    kind: str
    config: Config
    generation: int
    assignment: Assignment
