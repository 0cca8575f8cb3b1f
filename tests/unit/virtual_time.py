"""Runs coroutines in time that passes only while they all wait: an hour of waiting takes no time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import pytest

EPOCH = 1_790_000_000.0
"""The wall clock at the beginning, in seconds."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """`time()` jumps to the next timer as soon as nothing else is left to do."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.skew = 0.0
        """Seconds by which the wall clock was set forward."""

    def time(self) -> float:
        return self.now

    def wall(self) -> float:
        return EPOCH + self.now + self.skew

    def _run_once(self) -> None:
        if not self._ready:  # type: ignore[attr-defined]
            timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
            first = timers[:1] if timers and not timers[0].cancelled() else timers  # it is a heap
            due = (timer.when() for timer in first if not timer.cancelled())
            self.now = max(self.now, min(due, default=self.now))
        super()._run_once()  # type: ignore[misc]


def run_virtual(main: Coroutine[Any, Any, None], loop: VirtualLoop) -> None:
    """Runs `main` to its end on `loop`, with the clocks of `time` that of the loop."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", loop.time)
        patch.setattr(time, "time", loop.wall)
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(main)
