"""Issues sessions, ordered by when the tasks of all workers have started.

Clocks of workers can't be compared. So the service counts: a task requests its session with the time that it has been
running, by a monotonic clock, and the session begins with its start by this process's clock. A request that is late, or
is repeated, does not make the task younger.

After a restart the service does not know the sessions of the run before, whose clock may have differed. Tasks then
request new ones, and get the same order from the same durations.
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
    """The sessions that this service has issued. `clock` gives microseconds that never go back."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._run = secrets.token_hex(4)

    def begin(self, age_us: int) -> str:
        """Issues a session for a task, or connector, that started so long ago."""
        millis, micros = divmod(max(0, self._clock() - age_us), 1000)
        return f"{millis:013d}-{micros:03d}-{self._run}-{secrets.token_hex(8)}"

    def foreign(self, session: str) -> bool:
        """Tells whether another run of the service has issued it, so that it can't be compared with those of this run.
        Sessions that older shims make themselves are never foreign."""
        counted = _COUNTED.fullmatch(session)
        return counted is not None and counted.group(1) != self._run
