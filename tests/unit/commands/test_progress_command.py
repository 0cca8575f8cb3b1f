"""`mirror-bridge progress`: what a service says, for people and for programs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from bridge.cli import app
from bridge.protocol.messages import CopyProgress, CopyTotals, ErrorBody, PartitionProgress
from tests.support.messages import message, message_pattern
from tests.unit.mock_http import serve

TOTALS = CopyTotals(source="A", target="B", state="copying", partitions=3, lag=7)
PARTITIONS = [
    PartitionProgress(
        topic="orders",
        partition=0,
        target_topic="A.orders",
        position=1234,
        source_end=1241,
        lag=7,
        state="copying",
    ),
    # Copied long ago, of records that were a year old.
    PartitionProgress(
        topic="orders",
        partition=1,
        target_topic="A.orders",
        position=5,
        replication_latency_ms=31_536_000_000,
        state="copying",
    ),
    PartitionProgress(
        topic="o\x1b[2J",
        partition=0,
        target_topic="A.o",
        position=5,
        source_end=3,
        lag=0,
        record_rate=2,
        replication_latency_ms=40,
        state="failed",
        since_ms=0,
        why="damaged",
        way_out="skip it",
    ),
]


def run(*arguments: str, env: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["progress", *arguments], env={"COLUMNS": "80", **(env or {})})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[httpx.Request]:
    """A service with one connector, answering two partitions a page."""
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        if request.headers.get("authorization", "") not in ("", "Bearer t0ken"):
            body: object = ErrorBody(error_code="unauthorized", message="This service wants a bearer token")
            return httpx.Response(401, content=body.model_dump_json())  # type: ignore[attr-defined]
        path = request.url.raw_path.partition(b"?")[0]
        if path == b"/v1/connectors/heartbeat/progress":
            none = CopyProgress(connector="heartbeat", totals=None, partitions=[], total=0)
            return httpx.Response(200, content=none.model_dump_json())
        if path == b"/v1/connectors/a%2Fb/progress":
            later = request.url.params.get("next") == "more"
            page = CopyProgress(
                connector="a/b",
                totals=TOTALS,
                partitions=PARTITIONS[2:] if later else PARTITIONS[:2],
                total=3,
                next=None if later else "more",
            )
            return httpx.Response(200, content=page.model_dump_json())
        error = ErrorBody(error_code="unknown_connector", message="there is no connector nobody")
        return httpx.Response(404, content=error.model_dump_json())

    serve(monkeypatch, answer)
    return seen


def test_for_people(asked: list[httpx.Request]) -> None:
    code, out, err = run("a/b", "--topic", "orders", "--min-lag", "0", "--state", "failed")
    assert (code, err) == (0, "")
    sums, *lines = out.splitlines()
    assert sums.startswith("A -> B copying, 3 partition(s), lag 7,")
    rows = [line.split() for line in lines if line.strip() and "─" not in line and "since" not in line]
    assert rows[0] == [
        "TOPIC",
        "PARTITION",
        "STATE",
        "POSITION",
        "SOURCE",
        "END",
        "LAG",
        "RECORDS/S",
        "BYTES/S",
        "AGE",
        "AT",
        "COMMIT",
    ]
    assert rows[1] == ["orders", "0", "copying", "1234", "1241", "7", "0", "0", "B", "-"]
    assert rows[2] == ["orders", "1", "copying", "5", "-", "-", "0", "0", "B", "-"]
    # The end of the source is asked for seldom, and the position may be past it by now.
    assert rows[3] == ["o\\x1b[2J", "0", "failed", "5", "5", "0", "2", "0", "B", "40", "ms"]
    assert out.splitlines()[-1].endswith(": damaged; skip it")
    assert [dict(each.url.params) for each in asked] == [
        {"topic": "orders", "min_lag": "0", "state": "failed", "limit": "1000"},
        {"topic": "orders", "min_lag": "0", "state": "failed", "limit": "1000", "next": "more"},
    ]
    assert str(asked[0].url).startswith("http://127.0.0.1:8900/v1/connectors/a%2Fb/progress")


def test_for_programs(asked: list[httpx.Request]) -> None:
    code, out, _ = run("a/b", "--output", "json")
    assert code == 0
    decoded = CopyProgress.model_validate(json.loads(out))
    assert decoded == CopyProgress(connector="a/b", totals=TOTALS, partitions=PARTITIONS, total=3)


def test_a_connector_that_copies_nothing_and_one_that_is_not_there(asked: list[httpx.Request]) -> None:
    assert run("heartbeat") == (0, "", message("commands.copies_nothing", connector="heartbeat"))
    assert run("nobody") == (1, "", "mirror-bridge: there is no connector nobody\n")


def test_the_token_comes_from_a_file_or_the_environment(asked: list[httpx.Request], tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("t0ken\n")
    assert run("a/b", "--auth-token-file", str(file))[0] == 0
    assert run("a/b", env={"MIRROR_BRIDGE_AUTH_TOKEN": "t0ken"})[0] == 0
    assert [each.headers["authorization"] for each in asked] == ["Bearer t0ken"] * 4
    refused = run("a/b", env={"MIRROR_BRIDGE_AUTH_TOKEN": "wrong"})
    assert refused == (1, "", message("commands.wants_token"))
    code, _, err = run("a/b", "--auth-token-file", "/no/such/file")
    assert (code, err) == (2, message("commands.cannot_read", path="/no/such/file"))
    file.write_text("abc", encoding="utf-16")
    code, _, err = run("a/b", "--auth-token-file", str(file))
    assert (code, f"can't read {file}: it is not in UTF-8" in err) == (2, True), err


@pytest.mark.parametrize("url", ["nowhere", "ftp://x", "http://a:b:c"])
def test_addresses_that_are_none(url: str) -> None:
    code, out, err = run("c", "--url", url)
    assert (code, out) == (2, "")
    assert "is not of the form http://host:port" in err


def test_nobody_there_and_somebody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = run("c", "--url", "http://127.0.0.1:1")
    assert (code, out) == (1, "")
    assert re.fullmatch(message_pattern("commands.no_answer", url="http://127.0.0.1:1"), err)
    serve(monkeypatch, lambda _: httpx.Response(200, text="<html>"))
    code, out, err = run("c", "--url", "http://example")
    assert (code, out) == (1, "")
    assert message("commands.not_ours", status=200) in err
