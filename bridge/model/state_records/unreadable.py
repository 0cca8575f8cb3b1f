"""Counts records of internal topics that can't be read, and words their log lines. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

_NAMED = 10
"""Records that are named one by one between two calls of `drain_lines`: a topic may be full of them."""


class UnreadableRecords:
    """The unreadable records of topics' partition 0. A record counts once, however often its topic is read."""

    def __init__(self, topics: Iterable[str]) -> None:
        """`topics`: those that have a count of 0 from the beginning."""
        self._counts = Counter(dict.fromkeys(topics, 0))
        self._read: dict[str, int] = {}
        """The last offset that was looked at, by topic."""
        self._lines: list[str] = []
        self._more: Counter[str] = Counter()

    @property
    def counts(self) -> Mapping[str, int]:
        """The counts by topic, as they are now."""
        return dict(self._counts)

    def add(self, topic: str, offset: int, why: str) -> None:
        if offset <= self._read.get(topic, -1):
            return
        self._read[topic] = offset
        self._counts[topic] += 1
        if len(self._lines) < _NAMED:
            self._lines.append(
                f"{topic}-0 at offset {offset}: the record can't be read and is left out: {why}"
            )
        else:
            self._more[topic] += 1

    def add_batches(self, topic: str, count: int) -> None:
        """Batches that can't be decoded, which nobody can say more of."""
        if count:
            self._counts[topic] += count
            self._lines.append(f"{topic}-0: {count} batch(es) can't be decoded and are left out")

    def restarted(self, topic: str) -> None:
        """Starts over with a topic that was created again: its offsets are other records now."""
        self._read.pop(topic, None)

    def drain_lines(self) -> list[str]:
        """Returns lines for the log, each once."""
        more = [f"{topic}-0: {count} more records can't be read" for topic, count in self._more.items()]
        lines = [*self._lines, *more]
        self._lines, self._more = [], Counter()
        return lines
