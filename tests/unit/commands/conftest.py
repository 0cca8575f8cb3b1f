"""What calls of commands would do again and again, and takes longer than what most of them do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache

import pytest
from typer import testing
from typer.main import get_command

_command = cache(get_command)


@pytest.fixture(autouse=True, scope="module")
def _made_once() -> Iterator[None]:
    """Typer's runner makes all commands for each call, and a client of a service reads the system's authorities."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(testing, "_get_command", _command)
        patch.setenv("SSL_CERT_FILE", os.devnull)
        yield
