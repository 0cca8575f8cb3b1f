"""`--watch SECONDS`: shows an answer again and again, until Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Annotated

import typer

from bridge.commands.exit_status import BAD_SETTINGS

WatchOption = Annotated[
    float | None,
    typer.Option("--watch", "-w", min=0.1, help="Show it again every so many seconds, until Ctrl-C."),
]
_CLEAR = "\x1b[2J\x1b[H"


def show_repeatedly(show: Callable[[], int], seconds: float | None) -> None:
    """Calls `show`, which prints an answer, and ends the command with the exit status that it returns.

    With `seconds` it calls it again and again, on a terminal in the same place. A service that does not answer is a
    line on standard error, and asked again. Ctrl-C ends the command with the status of the last answer.
    """
    status = _once(show)
    try:
        while seconds is not None:
            time.sleep(seconds)
            if sys.stdout.isatty():
                sys.stdout.write(_CLEAR)
            status = _once(show)
    except KeyboardInterrupt:
        sys.stdout.write("\n")
    raise typer.Exit(status)


def _once(show: Callable[[], int]) -> int:
    try:
        status = show()
    except typer.Exit as ended:
        if ended.exit_code == BAD_SETTINGS:
            raise
        status = ended.exit_code
    sys.stdout.flush()
    return status
