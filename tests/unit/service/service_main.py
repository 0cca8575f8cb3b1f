"""`mirror-bridge serve` with the fake kind, as a process: `python -m tests.unit.service.service_main`."""

from __future__ import annotations

import asyncio
import os
import sys
import time

from bridge.service.serve import CannotListen, run
from bridge.settings import load_settings
from tests.unit.service.service_fakes import FACTORY, checks

HOLD_UPS = "TEST_HOLD_UPS"
"""Says in a line what held up the event loop for this many ms of the processor, whatever else the machine does."""


def tell_hold_ups(most_ms: float) -> None:
    run_callback = asyncio.Handle._run

    def timed(self: asyncio.Handle) -> None:
        began = time.thread_time()
        run_callback(self)
        if (took := (time.thread_time() - began) * 1000) >= most_ms:
            print(f"held up for {took:.1f} ms by {self!r}", file=sys.stderr, flush=True)

    asyncio.Handle._run = timed  # type: ignore[method-assign]


if __name__ == "__main__":
    if (most := os.environ.get(HOLD_UPS)) is not None:
        tell_hold_ups(float(most))
    try:
        run(load_settings(), checks(), FACTORY)
    except CannotListen as error:
        sys.exit(f"mirror-bridge: {error}")
