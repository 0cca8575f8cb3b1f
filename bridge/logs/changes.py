"""One line when something begins to be wrong, and one when it is over, however often it is tried meanwhile."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bridge.logs.lines import iso

FORGET_SECONDS = 86_400.0
"""What nobody has tried for so long is not logged as over any more."""


@dataclass(slots=True)
class _Trouble:
    since: float
    last: float
    """When it was tried last."""
    of: set[str] = field(default_factory=set)
    """Who meets with it."""
    well_since: float | None = None


class Changes:
    """`begins` and `ends` are the verbs of the two lines: does not answer, answers again. Several who meet with the
    same are one trouble, over when none of them does. `calm`: so many seconds it must go well before it is over."""

    def __init__(
        self,
        log: logging.Logger,
        begins: str,
        ends: str,
        *,
        calm: float = 0.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._log, self._begins, self._ends = log, begins, ends
        self._calm, self._clock = calm, clock
        self._troubles: dict[str, _Trouble] = {}

    def wrong(self, what: str, why: str, who: str = "", **extra: object) -> bool:
        """Whether it is new."""
        now = self._clock()
        known = self._troubles.get(what)
        if known is not None and now - known.last <= FORGET_SECONDS:
            known.of.add(who)
            known.last, known.well_since = now, None
            return False
        self._troubles[what] = _Trouble(now, now, {who})
        self._log.warning("%s %s: %s", what, self._begins, why, extra=extra)
        return True

    def well(self, what: str, who: str = "", **extra: object) -> None:
        known = self._troubles.get(what)
        if known is None:
            return
        now = self._clock()
        if now - known.last > FORGET_SECONDS:
            del self._troubles[what]
            return
        known.of.discard(who)
        known.last = now
        if known.of:
            return
        if known.well_since is None:
            known.well_since = now
        if now - known.well_since < self._calm:
            return
        del self._troubles[what]
        lasted = known.well_since - known.since
        more: Mapping[str, object] = {**extra, "since": iso(known.since)}
        self._log.info("%s %s after %.0f s", what, self._ends, lasted, extra=more)

    def left(self, who: str) -> None:
        """Somebody tries no more: what only they met with is over when anybody else finds it well."""
        for known in self._troubles.values():
            known.of.discard(who)
