"""Handing a mirror back to stock: what is planned, and what the command refuses before it asks any cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from typer.testing import CliRunner

from bridge.cli import app
from bridge.model.values import TopicPartition
from bridge.translation.runs.partition_runs import PartitionRuns
from bridge.translation.runs.runs import OffsetRun
from bridge.translation.runs.source_offsets import HandBackOutcome, PartitionHandBack, plan
from tests.support.messages import message
from tests.unit.connectors.configs import SOURCE

OURS = {
    **SOURCE,
    "connector.class": "BridgeMirrorSourceConnector",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "bridge.url": "http://127.0.0.1:8900",
}


def runs(topic: str, position: int, *, handed_back: bool = False) -> dict[TopicPartition, PartitionRuns]:
    """Everything up to `position` is copied."""
    place = TopicPartition(topic, 0)
    run = OffsetRun(place, "id", f"A.{topic}", "t", 0, 0, 0, position, 0, 0, 3, position, 1)
    return {place: PartitionRuns([run._replace(handed_back=handed_back)])}


@pytest.mark.parametrize(
    ("known", "topic_id", "offset", "outcome"),
    [
        (runs("a", 42), "id", 41, HandBackOutcome.HANDED_BACK),
        (runs("a", 42), "", 41, HandBackOutcome.HANDED_BACK),
        (runs("a", 0), "id", None, HandBackOutcome.FROM_RESET),
        (runs("a", 42), "another", None, HandBackOutcome.MADE_AGAIN),
        (runs("a", 42), None, None, HandBackOutcome.GONE),
        (runs("a", 42, handed_back=True), "id", None, HandBackOutcome.ALREADY),
    ],
)
def test_what_each_partition_becomes(
    known: Mapping[TopicPartition, PartitionRuns],
    topic_id: str | None,
    offset: int | None,
    outcome: HandBackOutcome,
) -> None:
    ((place, each),) = known.items()
    (row,) = plan(known, {"a": topic_id})
    assert row == PartitionHandBack(place, each.position or 0, offset, outcome)
    assert row.written is (outcome not in (HandBackOutcome.GONE, HandBackOutcome.ALREADY))


@contextmanager
def connect(state: str = "STOPPED", tasks: int = 0, **changes: str) -> Iterator[str]:
    """A worker's REST API that knows one connector, `mirror`; its address."""
    config = {**OURS, **{key.replace("_", "."): value for key, value in changes.items()}}
    answers: dict[str, Any] = {
        "/connectors/mirror/status": {"connector": {"state": state}, "tasks": [{}] * tasks},
        "/connectors/mirror/config": config,
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = answers.get(self.path)
            body = json.dumps(known or {"error_code": 404, "message": "Connector other not found"}).encode()
            self.send_response(200 if known else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def refused(url: str, *more: str, name: str = "mirror") -> tuple[int, str]:
    """Exit status, and the one line on standard error."""
    done = CliRunner().invoke(app, ["hand-back", name, "--connect-url", url, *more], env={"COLUMNS": "80"})
    assert isinstance(done.exception, SystemExit), done.exception
    assert done.stdout == ""
    return done.exit_code, done.stderr


@pytest.mark.parametrize(("state", "tasks"), [("RUNNING", 1), ("PAUSED", 1), ("STOPPED", 1)])
def test_a_connector_that_is_not_stopped(state: str, tasks: int) -> None:
    with connect(state, tasks) as url:
        code, said = refused(url)
    assert code == 1
    assert message("hand_back.not_stopped", connector="mirror", state=state, tasks=1) in said


def test_a_connector_that_is_stocks_by_now_or_unknown() -> None:
    with connect(connector_class="org.apache.kafka.connect.mirror.MirrorSourceConnector") as url:
        code, said = refused(url)
        assert (code, "hand back before its class is changed" in said) == (1, True)
        code, said = refused(url, name="other")
        assert (code, "Connector other not found" in said) == (1, True)


@pytest.mark.parametrize("named", ["dev.mirrorbridge.BridgeMirrorSinkConnector", "BridgeMirrorSink"])
def test_a_sink_connector(named: str) -> None:
    """Stock has none; its source connector belongs to the other Connect cluster."""
    with connect(connector_class=named) as url:
        code, said = refused(url)
    assert code == 1
    assert message("hand_back.sink", connector="mirror") in said


def test_all_errors_of_a_configuration_and_secrets_of_the_worker(tmp_path: Path) -> None:
    secret = "${file:/etc/s:p}"
    with connect(target_cluster_sasl_jaas_config=secret) as url:
        code, said = refused(url)
        keys = "target.cluster.sasl.jaas.config"
        assert (code, message("commands.providers", keys=keys) in said) == (2, True)
        file = tmp_path / "mirror.json"
        file.write_text(
            json.dumps(
                {"name": "mirror", "config": OURS | {"offset.lag.max": -1, "refresh.topics.enabled": "x"}}
            )
        )
        code, said = refused(url, "--config", str(file))
        assert (code, "2 error(s)" in said) == (2, True)
        assert "offset.lag.max" in said
        assert "refresh.topics.enabled" in said
        for text, words in (
            ("[]", "must be a JSON object"),
            ("{", "is not JSON"),
            ('{"a": []}', "a must be text"),
        ):
            file.write_text(text)
            code, said = refused(url, "--config", str(file))
            assert (code, words in said) == (2, True)


def test_nobody_at_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    from bridge.commands import hand_back

    monkeypatch.setattr(hand_back, "RETRY_SECONDS", 0.01)
    code, said = refused("http://127.0.0.1:1")
    assert code == 1
    assert "Connect at http://127.0.0.1:1: " in said
    assert refused("localhost:8083")[0] == 2


def test_clusters_that_are_away() -> None:
    with connect(
        source_cluster_bootstrap_servers="127.0.0.1:1", target_cluster_bootstrap_servers="127.0.0.1:1"
    ) as url:
        code, said = refused(url)
    (line,) = said.splitlines()
    assert (code, "127.0.0.1" in line or "while trying to" in line) == (1, True)


def hand_back(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["hand-back", *arguments], env={"COLUMNS": "80"})
    assert isinstance(done.exception, SystemExit), done.exception
    assert done.stdout == ""
    return done.exit_code, done.stderr


def test_what_is_to_be_handed_back_has_to_be_said(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters=A,B,C\nA.bootstrap.servers=127.0.0.1:1\nB.bootstrap.servers=127.0.0.1:2\n"
        "C.bootstrap.servers=127.0.0.1:3\nA->B.enabled=true\nB->C.enabled=true\n"
    )
    for arguments, words in (
        ((), "give NAME and --connect-url for a connector, or --mirror FILE for dedicated mode"),
        (("mirror",), "give NAME and --connect-url"),
        (("--connect-url", "http://127.0.0.1:1"), "give NAME and --connect-url"),
        (
            ("--mirror", str(file), "--connect-url", "http://127.0.0.1:1"),
            "--mirror takes the place of --connect-url and --config",
        ),
        (("B->A", "--mirror", str(file)), "has no flow B->A that copies: its flows are A->B, B->C"),
        (("--mirror", str(tmp_path / "none")), "none"),
    ):
        code, said = hand_back(*arguments)
        assert (code, words in said) == (2, True), said
    file.write_text("clusters=A,B\nA->B.enabled=true\n")
    code, said = hand_back("--mirror", str(file))
    assert (code, "bootstrap.servers" in said) == (2, True), said
    file.write_text("clusters=A,B\nA.bootstrap.servers=127.0.0.1:1\nB.bootstrap.servers=127.0.0.1:2\n")
    code, said = hand_back("--mirror", str(file))
    assert (code, message("hand_back.no_flow", file=file) in said) == (2, True), said
