"""What holds for tests themselves: what they share has a place of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.support.messages import texts
from tests.unit.repository.parsing import nodes, parsed

LONG, BLANKS = 45, 4
"""Characters and blanks from which on a string of an assertion is a sentence."""
LIVE = {
    *(
        "config",
        "connectors",
        "get",
        "groups",
        "health",
        "offsets",
        "partition",
        "readiness",
        "report",
        "sessions",
    ),
    *("status", "task_states", "tasks"),
}
"""What the service and Connect are asked for that changes by itself, unlike what they say of a configuration."""
CLOCKS = ("time.monotonic()", "time.perf_counter()", "time.time()")


def modules(tree: ast.AST) -> Iterator[str]:
    """What is imported, with the names that are imported from it."""
    for node in nodes(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def sentences(tree: ast.AST) -> Iterator[str]:
    """The sentences in assertions, and in the calls of pytest.raises."""
    for node in nodes(tree):
        match node:
            case ast.Assert() | ast.Call(func=ast.Attribute(attr="raises")):
                strings = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))
                yield from (text for text in strings if isinstance(text, str) and is_sentence(text))


def is_sentence(text: str) -> bool:
    return len(text) >= LONG and text.count(" ") >= BLANKS


def messages(tree: ast.AST) -> Iterator[str]:
    """The names of messages that are asked for."""
    for node in nodes(tree):
        match node:
            case ast.Call(
                func=ast.Name(id="message" | "message_pattern"), args=[ast.Constant(value=str(name)), *_]
            ):
                yield name


def is_long(node: ast.AST) -> bool:
    """Whether a file, class or test belongs to the whole run only."""
    marks: list[ast.AST] = list(getattr(node, "decorator_list", []))
    if isinstance(node, ast.Module):
        marks += [child for child in node.body if isinstance(child, ast.Assign)]
    return any(mark in ast.unparse(each) for each in marks for mark in ("mark.long", "mark.soak"))


def short_assertions(
    node: ast.AST, depth: int = 0, *, in_test: bool = False
) -> Iterator[tuple[ast.expr, int]]:
    """What is asserted in the short form, and in how many functions each assertion stands. A test that unpacks a list
    asserts how much is in it."""
    if is_long(node):
        return
    in_test = in_test or (isinstance(node, ast.FunctionDef) and node.name.startswith("test"))
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Assert(test=asserted):
                yield asserted, depth
            case ast.Assign(targets=[ast.Tuple()], value=asserted) if not isinstance(asserted, ast.Tuple):
                if in_test:
                    yield asserted, depth
        function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from short_assertions(child, depth + function, in_test=in_test)


def asks_live_state(test: ast.expr) -> bool:
    """Whether it asks the service, Connect's REST API or a pipeline for what changes by itself."""
    for node in ast.walk(test):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="service" | "rest"), attr=name)):
                if name in LIVE:
                    return True
            case ast.Attribute(
                value=ast.Attribute(value=ast.Name(), attr="status"), attr="partitions" | "errors"
            ):
                return True
    return False


def bounds_real_time(test: ast.expr) -> bool:
    """Whether it says that some time on the clock is less than something."""
    return any(
        isinstance(node, ast.Compare)
        and isinstance(node.left, ast.BinOp)
        and isinstance(node.left.op, ast.Sub)
        and isinstance(node.ops[0], ast.Lt | ast.LtE)
        and any(ast.unparse(part).startswith(CLOCKS) for part in ast.walk(node.left))
        for node in ast.walk(test)
    )


def test_what_changes_by_itself_is_waited_for() -> None:
    """A test asserts the value that its wait returned: asked again, the service may say something newer. A function in
    a test is a condition that a wait repeats."""
    found = [
        f"{path}:{assertion.lineno}"
        for path, tree in parsed("tests").items()
        if path.startswith(("tests/e2e", "tests/integration"))
        for assertion, depth in short_assertions(tree)
        if depth == 1 and asks_live_state(assertion)
    ]
    assert found == []


def test_no_test_of_the_short_form_bounds_real_time() -> None:
    """A machine may stand still. A hang ends with the timeout of the test."""
    found = [
        f"{path}:{assertion.lineno}"
        for path, tree in parsed("tests").items()
        if not path.startswith(("tests/perf", "tests/soak"))
        for assertion, _ in short_assertions(tree)
        if bounds_real_time(assertion)
    ]
    assert found == []


def test_no_test_file_is_imported() -> None:
    """What files of tests share is a module beside them, or one of tests/support."""
    found = [
        f"{path}: {name}"
        for path, tree in parsed("tests").items()
        for name in modules(tree)
        if name.startswith("tests.") and any(part.startswith("test_") for part in name.split("."))
    ]
    assert found == []


def test_texts_stand_in_the_table_of_messages() -> None:
    """Each once, in tests/messages.toml: a text that is worded anew is changed in one place."""
    found = [f"{path}: {text}" for path, tree in parsed("tests").items() for text in sentences(tree)]
    assert found == []


def test_each_message_of_the_table_is_asserted() -> None:
    asked = {name for tree in parsed("tests").values() for name in messages(tree)}
    assert asked == texts().keys()


def test_what_is_forbidden_is_seen() -> None:
    text = "a sentence that is long enough to be worded anew"
    for line in (f"assert {text!r} in said", f"with pytest.raises(E, match={text!r}): f()"):
        assert list(sentences(ast.parse(line))) == [text]
    assert "tests.e2e.test_source" in set(modules(ast.parse("from tests.e2e import test_source")))
    assert list(messages(ast.parse('message("config.invalid", key="k")'))) == ["config.invalid"]
    for line in ("assert flow.service.health() == {}", "assert x in flow.worker.rest.status(n)['tasks']"):
        assert asks_live_state(ast.parse(line).body[0].test)  # type: ignore[attr-defined]
    assert not asks_live_state(ast.parse("rest.validation_errors(c) == {}", mode="eval").body)
    unpacked = ast.parse("def test():\n    (one,) = running.status.partitions")
    assert [asks_live_state(each) for each, _ in short_assertions(unpacked)] == [True]
    assert bounds_real_time(ast.parse("time.monotonic() - began < 5", mode="eval").body)
    assert not bounds_real_time(ast.parse("time.monotonic() - began > 5", mode="eval").body)
    long = ast.parse("@pytest.mark.long\ndef test(): assert flow.service.health()")
    assert list(short_assertions(long)) == []
