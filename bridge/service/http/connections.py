"""Counts connections from the moment they are accepted, before a TLS handshake as well, and refuses those that are too
many."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bridge.errors import ErrorCode
from bridge.protocol.messages import ErrorBody

log = logging.getLogger(__name__)

AT_ONCE, AT_ONCE_TLS = 16, 2
"""Connections that are accepted before others have their turn in the event loop. The beginning of a handshake takes
longer."""
_LOG_EVERY = 60.0

Peer = tuple[str, int]


@dataclass(slots=True)
class ConnectionLimits:
    """The limits and open connections of one server. `head_seconds`, `body_seconds`: how long a TLS handshake and the
    head of a request may take each, and then its body; `write_seconds`: how long a client may read nothing of an
    answer."""

    connections: int = 4096
    connections_per_address: int = 3072
    head_seconds: float = 10.0
    body_seconds: float = 30.0
    write_seconds: float = 60.0
    refused: int = 0
    open: int = 0
    by_address: Counter[str] = field(default_factory=Counter)
    _handshakes: dict[Peer, asyncio.TimerHandle] = field(default_factory=dict)
    _logged: float = 0.0

    def enter(self, address: str) -> str | None:
        """Counts a connection; returns why where it is one too many."""
        if self.open >= self.connections:
            return self._refuse(f"all {self.connections} connections are in use (max_connections)")
        if self.by_address[address] >= self.connections_per_address:
            most = self.connections_per_address
            return self._refuse(f"{address} has {most} connections (max_connections_per_address)")
        self.open += 1
        self.by_address[address] += 1
        return None

    def leave(self, address: str) -> None:
        self.open -= 1
        self.by_address[address] -= 1
        if not self.by_address[address]:
            del self.by_address[address]

    def handshake(self, peer: Peer, too_slow: Callable[[], None]) -> None:
        """Calls `too_slow` unless the handshake ends in time."""
        loop = asyncio.get_running_loop()
        self._handshakes[peer] = loop.call_later(self.head_seconds, too_slow)

    def handshake_ended(self, peer: Peer) -> None:
        """By success or not. Does nothing for connections without one."""
        if (timer := self._handshakes.pop(peer, None)) is not None:
            timer.cancel()

    def _refuse(self, why: str) -> str:
        self.refused += 1
        now = time.monotonic()
        if not self._logged or now - self._logged >= _LOG_EVERY:
            self._logged = now
            log.warning("refusing connections, %d so far: %s", self.refused, why)
        return why


class Listener(socket.socket):
    """A listening socket for asyncio's servers, whose connections count until they are closed. What is refused gets
    503, or with `tls` no answer: it would need a handshake."""

    def __init__(
        self, family: int, kind: int, protocol: int, *, limits: ConnectionLimits, tls: bool = False
    ) -> None:
        super().__init__(family, kind, protocol)
        self._limits = limits
        self._tls = tls
        self._at_once = AT_ONCE_TLS if tls else AT_ONCE
        self._left = self._at_once

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection that is not refused. After AT_ONCE, or AT_ONCE_TLS, it says that there is none: asyncio
        takes as many as wait, up to thousands, before it does anything else, and asks again at once."""
        while self._left:
            self._left -= 1
            try:
                accepted, address = super().accept()
            except OSError:
                self._left = self._at_once
                raise
            host, port = address[:2]
            if (why := self._limits.enter(host)) is None:
                return self._counted(accepted, (host, port)), address
            self._refuse(accepted, why)
        self._left = self._at_once
        raise BlockingIOError

    def _counted(self, accepted: socket.socket, peer: Peer) -> socket.socket:
        limits = self._limits

        def ended() -> None:
            limits.handshake_ended(peer)
            limits.leave(peer[0])

        result = _Connection(accepted, ended)
        if self._tls:
            limits.handshake(peer, result.end)
        return result

    def _refuse(self, accepted: socket.socket, why: str) -> None:
        with accepted, contextlib.suppress(OSError):
            accepted.setblocking(False)
            if not self._tls:
                accepted.send(_too_many(why))


class _Connection(socket.socket):
    """An accepted connection that says when it is closed, or no longer referred to."""

    def __init__(self, accepted: socket.socket, ended: Callable[[], None]) -> None:
        super().__init__(accepted.family, accepted.type, accepted.proto, fileno=accepted.detach())
        self._ended = weakref.finalize(self, ended)
        self._ended.atexit = False

    def close(self) -> None:
        super().close()
        self._ended()

    def end(self) -> None:
        """Makes its transport read the end, and close it."""
        with contextlib.suppress(OSError):
            self.shutdown(socket.SHUT_RDWR)


def _too_many(why: str) -> bytes:
    message = f"The service accepts no more connections: {why}"
    body = ErrorBody(error_code=ErrorCode.OVERLOADED, message=message, retriable=True).model_dump_json()
    head = (
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body.encode())}\r\nconnection: close\r\nretry-after: 1\r\n\r\n"
    )
    return (head + body).encode()
