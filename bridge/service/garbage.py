"""When the HTTP process looks for cyclic garbage: a look at all objects holds up every answer, however it began.

Python looks by itself whenever the objects that are alive have grown by a quarter. While a thread of the pools parses a
configuration of a megabyte that happened again and again, for up to 120 ms. So only young objects are looked at by
themselves, and all of them when no call is under way: then there are few.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

LOOK_SECONDS = 5.0
MOST_SECONDS = 120.0
"""From one look to the next, however busy the pools are."""
_NEVER = 1_000_000_000


def keep_what_exists() -> None:
    """Excludes all that exists now from garbage collection. From here on `collect` looks at all the rest."""
    gc.collect()
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, _NEVER)


def due(idle_for: float, since: float) -> bool:
    """Whether to look now. `idle_for`: for how long no call is under way, `since`: since the last look; in seconds.
    Pure."""
    return (idle_for > 0 and since >= LOOK_SECONDS) or since >= MOST_SECONDS


async def collect(in_use: Callable[[], int]) -> None:
    """Collects when it is due, until cancelled. `in_use`: how many calls are under way."""
    loop = asyncio.get_running_loop()
    last = busy = loop.time()
    while True:
        await asyncio.sleep(LOOK_SECONDS / 10)
        now = loop.time()
        busy = now if in_use() else busy
        if due(now - busy, now - last):
            gc.collect()
            last = loop.time()
