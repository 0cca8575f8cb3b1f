"""The one bounded pool for what blocks: refusing is a feature. Full means 503 with Retry-After, never a
longer queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from bridge.errors import Overloaded

T = TypeVar("T")


class BoundedPool:
    """`size` threads and room for `queue` calls that wait for one. To be used from one event loop."""

    def __init__(self, size: int, queue: int) -> None:
        self.size = size
        self.room = size + queue
        self.pending = 0
        self.refused = 0
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="bridge-pool")

    @property
    def in_use(self) -> int:
        return min(self.pending, self.size)

    @property
    def overload(self) -> str | None:
        """Why a call would be refused now, None when it would be taken."""
        if self.pending < self.room:
            return None
        return f"all {self.size} threads are busy and {self.room - self.size} calls wait already"

    async def run(self, call: Callable[[], T]) -> T:
        if (overload := self.overload) is not None:
            self.refused += 1
            raise Overloaded(overload)
        self.pending += 1
        future = asyncio.get_running_loop().run_in_executor(self._threads, call)
        # Counted until the thread is free again, not until the caller has gone.
        future.add_done_callback(self._done)
        return await asyncio.shield(future)

    def _done(self, future: asyncio.Future[T]) -> None:
        self.pending -= 1
        if not future.cancelled():
            future.exception()

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
