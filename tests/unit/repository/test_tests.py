"""What holds for tests themselves: what they share has a place of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.messages import texts

TESTS = Path(__file__).parents[2]
LONG, BLANKS = 45, 4
"""Characters and blanks from which on a string of an assertion is a sentence."""


@cache
def parsed() -> dict[str, ast.Module]:
    """Each file of tests, by its path."""
    return {
        str(path.relative_to(TESTS.parent)): ast.parse(path.read_text("utf-8"))
        for path in sorted(TESTS.rglob("*.py"))
    }


def modules(tree: ast.AST) -> Iterator[str]:
    """What is imported, with the names that are imported from it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def sentences(tree: ast.AST) -> Iterator[str]:
    """The sentences in assertions, and in the calls of pytest.raises."""
    for node in ast.walk(tree):
        match node:
            case ast.Assert() | ast.Call(func=ast.Attribute(attr="raises")):
                strings = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))
                yield from (text for text in strings if isinstance(text, str) and is_sentence(text))


def is_sentence(text: str) -> bool:
    return len(text) >= LONG and text.count(" ") >= BLANKS


def messages(tree: ast.AST) -> Iterator[str]:
    """The names of messages that are asked for."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Name(id="message" | "message_pattern"), args=[ast.Constant(value=str(name)), *_]
            ):
                yield name


def test_no_test_file_is_imported() -> None:
    """What files of tests share is a module beside them, or one of tests/support."""
    found = [
        f"{path}: {name}"
        for path, tree in parsed().items()
        for name in modules(tree)
        if name.startswith("tests.") and any(part.startswith("test_") for part in name.split("."))
    ]
    assert found == []


def test_texts_stand_in_the_table_of_messages() -> None:
    """Each once, in tests/messages.toml: a text that is worded anew is changed in one place."""
    found = [f"{path}: {text}" for path, tree in parsed().items() for text in sentences(tree)]
    assert found == []


def test_each_message_of_the_table_is_asserted() -> None:
    asked = {name for tree in parsed().values() for name in messages(tree)}
    assert asked == texts().keys()


def test_what_is_forbidden_is_seen() -> None:
    text = "a sentence that is long enough to be worded anew"
    for line in (f"assert {text!r} in said", f"with pytest.raises(E, match={text!r}): f()"):
        assert list(sentences(ast.parse(line))) == [text]
    assert "tests.e2e.test_source" in set(modules(ast.parse("from tests.e2e import test_source")))
    assert list(messages(ast.parse('message("config.invalid", key="k")'))) == ["config.invalid"]
