"""Waits for a condition, and fails at once when a process dies meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from bridge.local.errors import ProcessDied, WaitTimedOut

T = TypeVar("T")

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_OF_THE_WAIT = 0.05
"""A pause is a twentieth of the wait so far: who polls takes processor time from what is waited for."""


class Watched(Protocol):
    """A process whose death ends a wait."""

    @property
    def name(self) -> str: ...

    def died(self) -> bool:
        """Whether it ended without having been asked to."""

    def obituary(self) -> str:
        """How it ended, and the end of its log."""

    def log_tail(self, lines: int = ...) -> str: ...


def eventually(attempt: Callable[[], T], timeout: float, *, what: str, watched: Iterable[Watched] = ()) -> T:
    """Repeats `attempt` until it neither raises nor returns False, and returns its result.

    Raises ProcessDied as soon as one of the watched processes has died, and WaitTimedOut with the last failure after
    `timeout` seconds.
    """
    processes = list(watched)
    began = time.monotonic()
    while True:
        failure: Exception | None = None
        try:
            result = attempt()
            if result is not False:
                return result
        except ProcessDied:
            raise
        except Exception as error:
            failure = error
        for process in processes:
            if process.died():
                raise ProcessDied(f"{process.obituary()}\n(while waiting: {what})") from failure
        waited = time.monotonic() - began
        if waited >= timeout:
            raise WaitTimedOut(_timed_out(what, timeout, failure, processes)) from failure
        time.sleep(min(max(_SHORTEST_PAUSE, waited * _OF_THE_WAIT), _LONGEST_PAUSE))


def _timed_out(what: str, timeout: float, failure: Exception | None, processes: list[Watched]) -> str:
    reason = f": {type(failure).__name__}: {failure}" if failure else ""
    tails = [f"--- end of the log of {process.name}\n{process.log_tail(15)}" for process in processes]
    return "\n".join([f"Not within {timeout:g} s: {what}{reason}", *tails])
