"""Pages of docs/ whose blocks run: ```python in one namespace, ```sh as our command. A block of ```text is what the one
before it prints."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.support.waits import WAIT

DOCS = Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(r"^```(python|sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A block of code of a page. `line`: of the page. `expected`: what it prints, by the page."""

    kind: str
    text: str
    line: int
    expected: str


def blocks(name: str) -> list[Block]:
    """The blocks of a page that run, in order."""
    page = (DOCS / name).read_text("utf-8")
    found = list(_BLOCK.finditer(page))
    return [
        Block(
            each[1],
            each[2],
            page.count("\n", 0, each.start()) + 2,
            after[2] if after is not None and after[1] == "text" else "",
        )
        for each, after in zip(found, [*found[1:], None], strict=True)
        if each[1] != "text"
    ]


def run(block: Block, namespace: dict[str, object]) -> str:
    """Runs a block and returns what it prints."""
    if block.kind == "sh":
        return _command(os.path.expandvars(block.text).split())
    printed = io.StringIO()
    code = compile(
        "\n" * (block.line - 1) + block.text, "the page", "exec"
    )  # with the page's own line numbers
    with contextlib.redirect_stdout(printed):
        exec(code, namespace)
    return printed.getvalue()


def _command(words: list[str]) -> str:
    assert words[0] == "mirror-bridge", words
    command = [sys.executable, "-m", "bridge", *words[1:]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return ""


def tidied(text: str) -> str:
    """Removes differences of whitespace alone."""
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())
