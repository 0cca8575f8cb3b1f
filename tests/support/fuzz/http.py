"""Requests as bytes on a socket, to the real application with a fake of the rounds behind it."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

import uvicorn

from bridge.errors import ConfigError
from bridge.service.checks.context import CheckContext
from bridge.service.checks.validation import Checker
from bridge.service.http.app import create_app
from bridge.service.http.uvicorn_protocol import ConnectionLimits, limited
from bridge.service.ipc.messages import pack_report
from connectors.registry import KINDS
from tests.support.fuzz.mutation import mutated
from tests.unit.service.service_fakes import FakeKind, fake_service, report, session

_SAMPLES = Path(__file__).parents[2] / "contract" / "samples"
_BODIES = tuple(sorted(path.read_bytes() for path in _SAMPLES.glob("*.json")))
_LINES = (
    *("GET /health", "GET /v1/groups", "GET /v1/groups/g", "GET /v1/readiness", "GET /metrics"),
    *(
        "GET /v1/groups?cursor=e30&limit=1",
        "GET /health/ready",
        "GET /v1/connectors/c",
        "DELETE /v1/connectors/c",
    ),
    *("PUT /v1/connectors/c", "PUT /v1/connectors/c/tasks/0", "POST /v1/connectors/c/tasks/0/poll"),
    *("POST /v1/connectors/c/tasks/0/ack", "PUT /v1/plugins/source/validate", "POST /v1/failover/plan"),
    *("PUT /v1/plugins/group_offset/validate", "GET /v1/groups/g/explain", "POST /v1/sessions"),
)
_NESTS = (b"[" * 100_000, b'{"config":' * 50_000, b'{"config": {"a": ' + b"9" * 100_000 + b"}}")
_WITHIN = 30.0
_HEALTH_EVERY = 50


class _NothingWrong:
    properties = ()

    def refused(self, *_: object) -> Sequence[ConfigError]:
        return ()

    check = check_producer = refused

    def rule(self, *_: object) -> None:
        return None


class _Server:
    def __init__(self) -> None:
        service = fake_service(queue=1000)
        context = CheckContext({**KINDS, "fake": FakeKind()}, _NothingWrong())
        service.checker = Checker(context, service.pools)
        service.snapshots.groups("c", 1, [pack_report(name, report(name)) for name in ("0", "g", "a/b")])
        service.table.start_task("c", 0, session(1), "fake", 2, {})
        config = uvicorn.Config(
            create_app(service),
            http=limited(ConnectionLimits()),
            port=0,
            ws="none",
            log_config=None,
            access_log=False,
        )
        self._server = uvicorn.Server(config)
        threading.Thread(target=self._server.run, daemon=True).start()
        while not self._server.started:
            time.sleep(0.01)
        self.port: int = self._server.servers[0].sockets[0].getsockname()[1]
        self.cases = 0

    def answer(self, *pieces: bytes) -> bytes:
        """All that it sends until it closes, as it does when nothing more can come."""
        collected = bytearray()
        with socket.create_connection(("127.0.0.1", self.port), timeout=_WITHIN) as connection:
            try:
                for piece in pieces:
                    connection.sendall(piece)
                connection.shutdown(socket.SHUT_WR)
                while piece := connection.recv(65536):
                    collected += piece
            except TimeoutError:
                raise
            except OSError:  # it has closed the connection before it had all
                pass
        return bytes(collected)


_servers: list[_Server] = []


def case(dice: Random) -> None:
    """Raises for what must not be."""
    if not _servers:
        _servers.append(_Server())
    server = _servers[0]
    data = _request(dice)
    cut = dice.randrange(len(data) + 1)
    result = server.answer(data[:cut], data[cut:])
    for line in result.split(b"HTTP/1.1 ")[1:]:
        assert line[:3].isdigit(), line[:80]
        assert line[:3] in (b"501", b"503") or line[:1] != b"5", line[:500]
    server.cases += 1
    if server.cases % _HEALTH_EVERY == 0:
        began = time.monotonic()
        health = server.answer(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert health.startswith(b"HTTP/1.1 200"), health[:300]
        assert time.monotonic() - began < _WITHIN


def _request(dice: Random) -> bytes:
    body = b""
    if dice.random() < 0.7:
        body = dice.choice(_BODIES)
        way = dice.random()
        if way < 0.05:
            body = dice.choice(_NESTS)
        elif way < 0.7:
            body = bytes(mutated(dice, body, _BODIES))
        elif way < 0.8:
            body = json.dumps(
                {"config": {dice.choice("abc"): dice.choice(("", "(?", "9" * 5000, None, [], {}))}}
            ).encode()
    chunked = dice.random() < 0.2
    length = len(body) if dice.random() < 0.9 else dice.choice((0, 1, 1 << 40, -1, len(body) + 5))
    head = [
        f"{dice.choice(_LINES)} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        "Transfer-Encoding: chunked" if chunked else f"Content-Length: {length}",
    ]
    if chunked:
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    if dice.random() < 0.3:
        head.append(
            dice.choice(("Authorization: Bearer x", "Expect: 100-continue", "X: " + "y" * 70_000, "Host: b"))
        )
    raw = "\r\n".join([*head, "", ""]).encode()
    if dice.random() < 0.4:
        raw = bytes(mutated(dice, raw, _BODIES))
    return raw + body
