"""What operators are told of a group, in a word. Apart from the messages, so that commands know it without pydantic."""

from __future__ import annotations

from enum import StrEnum


class Readiness(StrEnum):
    """Whether a group can fail over now."""

    READY = "ready"
    READY_AS_OF = "ready_as_of"
    """It was, when the source last answered; what was produced or committed there since is not known."""
    MOVED = "moved"
    """It has failed over: its connector no longer commits it."""
    HOME = "home"
    """Nobody has moved it on the source, where the opposite flow put it: its own offsets on the target are right."""
    NOT_READY = "not_ready"
    CANNOT_TELL = "cannot_tell"
