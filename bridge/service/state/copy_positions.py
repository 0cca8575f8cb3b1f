"""Keeps how far source partitions are copied: a sink connector's task polls for it and has Connect commit it.

Keeps only what a driver that still runs has reported: while none runs, an operator may reset where copying goes on.
Positions wait for a session that has polled for them; an answer is repeated until a poll names its number.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bridge.service.state.numbered_answers import NumberedAnswers, take

MOST = 2_000
"""Partitions in one answer."""

_Partition = tuple[str, int]


@dataclass(slots=True)
class _Reader:
    """A session of the shim, with what it has yet to read."""

    answers: NumberedAnswers
    waiting: dict[_Partition, int]

    def content(self) -> dict[str, object] | None:
        if not self.waiting:
            return None
        rows = [
            {"topic": topic, "partition": number, "position": position}
            for (topic, number), position in take(self.waiting, MOST)
        ]
        return {"partitions": rows}


@dataclass(slots=True)
class CopyPositions:
    """The positions of one connector's copies."""

    known: dict[_Partition, int] = field(default_factory=dict)
    _reader: _Reader | None = None

    # -- reports -----------------------------------------------------------------------------------

    def moved(self, tp: _Partition, position: int) -> None:
        if self.known.get(tp) == position:
            return
        self.known[tp] = position
        if self._reader is not None:
            self._reader.waiting[tp] = position

    def left(self, tp: _Partition) -> None:
        """Forgets a partition that is copied no more."""
        self.known.pop(tp, None)
        if self._reader is not None:
            self._reader.waiting.pop(tp, None)

    def clear(self) -> None:
        """Forgets all positions: no driver runs, or a report of all partitions follows."""
        self.known.clear()
        if self._reader is not None:
            self._reader.waiting.clear()
            self._reader.answers.sent = None

    # -- polls -------------------------------------------------------------------------------------

    def begin(self, session: str) -> None:
        """Begins anew with a session that has read nothing: each partition waits for it."""
        if self._reader is None or self._reader.answers.session != session:
            self._reader = _Reader(NumberedAnswers(session), dict(self.known))

    @property
    def fills_an_answer(self) -> bool:
        """Whether more waits than one answer holds."""
        return self._reader is not None and len(self._reader.waiting) > MOST

    def next(self, seen: int) -> bytes | None:
        """Returns the next answer, Positions as JSON; None for nothing. `seen`: the number of the last answer that was
        read, 0 before the first."""
        reader = self._reader
        return None if reader is None else reader.answers.next(seen, reader.content)
