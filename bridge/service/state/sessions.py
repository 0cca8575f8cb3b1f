"""Names of sessions, in the order in which the tasks of all workers have started.

A worker's clock says nothing about another's. So the service counts: a task asks for its session and says for how long
it has been running, by a clock that measures durations only, and the session begins with the time at which that was by
this process's clock. A question that is late, or is asked again, makes no task younger.

A service that was started anew knows no session of the run before, whose clock may have been another. Tasks ask again
then, and are put in the same order by the same durations.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable

_COUNTED = re.compile(r"[0-9]{13}-[0-9]{3}-([0-9a-f]{8})-[0-9a-f]+")
"""Milliseconds, microseconds, the run of the service, a random part."""


def running_clock() -> Callable[[], int]:
    """Microseconds that never go back, beginning with the time of day: sessions of shims that count by their workers'
    clocks can be compared with it."""
    offset = time.time_ns() - time.monotonic_ns()
    return lambda: (time.monotonic_ns() + offset) // 1000


class Sessions:
    """`clock` gives microseconds that never go back."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._run = secrets.token_hex(4)

    def begin(self, age_us: int) -> str:
        """A session of a task, or connector, that started so long ago."""
        millis, micros = divmod(max(0, self._clock() - age_us), 1000)
        return f"{millis:013d}-{micros:03d}-{self._run}-{secrets.token_hex(8)}"

    def foreign(self, session: str) -> bool:
        """Whether another run of the service has given it: its place among those of this run is not known. Sessions
        of older shims, which nobody has given, are never foreign."""
        counted = _COUNTED.fullmatch(session)
        return counted is not None and counted.group(1) != self._run
