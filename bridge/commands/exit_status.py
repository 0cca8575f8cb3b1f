"""How a command ends when it can't go on: one line for a person, no traceback, and an exit status."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

from bridge.errors import ConfigRejected, KafkaFailure

CANNOT_START, BAD_SETTINGS, INTERRUPTED = 1, 2, 130
NOT_READY, CANNOT_TELL = 1, 3
OF_ANSWERS = (
    f"Exit status 0: all groups are ready, or moved; {NOT_READY}: some are known not to be ready; {BAD_SETTINGS}: a "
    f"wrong option; {CANNOT_TELL}: it is not known (cannot_tell, ready_as_of, no such group), or the service does not "
    "answer."
)
OF_MOVES = (
    f"Exit status 0: done, or with --dry-run possible, for all groups; {NOT_READY}: refused, because some are known "
    f"not to be ready, or the request can't be met; {BAD_SETTINGS}: a wrong option; {CANNOT_TELL}: refused, because it "
    "is not known (cannot_tell, ready_as_of, no such group or flow), or the service does not answer."
)
"""The same answer ends `readiness` and `failover` with the same status; the table is in docs/readiness.md."""


def end(line: str, code: int) -> NoReturn:
    note(line)
    raise typer.Exit(code)


def note(line: str) -> None:
    print(f"mirror-bridge: {line}", file=sys.stderr)  # noqa: T201


@contextmanager
def reported(word: Callable[[str], str] = str) -> Iterator[None]:
    """Turns errors of configurations and clusters into the end of the command. `word` puts them into the words of its
    own options."""
    try:
        yield
    except ConfigRejected as error:
        end(word(str(error)), BAD_SETTINGS)
    except KafkaFailure as error:
        end(word(str(error)), CANNOT_START)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
