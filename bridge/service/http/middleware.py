"""Handles each request before its route, in this order: request id, path, access, size; and counts each answer.

Path segments are split *before* they are decoded, so that a connector or group with a slash in its
name is one segment (`a%2Fb`). Within a segment `%` and `/` stay encoded until `path_params.py` decodes them: a
group `x/explain` is `/v1/groups/x%2Fexplain`, and no name can reach another route.
"""

from __future__ import annotations

import itertools
import logging
import re
import secrets
import time
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from fastapi import Response
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bridge.errors import BodyRejected, BridgeError, Overloaded, TooLarge
from bridge.logs.lines import request_id
from bridge.service.http.access import Access, Caller
from bridge.service.http.audit_log import AuditLog
from bridge.service.http.errors import bridge_error, internal_error
from bridge.service.metrics.metrics import Metrics

log = logging.getLogger(__name__)

HELD = "mirror_bridge.held_ms"
"""Key of the scope under which the route of a poll stores how long it was held."""
_MOST_BODIES = 64 << 20
"""Bytes of bodies at one time: 64 of the largest, by default. Thousands of clients may begin one and never end it."""
_SMALL_BODY = 16 << 10
"""Bytes that each body may have besides, so that who holds many large ones keeps no poll out. Of all connections that
there may be these are 64 MiB more."""
_READ_OFF = 16 << 20
"""Most bytes that are read of a body that is too large."""
_REQUEST_ID = re.compile(rb"[0-9A-Za-z._-]{1,64}")


@dataclass(slots=True)
class _Received:
    """Bytes of a body so far."""

    size: int = 0


class RequestMiddleware:
    def __init__(self, app: ASGIApp, *, access: Access, max_body: int, metrics: Metrics) -> None:
        self._app = app
        self._access = access
        self._max_body = max_body
        self._metrics = metrics
        self._audit_log = AuditLog()
        self._bodies = 0
        """Bytes of requests that are being answered."""
        self._prefix = secrets.token_hex(4)
        self._count = itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        headers = dict(scope["headers"])
        ident = self._ident(headers)
        request_id.set(ident)
        caller = self._access.caller(scope, headers)
        scope["mirror_bridge.request_id"] = ident
        details = self._audit_log.begin()
        status = 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", ident.encode())]
                if caller.is_stranger:  # is answered, and its connection makes room
                    message["headers"].append((b"connection", b"close"))
            await send(message)

        try:
            await self._pass(scope, headers, caller, receive, answer)
        except ClientDisconnect:
            status = status or 499
        except Exception:
            log.exception("unexpected error")
            if status == 0:
                await internal_error(ident)(scope, receive, answer)
        finally:
            took = time.perf_counter() - began
            route = getattr(scope.get("route"), "path", "none")
            self._metrics.answered(route, scope["method"], status, took, scope.get(HELD))
            self._audit_log.end(scope, status, caller, details)

    async def _pass(
        self,
        scope: Scope,
        headers: dict[bytes, bytes],
        caller: Caller,
        receive: Receive,
        send: Send,
    ) -> None:
        try:
            scope["path"] = _path(scope)
            self._access.check(scope["method"], scope["path"], headers, caller)
            if caller.login is not None and not caller.is_stranger:
                caller.login.done(caller.shown)
            length = headers.get(b"content-length", b"")
            if length.isdigit() and int(length[:20]) > self._max_body:
                raise self._too_large(int(length[:20]))
        except BridgeError as error:
            response: Response = bridge_error(error)
            if isinstance(error, TooLarge):
                response.headers["Connection"] = "close"
                await _read_off(receive)
            await response(scope, receive, send)
            return
        received = _Received()
        try:
            await self._app(scope, self._limited(receive, received), send)
        finally:
            self._bodies -= received.size

    def _limited(self, receive: Receive, received: _Received) -> Receive:
        """Counts what comes, for this request and for all that are being answered."""

        async def limited() -> Message:
            message = await receive()
            size = len(message.get("body", b""))
            received.size += size
            self._bodies += size
            if received.size > self._max_body:
                raise self._too_large()
            if received.size > _SMALL_BODY and self._bodies > _MOST_BODIES:
                raise Overloaded(
                    f"The bodies of all requests that are being answered have more than {_MOST_BODIES} bytes together"
                )
            return message

        return limited

    def _too_large(self, size: int | None = None) -> TooLarge:
        has = "is larger than the limit of" if size is None else f"has {size} bytes; the limit is"
        return TooLarge(
            f"The request body {has} {self._max_body} bytes: send less, or raise max_body_bytes of the service"
        )

    def _ident(self, headers: dict[bytes, bytes]) -> str:
        sent = headers.get(b"x-request-id", b"")
        if _REQUEST_ID.fullmatch(sent):
            return sent.decode()
        return f"{self._prefix}-{next(self._count)}"


async def _read_off(receive: Receive) -> None:
    """Reads the beginning of a body that nobody wants: a client that is still sending it when its connection closes
    does not get to see why."""
    left = _READ_OFF
    while left > 0:
        message = await receive()
        left -= len(message.get("body", b""))
        if not message.get("more_body", False):
            return


def _path(scope: Scope) -> str:
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    try:
        segments = [unquote_to_bytes(part).decode() for part in raw.partition(b"?")[0].split(b"/")]
    except UnicodeDecodeError:
        raise BodyRejected("The path is not UTF-8 once its percent signs are decoded") from None
    return "/".join(segment.replace("%", "%25").replace("/", "%2F") for segment in segments)
