"""`mirror-bridge forget`: a connector that was deleted in Connect is removed from the service."""

from __future__ import annotations

import httpx
import pytest
from typer.testing import CliRunner

from bridge.cli import app
from bridge.protocol.messages import ErrorBody
from tests.unit.mock_http import serve


def forget(monkeypatch: pytest.MonkeyPatch, name: str, answer: httpx.Response) -> tuple[int, str, str]:
    """Exit status, standard output with what was asked, and standard error."""
    asked: list[str] = []

    def answered(request: httpx.Request) -> httpx.Response:
        asked.append(f"{request.method} {request.url.raw_path.decode()}")
        return answer

    serve(monkeypatch, answered)
    done = CliRunner().invoke(app, ["forget", name], env={"COLUMNS": "200"})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, f"{asked} {done.stdout}", done.stderr


def test_a_connector_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    status, shown, _ = forget(monkeypatch, "a/b c", httpx.Response(204))
    assert status == 0
    assert "DELETE /v1/connectors/a%2Fb%20c" in shown
    assert "connector a/b c is forgotten" in shown


def test_one_that_runs_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = ErrorBody(error_code="refused", message="connector c has running tasks")
    status, shown, said = forget(monkeypatch, "c", httpx.Response(409, content=refused.model_dump_json()))
    assert status == 1
    assert "forgotten" not in shown
    assert "connector c has running tasks" in said


def test_an_answer_of_something_else_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    status, _, said = forget(monkeypatch, "c", httpx.Response(502, content="<html>"))
    assert status == 1
    assert "HTTP 502" in said
