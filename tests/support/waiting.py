"""Waits of tests that run in an event loop; `bridge.local.eventually` is for all others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    """Waits until the condition holds. Raises AssertionError when it does not in time."""
    end = asyncio.get_running_loop().time() + seconds
    while not holds():
        assert asyncio.get_running_loop().time() < end, f"the condition did not hold within {seconds:g} s"
        await asyncio.sleep(0.001)
