"""Python files, each parsed and walked once for all tests of the repository."""

from __future__ import annotations

import ast
import re
from functools import cache

from tests import ROOT


@cache
def parse(source: str) -> ast.Module:
    return ast.parse(source)


@cache
def nodes(tree: ast.AST) -> list[ast.AST]:
    """What `ast.walk` yields, in another order and in half of its time."""
    collected, left = [], [tree]
    while left:
        collected.append(node := left.pop())
        for value in node.__dict__.values():
            if isinstance(value, ast.AST):
                left.append(value)
            elif isinstance(value, list):
                left += [item for item in value if isinstance(item, ast.AST)]
    return collected


def parsed(folder: str, holding: re.Pattern[str] = re.compile("")) -> dict[str, ast.Module]:
    """Files of a folder in whose text the pattern is found, by their paths."""
    texts = {path: path.read_text("utf-8") for path in sorted((ROOT / folder).rglob("*.py"))}
    return {str(path.relative_to(ROOT)): parse(text) for path, text in texts.items() if holding.search(text)}
