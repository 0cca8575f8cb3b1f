"""Requests as bytes on a socket, to the real application with a fake of the rounds behind it: once open to everybody,
once with tokens and hosts, once with hosts alone. Whatever the bytes are, nothing is done that they don't show a token
for."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from importlib.resources import files
from random import Random
from typing import NamedTuple

import uvicorn
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Receive, Scope, Send

from bridge.service.checks.context import CheckContext
from bridge.service.checks.validation import Checker
from bridge.service.http.access import OPEN_PATHS, ROLES, Access, Role
from bridge.service.http.app import create_app
from bridge.service.http.connections import ConnectionLimits
from bridge.service.http.uvicorn_protocol import limited
from bridge.service.ipc.messages import pack_report
from bridge.tokens import Tokens
from connectors.registry import KINDS
from tests import ROOT
from tests.unit.kafka.fuzz.mutation import mutated
from tests.unit.service.service_fakes import FakeEngine, FakeKind, NoCheck, fake_service, report, session

_SAMPLES = ROOT / "tests" / "contract" / "samples"
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
_NAMES = {"{name}": "c", "{n}": "0", "{group}": "g", "{side}": "target", "{kind}": "fake"}


def _fitting() -> Mapping[str, Sequence[bytes]]:
    """Returns every route as the first line of a request, with bodies of its form, b"" where it has none."""
    document = json.loads(files("bridge.protocol").joinpath("openapi.json").read_text("utf-8"))
    result = {}
    for method, path in ROLES:
        line = f"{method} {path}"
        for name, value in _NAMES.items():
            line = line.replace(name, value)
        content = (
            document["paths"].get(path, {}).get(method.lower(), {}).get("requestBody", {}).get("content", {})
        )
        model = content.get("application/json", {}).get("schema", {}).get("$ref", "").rpartition("/")[2]
        samples = sorted(_SAMPLES.glob(f"{model}.*json")) if model else []
        result[line] = tuple(path.read_bytes() for path in samples) or (b"",)
    return result


_FITTING = _fitting()
_ADMIN, _NEXT, _READ = "admin-0123456789", "next-0123456789", "read-0123456789"
_TOKENS = Tokens((_ADMIN, _NEXT), (_READ,))
_CALLED = (
    "localhost",
    "localhost:8900",
    "LOCALHOST.",
    "127.0.0.1",
    "[::1]:1",
    "evil.example",
    "localhost.evil.example",
)
_OURS = frozenset({"localhost"})
_OUR_HOST = re.compile(rb"(localhost\.*|[0-9.]+|\[.*)(:.*)?", re.IGNORECASE | re.DOTALL)
"""Any address is ours."""
_SHOWN = (
    *(f"Authorization: Bearer {_READ}", f"Authorization: Bearer {_ADMIN}") * 4,
    *(f"Authorization: Bearer {_READ}", f"authorization: bearer {_READ}", f"Authorization: Bearer {_ADMIN}"),
    *(
        f"Authorization: Bearer {_NEXT}",
        f"Authorization: Basic {_ADMIN}",
        f"Authorization: Bearer {_ADMIN[:-1]}",
    ),
    *(
        f"Authorization: Bearer {_READ}\r\nAuthorization: Bearer x",
        f"Cookie: {_ADMIN}",
        "Authorization: Bearer",
    ),
    *(f"Authorization: Bearer {_READ} {_READ}", f"Proxy-Authorization: Bearer {_ADMIN}", "Authorization:"),
)
_NESTS = (b"[" * 100_000, b'{"config":' * 50_000, b'{"config": {"a": ' + b"9" * 100_000 + b"}}")
_WITHIN = 30.0
_HEALTH_EVERY = 50


class _Reached(NamedTuple):
    """A request that has passed the check of access, and come to a route."""

    method: str
    route: str
    headers: Sequence[tuple[bytes, bytes]]

    @property
    def role(self) -> Role | None:
        """None for what is answered with "no such method"."""
        return ROLES.get((self.method, self.route))

    def shows(self, *tokens: str) -> bool:
        for name, value in self.headers:
            scheme, _, token = value.decode("latin-1").partition(" ")
            if name == b"authorization" and scheme.lower() == "bearer" and token.strip() in tokens:
                return True
        return False


class _Recorder:
    """Stands behind the check of access."""

    def __init__(self, app: ASGIApp, server: _Server) -> None:
        self._app, self._server = app, server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        self._server.active += 1
        try:
            await self._app(scope, receive, send)
        finally:
            route = getattr(scope.get("route"), "path", "")
            self._server.reached.append(_Reached(scope["method"], route, scope["headers"]))
            self._server.active -= 1


class _Server:
    def __init__(self, access: Access | None = None) -> None:
        self.reached: list[_Reached] = []
        self.active = 0
        """Requests that have passed the check of access, and are not answered yet."""
        service = fake_service(lambda: 1_000_000.0, queue=1000)
        self._service = service
        context = CheckContext({**KINDS, "fake": FakeKind()}, NoCheck())
        service.checker = Checker(context, service.pools)
        service.snapshots.groups("c", 1, [pack_report(name, report(name)) for name in ("0", "g", "a/b")])
        service.table.start_task("c", 0, session(1), "fake", 2, {})
        app = create_app(service, access=access)
        app.user_middleware.append(Middleware(_Recorder, server=self))
        config = uvicorn.Config(
            app,
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

    def done(self) -> tuple[object, ...]:
        """Returns what requests have changed: each changes one of these. Time does not, for this service has none; and
        what it tells the rounds comes later."""
        engine = self._service.rounds
        assert isinstance(engine, FakeEngine)
        return self._service.table.version, len(engine.operated), len(engine.offsets)

    def idle(self) -> None:
        """Waits until nothing goes on, also of requests whose client is gone."""
        until = time.monotonic() + _WITHIN
        while self.active:
            assert time.monotonic() < until, "a request outlives its client"
            time.sleep(0.001)


class _Guarded(NamedTuple):
    """`tokens`: that somebody has to show."""

    access: Access | None
    tokens: bool = False


_GUARDED = (
    _Guarded(None),
    _Guarded(Access(lambda: _TOKENS, hosts=_OURS), tokens=True),
    _Guarded(Access(hosts=_OURS)),
)
_servers: dict[int, _Server] = {}


def case(dice: Random) -> None:
    """Raises for what must not be."""
    which = dice.choice((0, 1, 1, 2))
    if which not in _servers:
        _servers[which] = _Server(_GUARDED[which].access)
    server = _servers[which]
    data = _request(dice)
    cut = dice.randrange(len(data) + 1)
    server.reached.clear()
    before = server.done()
    result = server.answer(data[:cut], data[cut:])
    server.idle()
    _check_allowed(_GUARDED[which], data, server, before)
    for line in result.split(b"HTTP/1.1 ")[1:]:
        assert line[:3].isdigit(), line[:80]
        assert line[:3] in (b"501", b"503") or line[:1] != b"5", line[:500]
    server.cases += 1
    if server.cases % _HEALTH_EVERY == 0:
        health = server.answer(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert health.startswith(b"HTTP/1.1 200"), health[:300]
        if _GUARDED[which].tokens:
            _check_guards(server)


def _check_allowed(guarded: _Guarded, data: bytes, server: _Server, before: tuple[object, ...]) -> None:
    """Checks that nothing was done that needs what the bytes don't show."""
    if guarded.access is None:
        return
    for each in server.reached:
        host = dict(each.headers).get(b"host", b"")
        assert _OUR_HOST.fullmatch(host), f"{each}: for another host"
        if not guarded.tokens:
            writes = each.method not in ("GET", "HEAD") and each.role is not None
            assert not (writes and b"origin" in dict(each.headers)), f"{each}: by a page"
        elif each.role is Role.CHANGE:
            assert each.shows(_ADMIN, _NEXT), f"{each}: without the token for it"
        elif each.role is Role.READ and not each.route.startswith(OPEN_PATHS):
            assert each.shows(_ADMIN, _NEXT, _READ), f"{each}: without a token"
    if guarded.tokens and _ADMIN.encode() not in data and _NEXT.encode() not in data:
        assert server.done() == before, "changed without a token"


def _check_guards(server: _Server) -> None:
    """Checks that what the other checks look at is seen, and is not let through without the token."""
    for token, host, status in (
        (_ADMIN, "localhost", b"200"),
        (_READ, "localhost", b"403"),
        ("", "localhost", b"401"),
        (_NEXT, "evil.example", b"421"),
    ):
        server.reached.clear()
        before = server.done()
        head = f"POST /v1/sessions HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n"
        body = next(iter(_FITTING["POST /v1/sessions"]))
        rest = f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        answer = server.answer((head + rest).encode() + body)
        assert answer.split(b" ")[1] == status, answer[:300]
        assert bool(server.reached) == (status == b"200")
        assert server.done() == before


def _request(dice: Random) -> bytes:
    line = dice.choice(_LINES) if dice.random() < 0.3 else dice.choice(tuple(_FITTING))
    body = b""
    if dice.random() < 0.7:
        body = dice.choice(_FITTING.get(line, _BODIES) if dice.random() < 0.6 else _BODIES)
        way = dice.random()
        if way < 0.05:
            body = dice.choice(_NESTS)
        elif way < 0.5:
            body = bytes(mutated(dice, body, _BODIES))
        elif way < 0.6:
            body = json.dumps(
                {"config": {dice.choice("abc"): dice.choice(("", "(?", "9" * 5000, None, [], {}))}}
            ).encode()
    chunked = dice.random() < 0.2
    length = len(body) if dice.random() < 0.9 else dice.choice((0, 1, 1 << 40, -1, len(body) + 5))
    head = [
        f"{line} HTTP/1.1",
        f"Host: {dice.choice(_CALLED)}",
        "Content-Type: application/json",
        "Transfer-Encoding: chunked" if chunked else f"Content-Length: {length}",
    ]
    if chunked:
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    if dice.random() < 0.6:
        head.append(dice.choice(_SHOWN))
    if dice.random() < 0.1:
        head.append("Origin: https://evil.example")
    if dice.random() < 0.3:
        head.append(
            dice.choice(("Authorization: Bearer x", "Expect: 100-continue", "X: " + "y" * 70_000, "Host: b"))
        )
    raw = "\r\n".join([*head, "", ""]).encode()
    if dice.random() < 0.4:
        raw = bytes(mutated(dice, raw, _BODIES))
    return raw + body
