"""docs/stock-tests.md and docs/kip-382.md: each test of stock stands there once, each row of the proposals says what is
here, and every test that they name exists."""

from __future__ import annotations

import ast
import re
from functools import lru_cache

from tests import ROOT

PAGE = (ROOT / "docs/stock-tests.md").read_text()
ROW = re.compile(r"^\| `(\w+)` \| (.+) \|$", re.MULTILINE)
STOCKS = 177
"""Test methods of connect/mirror and connect/mirror-client (stock §4)."""


def rows() -> list[tuple[str, str, str]]:
    """Class, test, and what stands beside it."""
    return [
        (section.split("\n", 1)[0], test, here)
        for section in PAGE.split("\n## ")[1:]
        for test, here in ROW.findall(section)
    ]


@lru_cache
def functions(path: str) -> frozenset[str]:
    text = (ROOT / path).read_text()
    if path.endswith(".java"):
        return frozenset(re.findall(r"void (\w+)\(", text))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(ast.parse(text)) if isinstance(node, kinds))


def test_each_test_of_stock_stands_there_once() -> None:
    names = [(of, test) for of, test, _ in rows()]
    assert len(names) == len(set(names)) == STOCKS
    assert PAGE.count("\n| `") == STOCKS


def test_what_is_named_exists_or_a_reason_is_given() -> None:
    wrong = []
    for of, test, here in rows():
        named = re.findall(r"`([^`]+)::(\w+)`", here)
        reason = here.startswith("none: ") and len(here) > len("none: ") + 20
        missing = [f"{path}::{function}" for path, function in named if function not in functions(path)]
        if missing or not (named or reason):
            wrong.append((f"{of}.{test}", missing))
    assert not wrong


KIPS = (ROOT / "docs/kip-382.md").read_text()
WITHOUT_A_TEST = ("not applicable", "not built")


def test_each_row_of_the_proposals_says_what_is_here_and_how_it_is_shown() -> None:
    before, translation = KIPS.split("## Offset translation")
    wrong = []
    for row, here, shown in re.findall(r"^\| (.+?) \| (.+?) \| (.*?) ?\|$", before, re.MULTILINE):
        if row in ("Row", "---"):
            continue
        needs_a_test = not any(word in here for word in WITHOUT_A_TEST)
        if needs_a_test and "tests/" not in shown:
            wrong.append(row)
    assert not wrong
    assert translation.count("`tests/") >= 5


def test_every_test_that_the_proposals_are_shown_by_exists() -> None:
    named = re.findall(r"`(tests/[^`:]+)(?:::(\w+))?`", KIPS)
    assert len(named) > 50
    missing = [
        f"{path}::{function}"
        for path, function in named
        if not (ROOT / path).exists() or (function and function not in functions(path))
    ]
    assert not missing
