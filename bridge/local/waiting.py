"""Waits for a condition, and fails at once when a process dies meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from bridge.local.errors import ProcessDied, WaitTimedOut

T = TypeVar("T")

_TRY_EVERY_SECONDS = 0.05


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
    deadline = time.monotonic() + timeout
    while True:
        failure: Exception | None = None
        try:
            answer = attempt()
            if answer is not False:
                return answer
        except ProcessDied:
            raise
        except Exception as error:
            failure = error
        for process in processes:
            if process.died():
                raise ProcessDied(f"{process.obituary()}\n(while waiting: {what})") from failure
        if time.monotonic() >= deadline:
            raise WaitTimedOut(_timed_out(what, timeout, failure, processes)) from failure
        time.sleep(_TRY_EVERY_SECONDS)


def _timed_out(what: str, timeout: float, failure: Exception | None, processes: list[Watched]) -> str:
    reason = f": {type(failure).__name__}: {failure}" if failure else ""
    tails = [f"--- end of the log of {process.name}\n{process.log_tail(15)}" for process in processes]
    return "\n".join([f"Not within {timeout:g} s: {what}{reason}", *tails])
