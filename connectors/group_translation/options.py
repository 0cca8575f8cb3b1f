"""Choices that the connectors of groups have in common."""

from __future__ import annotations

from enum import StrEnum


class Rewind(StrEnum):
    """Whether an offset on the target may ever be moved back (R3)."""

    NEVER = "never"
    EMPTY_GROUPS = "empty-groups"
