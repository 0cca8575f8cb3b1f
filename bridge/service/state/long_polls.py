"""Holds polls: each waits on the event loop until its time is over, or for records, a failure, or the shutdown."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict

SPREAD = 0.15
"""A poll is held shorter than requested by up to this share. Otherwise tasks that started together would be answered
together for ever: of 100 answers in one burst the last one takes 50 ms longer; spread out, none does."""


class LongPolls:
    """The held polls of all connectors."""

    def __init__(self, random_part: random.Random | None = None) -> None:
        self._waiting: defaultdict[str, set[asyncio.Future[None]]] = defaultdict(set)
        self._random = random_part or random.Random()  # noqa: S311
        self.draining = False

    @property
    def count(self) -> int:
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
        """Answers all held polls, and holds none from now on."""
        self.draining = True
        for name in tuple(self._waiting):
            self.wake(name)


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
