"""`mirror-bridge skip`: the plan first, and what is asked of the service."""

from __future__ import annotations

import json

import httpx
import pytest
from typer.testing import CliRunner

from bridge.cli import app
from bridge.protocol.messages import ErrorBody, SkippedOffsets
from tests.unit.mock_http import serve

asked: list[dict[str, object]] = []


@pytest.fixture(autouse=True)
def service(monkeypatch: pytest.MonkeyPatch) -> None:
    asked.clear()

    def answer(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        asked.append({"path": request.url.raw_path.decode(), **body})
        if body["topic"] == "well":
            refused = ErrorBody(error_code="refused", message="well-0 is copied")
            return httpx.Response(409, content=refused.model_dump_json())
        place = {"topic": body["topic"], "partition": body["partition"]}
        done = SkippedOffsets(**place, offset=5, end=9, why="damaged", done=not body["dry_run"])
        return httpx.Response(200, content=done.model_dump_json())

    serve(monkeypatch, answer)


def run(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["skip", *arguments], env={"COLUMNS": "200"})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


def test_without_yes_the_plan_is_shown() -> None:
    code, out, err = run("a/b", "my-topic-3")
    assert code == 0
    assert "my-topic-3 stands at offset 5: damaged" in out
    assert "would leave out offsets [5, 9)" in out
    assert "--yes" in err
    (one,) = asked
    assert one["path"] == "/v1/connectors/a%2Fb/skip"
    assert (one["topic"], one["partition"], one["to"], one["dry_run"]) == ("my-topic", 3, None, True)


def test_with_yes_it_is_done() -> None:
    code, out, err = run("c", "orders-0", "--to", "9", "--yes")
    assert (code, err) == (0, "")
    assert "leaves out offsets [5, 9)" in out
    assert [(one["to"], one["dry_run"]) for one in asked] == [(9, False)]


def test_for_programs() -> None:
    code, out, _ = run("c", "orders-0", "--output", "json")
    assert code == 0
    assert json.loads(out)["done"] is False


@pytest.mark.parametrize("partition", ["orders", "orders-x", "-3", "orders-", "orders-²"])
def test_what_names_no_partition(partition: str) -> None:
    code, _, err = run("c", "--", partition)
    assert code == 2
    assert "give TOPIC-PARTITION" in err
    assert asked == []


def test_what_the_service_refuses_is_told() -> None:
    code, _, err = run("c", "well-0", "--yes")
    assert code == 1
    assert "well-0 is copied" in err
