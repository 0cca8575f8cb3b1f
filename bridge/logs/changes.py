"""Two log lines for an outage: one when it begins, one when it is over, however many attempts fail in between."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bridge.logs.lines import iso

FORGET_SECONDS = 86_400.0
"""An outage is forgotten, and its end not logged, when nobody has tried again for this long."""


@dataclass(slots=True)
class _Outage:
    since: float
    last_attempt: float
    affected: set[str] = field(default_factory=set)
    """Callers whose last attempt failed."""
    over_since: float | None = None


class Changes:
    """Outages by what fails, a cluster for example. `begins` and `ends` are the predicates of the lines: does not
    answer, answers again. Failures of several callers are one outage, which is over when all of them succeed again.
    `calm`: seconds without a failure before the end is logged."""

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
        self._outages: dict[str, _Outage] = {}

    def failed(self, what: str, why: str, who: str = "", **extra: object) -> bool:
        """An attempt of `who` failed; returns whether that begins an outage."""
        now = self._clock()
        outage = self._outages.get(what)
        if outage is not None and now - outage.last_attempt <= FORGET_SECONDS:
            outage.affected.add(who)
            outage.last_attempt, outage.over_since = now, None
            return False
        self._outages[what] = _Outage(now, now, {who})
        self._log.warning("%s %s: %s", what, self._begins, why, extra=extra)
        return True

    def succeeded(self, what: str, who: str = "", **extra: object) -> None:
        """An attempt of `who` succeeded, which may end an outage."""
        outage = self._outages.get(what)
        if outage is None:
            return
        now = self._clock()
        if now - outage.last_attempt > FORGET_SECONDS:
            del self._outages[what]
            return
        outage.affected.discard(who)
        outage.last_attempt = now
        if outage.affected:
            return
        if outage.over_since is None:
            outage.over_since = now
        if now - outage.over_since < self._calm:
            return
        del self._outages[what]
        lasted = outage.over_since - outage.since
        fields: Mapping[str, object] = {**extra, "since": iso(outage.since)}
        self._log.info("%s %s after %.0f s", what, self._ends, lasted, extra=fields)

    def forget(self, who: str) -> None:
        """Forgets a caller that makes no more attempts. What failed only for it is over when anybody else succeeds."""
        for outage in self._outages.values():
            outage.affected.discard(who)
