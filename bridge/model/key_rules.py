"""Defines what becomes of a configuration key: it is honoured, ignored where that changes no copied record, or
refused."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from bridge.model.java_values import trimmed


class Effect(StrEnum):
    HONOURED = "honoured"
    IGNORED = "ignored"
    """It changes only speed, location or wording, and the status names it with its reason."""
    REFUSED = "refused"
    """It would change what is copied, so that it is an error of validate."""


@dataclass(frozen=True, slots=True)
class KeyRule:
    """The rule for a key. `why` is for an operator: how the key is honoured, why ignoring it changes no copied record,
    or why it is refused and what to use instead. `same`: values that ask for what happens anyway, so that nothing is
    ignored, and nothing refused."""

    effect: Effect
    why: str
    same: tuple[str, ...] = ()
    beginnings: tuple[str, ...] = ()
    """Of values that are honoured too."""

    def on(self, value: str) -> Effect:
        """Returns what becomes of the key with this value; an empty one counts as not given."""
        text = trimmed(value)
        if (
            not text
            or text.lower() in (text.lower() for text in self.same)
            or text.startswith(self.beginnings)
        ):
            return Effect.HONOURED
        return self.effect


def honoured(why: str) -> KeyRule:
    return KeyRule(Effect.HONOURED, why)


def ignored(why: str, *same: str) -> KeyRule:
    return KeyRule(Effect.IGNORED, why, same)


def refused(why: str, *same: str) -> KeyRule:
    return KeyRule(Effect.REFUSED, why, same)


class Use(StrEnum):
    """The purpose of a Kafka client of ours; on it depends which of its properties have an effect."""

    ADMIN = "admin"
    """Looks up and changes groups and topics."""
    COPY = "copy"
    """Reads the records that the source connector copies."""
    WRITE = "write"
    """Writes what the source connector copies."""
    SYNC = "sync"
    """Writes offset syncs to the source."""
    COMPARE = "compare"
    """Reads single records of the source that groups stand at."""
    FOLLOW = "follow"
    """Reads the target: copies to compare, internal topics."""
