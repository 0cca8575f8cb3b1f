"""Bounded thread pools for calls that block: a full pool refuses with 503 and Retry-After instead of queueing more.

A call that exceeds its time limit fails, and its thread, which can't be stopped, leaves its place to another one: calls
that hang do not use up the pool. Only so many threads may hang; then the pool is full until one of them ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from bridge.errors import NotAnswered, Overloaded

T = TypeVar("T")

MOST_HANGING = 32
"""Hanging threads of a pool; each costs little more than its stack."""


class _Job:
    """A call, from when it is submitted. `given_up`: its time limit has passed, though its thread may go on."""

    def __init__(self, call: Callable[[], Any], answer: asyncio.Future[Any]) -> None:
        self.call, self.answer = call, answer
        self.begun = self.given_up = False
        self.timer: asyncio.TimerHandle | None = None


class BoundedPool:
    """Runs calls in `size` threads, with a queue of `queue` calls; a call times out after `seconds`, including its
    wait. `doing` names the call in errors. For one event loop.

    The threads are daemons: the service exits even if some of them hang.
    """

    def __init__(self, size: int, queue: int, seconds: float = 60.0, doing: str = "the request") -> None:
        self.size = size
        self.room = size + queue
        self.refused = 0
        self.hanging = 0
        self.seconds, self._doing = seconds, doing
        self._running = 0
        self._waiting: deque[_Job] = deque()

    @property
    def pending(self) -> int:
        return self._running + len(self._waiting)

    @property
    def in_use(self) -> int:
        return self._running

    @property
    def overload(self) -> str | None:
        """Why a call would be refused now; None when it would be accepted."""
        if self.pending < self.room:
            return None
        hang = f", {self.hanging} more hang" if self.hanging else ""
        waiting = len(self._waiting)
        return f"all {self.size} threads are busy and {waiting} calls wait already{hang}"

    async def run(self, call: Callable[[], T]) -> T:
        """Runs a call in a thread. Raises Overloaded, and NotAnswered for a call that has timed out."""
        if (overload := self.overload) is not None:
            self.refused += 1
            raise Overloaded(overload)
        loop = asyncio.get_running_loop()
        job = _Job(call, loop.create_future())
        # Counted until its thread is free again or its time limit has passed, even if the caller has gone.
        job.timer = loop.call_later(self.seconds, self._give_up, job)
        self._waiting.append(job)
        self._begin(loop)
        answer: T = await asyncio.shield(job.answer)
        return answer

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._waiting and self._running < self.size:
            job = self._waiting.popleft()
            job.begun = True
            self._running += 1
            thread = threading.Thread(target=self._work, args=(job, loop), name="bridge-pool", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                self._done(job, _Outcome(None, Overloaded(f"no thread could be started: {error}")))

    def _work(self, job: _Job, loop: asyncio.AbstractEventLoop) -> None:
        try:
            outcome = _Outcome(job.call(), None)
        except BaseException as error:
            outcome = _Outcome(None, error)
        with contextlib.suppress(RuntimeError):  # the loop was closed in the meantime
            loop.call_soon_threadsafe(self._done, job, outcome)

    def _done(self, job: _Job, outcome: _Outcome) -> None:
        if job.given_up:
            self.hanging -= 1
        else:
            self._running -= 1
        self._settle(job, outcome)
        self._begin(job.answer.get_loop())

    def _give_up(self, job: _Job) -> None:
        """Ends a call whose time limit has passed."""
        loop = job.answer.get_loop()
        if not job.begun:
            self._waiting.remove(job)
            why = f"no thread was free for {self.seconds:g} s: {self._running} are busy, {self.hanging} hang"
            self._settle(job, _Outcome(None, Overloaded(why)))
            return
        text = f"{self._doing} took longer than {self.seconds:g} s (timeout)"
        self._settle(job, _Outcome(None, NotAnswered(text)))
        if self.hanging < MOST_HANGING:
            job.given_up = True
            self.hanging += 1
            self._running -= 1
            self._begin(loop)

    def _settle(self, job: _Job, outcome: _Outcome) -> None:
        if job.timer is not None:
            job.timer.cancel()
        if job.answer.done():
            return
        if outcome.error is None:
            job.answer.set_result(outcome.value)
        else:
            job.answer.set_exception(outcome.error)
            job.answer.exception()  # the caller may have gone

    def close(self) -> None:
        """Refuses the calls in the queue; does not wait for running threads."""
        waiting, self._waiting = self._waiting, deque()
        for job in waiting:
            self._settle(job, _Outcome(None, Overloaded("the service is shutting down")))


class _Outcome(NamedTuple):
    value: Any
    error: BaseException | None


class Pools(NamedTuple):
    """The pools of the service, apart so that calls that hang in one do not delay another. `starts` checks
    configurations of connectors and tasks that start, `validations` those of validate requests; `large_…` wait for
    the processes that check large ones, one call at a time; `queries` is for calls to clusters."""

    starts: BoundedPool
    validations: BoundedPool
    large_starts: BoundedPool
    large_validations: BoundedPool
    queries: BoundedPool

    @property
    def in_use(self) -> int:
        return sum(pool.in_use for pool in self)

    @property
    def size(self) -> int:
        return sum(pool.size for pool in self)

    @property
    def refused(self) -> int:
        return sum(pool.refused for pool in self)

    @property
    def hanging(self) -> int:
        return sum(pool.hanging for pool in self)

    def close(self) -> None:
        for pool in self:
            pool.close()


CHECKING = (
    "checking the configuration (a file or a module that it names may never end: see the keys that name some)"
)
CHECK_SECONDS = 5.0
"""A configuration is checked in milliseconds. The shim waits 6.5 s for a validation."""
QUERY_SECONDS = 75.0
"""The shim waits 80 s for offsets to be altered, and MirrorClient's queries take a minute at most."""


def pools(size: int, queue: int, check_seconds: float = CHECK_SECONDS) -> Pools:
    """Builds the pools, each with `size` threads and a queue of `queue` calls."""
    return Pools(
        BoundedPool(size, queue, check_seconds, CHECKING),
        BoundedPool(size, queue, check_seconds, CHECKING),
        BoundedPool(1, queue, check_seconds, CHECKING),
        BoundedPool(1, queue, check_seconds, CHECKING),
        BoundedPool(size, queue, QUERY_SECONDS, "asking the clusters"),
    )
