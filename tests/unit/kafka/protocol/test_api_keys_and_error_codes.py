"""Numbers of requests and errors: the same as in both client libraries, and nowhere without their names."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import aiokafka.errors
import aiokafka.protocol
import pytest
from aiokafka.protocol.api import Request
from confluent_kafka import KafkaError

from bridge.kafka.protocol.error_codes import Errors
from bridge.kafka.protocol.errors import of_code
from bridge.kafka.protocol.wire import ApiKeys

ROOT = Path(__file__).parents[4]
TAKES_A_NUMBER = {"Call", "of_code"}
"""Functions whose first argument is a number of these tables."""
HOLDS_AN_ERROR = {"code", "error"}
"""Names of variables and fields for error codes, in modules that read responses."""
OTHER_NAMES = {
    "INVALID_MSG": Errors.CORRUPT_MESSAGE,
    "INVALID_MSG_SIZE": Errors.INVALID_FETCH_SIZE,
    "MSG_SIZE_TOO_LARGE": Errors.MESSAGE_TOO_LARGE,
    "NOT_LEADER_FOR_PARTITION": Errors.NOT_LEADER_OR_FOLLOWER,
    "NO_ERROR": Errors.NONE,
    "STALE_CTRL_EPOCH": Errors.STALE_CONTROLLER_EPOCH,
    "TOPIC_EXCEPTION": Errors.INVALID_TOPIC_EXCEPTION,
    "UNKNOWN": Errors.UNKNOWN_SERVER_ERROR,
    "UNKNOWN_TOPIC_OR_PART": Errors.UNKNOWN_TOPIC_OR_PARTITION,
}
"""librdkafka's, where it does not follow Kafka's."""
OTHER_REQUESTS = {"ApiVersion": ApiKeys.API_VERSIONS, "Offset": ApiKeys.LIST_OFFSETS}
"""aiokafka's, where it does not follow Kafka's."""


def flat(name: str) -> str:
    return name.replace("_", "").lower()


def test_error_codes_are_those_of_librdkafka() -> None:
    theirs = {
        name: number
        for name, number in vars(KafkaError).items()
        if name.isupper() and not name.startswith("_") and isinstance(number, int)
    }
    assert len(theirs) > 100
    ours = {**Errors.__members__, **OTHER_NAMES}
    assert {name: ours.get(name) for name in theirs} == theirs


def test_api_keys_are_those_of_aiokafka() -> None:
    ours = {flat(name): key for name, key in ApiKeys.__members__.items()}
    ours |= {flat(name): key for name, key in OTHER_REQUESTS.items()}
    compared = set()
    for module in pkgutil.iter_modules(aiokafka.protocol.__path__, "aiokafka.protocol."):
        for name, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            key = ours.get(flat(name.partition("Request")[0]))
            if key is not None and issubclass(kind, Request) and not inspect.isabstract(kind):
                assert key == kind.API_KEY, name
                compared.add(key)
    assert len(compared) > 15


def bare_numbers(source: str) -> Iterator[int]:
    """Lines where a number stands for a request or an error."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.expr):
            continue
        suspects: list[ast.AST] = []
        if isinstance(node, ast.Call) and last_name(node.func) in TAKES_A_NUMBER:
            suspects += node.args[:1]
        elif isinstance(node, ast.Compare) and last_name(node.left) in HOLDS_AN_ERROR:
            equal = isinstance(node.ops[0], ast.Eq | ast.NotEq | ast.In | ast.NotIn)
            suspects += ast.walk(node.comparators[0]) if equal else ()
        if any(map(is_number, suspects)):
            yield node.lineno


def last_name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def is_number(node: ast.AST) -> bool:
    node = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def test_no_request_and_no_error_is_a_bare_number() -> None:
    result = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / "bridge").rglob("*.py"))
        if "bridge.kafka" in (text := path.read_text("utf-8"))
        for line in bare_numbers(text)
    ]
    assert result == []


@pytest.mark.parametrize(
    "line",
    ["Call(10, versions=range(1))", "errors.of_code(100, doing)", "got.error == -1", "code in {14, 15, 16}"],
)
def test_a_bare_number_is_found(line: str) -> None:
    assert list(bare_numbers(line)) == [1]


@pytest.mark.parametrize(
    "line", ["Call(ApiKeys.FETCH)", "of_code(code, 'x')", "error == Errors.NONE", "at == 3", "code >= 0"]
)
def test_names_and_other_numbers_are_left_alone(line: str) -> None:
    assert list(bare_numbers(line)) == []


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (Errors.THROTTLING_QUOTA_EXCEEDED, "THROTTLING_QUOTA_EXCEEDED"),
        (9999, "Error code 9999, which this version does not know"),
        (Errors.UNKNOWN_SERVER_ERROR, aiokafka.errors.UnknownError.description),
    ],
)
def test_every_error_code_has_a_text(code: int, text: str) -> None:
    assert str(of_code(code, "write")) == f"{text} (while trying to write)"
