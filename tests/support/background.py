"""What goes on beside a test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_WITHIN = 60.0
"""Seconds in which a run has to see that it is to end."""


@contextmanager
def in_background(run: Callable[[threading.Event], object], name: str) -> Iterator[None]:
    """Runs this in a thread for the time of the block: its event is set at the end. Raises what it has raised."""
    end, errors = threading.Event(), list[BaseException]()

    def attempt() -> None:
        try:
            run(end)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=attempt, name=name)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join(_WITHIN)
    assert not errors, errors
    assert not thread.is_alive(), f"{name} goes on"
