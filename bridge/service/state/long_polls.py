"""Polls that are held: each waits on the event loop for its time, for records, for a failure, or for the
drain."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict

SPREAD = 0.15
"""A poll is held up to this part shorter than asked. Tasks that were started together would else be
answered together for ever: 100 answers in one burst put 50 ms on the last one, spread out they put none on
any."""


class LongPolls:
    """Keyed by connector name."""

    def __init__(self, random_part: random.Random | None = None) -> None:
        self._waiting: defaultdict[str, set[asyncio.Future[None]]] = defaultdict(set)
        self._random = random_part or random.Random()  # noqa: S311
        self.draining = False

    @property
    def held(self) -> int:
        return sum(len(waiting) for waiting in self._waiting.values())

    async def wait(self, name: str, wait_ms: int) -> None:
        if self.draining or wait_ms <= 0:
            return
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        seconds = wait_ms / 1000 * (1 - SPREAD * self._random.random())
        timer = loop.call_later(seconds, _wake, woken)
        waiting = self._waiting[name]
        waiting.add(woken)
        try:
            await woken
        finally:
            timer.cancel()
            waiting.discard(woken)
            if not waiting:
                self._waiting.pop(name, None)

    def wake(self, name: str) -> None:
        for woken in tuple(self._waiting.get(name, ())):
            _wake(woken)

    def drain(self) -> None:
        """From now on nothing is held."""
        self.draining = True
        for name in tuple(self._waiting):
            self.wake(name)


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
