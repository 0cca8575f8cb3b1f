"""Makes SIGTERM and SIGHUP raise an exception as Ctrl-C does, so that the stack is closed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_Handler = Callable[[int, FrameType | None], object] | int | None


def _leave(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


@contextmanager
def unwinding_on_signals() -> Iterator[None]:
    """Inside, the two signals raise SystemExit. Handlers that are installed already stay."""
    before: dict[signal.Signals, _Handler] = {}
    if threading.current_thread() is threading.main_thread():
        for which in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(which) is signal.SIG_DFL:
                before[which] = signal.signal(which, _leave)
    try:
        yield
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)
