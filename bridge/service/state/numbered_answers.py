"""Hands a session of the shim what it has not read yet.

Answers are numbered, and each is repeated until a poll names it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class NumberedAnswers:
    """Those of one session. `sent`: the answer that it has not named yet."""

    session: str
    number: int = 0
    sent: bytes | None = None

    def next(self, seen: int, content: Callable[[], Mapping[str, object] | None]) -> bytes | None:
        """Returns the next answer as JSON, None for nothing. `seen`: the number of the last answer that was read,
        0 before the first; `content`: takes what a new answer holds, and returns None for nothing."""
        if self.sent is not None and seen == self.number:
            self.sent = None
        if self.sent is None and (taken := content()) is not None:
            self.number += 1
            answer = {"number": self.number, **taken}
            self.sent = json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode()
        return self.sent


def take(waiting: dict[K, V], most: int) -> list[tuple[K, V]]:
    """Takes out the entries that wait longest."""
    taken = list(waiting.items())[:most]
    for key, _ in taken:
        del waiting[key]
    return taken
