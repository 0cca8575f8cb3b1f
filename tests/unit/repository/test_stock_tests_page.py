"""docs/stock-tests.md and docs/kip-382.md: each test of stock stands there once, every test that they name exists."""

from __future__ import annotations

import ast
import re
from functools import lru_cache

import pytest

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


def missing(text: str) -> list[str]:
    """The tests that it names, as `path::function`, and that do not exist."""
    named = re.findall(r"`(tests/[^`:]+|java-shim/[^`:]+)(?:::(\w+))?`", text)
    return [
        f"{path}::{function}"
        for path, function in named
        if not (ROOT / path).exists() or (function and function not in functions(path))
    ]


def test_each_test_of_stock_has_one_here_or_says_none() -> None:
    without = [
        f"{of}.{test}" for of, test, here in rows() if "`" not in here and not here.startswith("none: ")
    ]
    assert without == []


@pytest.mark.parametrize("page", ["stock-tests.md", "kip-382.md"])
def test_every_test_that_is_named_exists(page: str) -> None:
    text = (ROOT / "docs" / page).read_text("utf-8")
    assert "`tests/" in text
    assert missing(text) == []
