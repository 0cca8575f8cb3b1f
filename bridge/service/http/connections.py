"""Counts connections from the moment they are accepted, before a TLS handshake as well, and refuses those that are too
many.

    accepted ──▶ stranger ──a request with a token──▶ logged in
                    │ all are in use, and another one comes
                    ▼
                 closed, those that came first

So whoever has a token gets a connection, however many others are open: those of strangers make room. Where nobody has
to log in, who has been answered counts as logged in.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
import weakref
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bridge.errors import ErrorCode
from bridge.model.addresses import network_of
from bridge.protocol.messages import ErrorBody

log = logging.getLogger(__name__)

AT_ONCE, AT_ONCE_TLS = 16, 2
"""Connections that are accepted before others have their turn in the event loop. The beginning of a handshake takes
longer."""
_LOG_EVERY = 60.0
LOGIN = "login"
"""Key of a request's state: the Login of its connection."""

Peer = tuple[str, int]


class _Stranger(NamedTuple):
    """A connection that has not logged in."""

    address: str
    close: Callable[[], None]


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
    closed: int = 0
    """Strangers' connections that have made room."""
    open: int = 0
    by_address: Counter[str] = field(default_factory=Counter)
    """By what counts as one (network_of)."""
    _strangers: dict[Peer, _Stranger] = field(default_factory=dict)
    _strangers_at: dict[str, dict[Peer, _Stranger]] = field(default_factory=dict)
    """By address, and both in the order in which they came."""
    _handshakes: dict[Peer, asyncio.TimerHandle] = field(default_factory=dict)
    _logged: float = 0.0

    def enter(self, address: str) -> str | None:
        """Counts a connection, for which a stranger's may be closed; returns why where it is one too many."""
        if self.by_address[address] >= self.connections_per_address:
            most = self.connections_per_address
            if not self._close_stranger(self._strangers_at.get(address, {})):
                return self._refuse(f"{address} has {most} connections (max_connections_per_address)")
        elif self.open >= self.connections and not self._close_stranger(self._strangers):
            return self._refuse(f"all {self.connections} connections are in use (max_connections)")
        self.open += 1
        self.by_address[address] += 1
        return None

    def leave(self, address: str) -> None:
        self.open -= 1
        self.by_address[address] -= 1
        if not self.by_address[address]:
            del self.by_address[address]

    def add_stranger(self, peer: Peer, address: str, close: Callable[[], None]) -> None:
        """Notes a connection that has not logged in, and how to close it."""
        stranger = _Stranger(address, close)
        self._strangers[peer] = self._strangers_at.setdefault(address, {})[peer] = stranger

    def remove_stranger(self, peer: Peer) -> None:
        """Notes that a connection has logged in, or is closed."""
        if (stranger := self._strangers.pop(peer, None)) is not None:
            at_address = self._strangers_at[stranger.address]
            del at_address[peer]
            if not at_address:
                del self._strangers_at[stranger.address]

    def _close_stranger(self, strangers: Mapping[Peer, _Stranger]) -> bool:
        """Closes the connection of the stranger who came first; returns whether there is one."""
        peer = next(iter(strangers), None)
        if peer is None:
            return False
        close = strangers[peer].close
        self.remove_stranger(peer)
        close()
        self.closed += 1
        if self._is_time():
            log.warning(
                "closing connections that have not logged in, %d so far: others want one", self.closed
            )
        return True

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
        if self._is_time():
            log.warning("refusing connections, %d so far: %s", self.refused, why)
        return why

    def _is_time(self) -> bool:
        """Whether a line may be logged again."""
        now = time.monotonic()
        if self._logged and now - self._logged < _LOG_EVERY:
            return False
        self._logged = now
        return True


@dataclass(slots=True)
class Login:
    """What a connection has logged in by; None before it has."""

    limits: ConnectionLimits
    peer: Peer
    shown: str | None = None

    def done(self, shown: str | None) -> None:
        self.shown = shown
        self.limits.remove_stranger(self.peer)


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
            network = network_of(host)
            if (why := self._limits.enter(network)) is None:
                return self._counted(accepted, (host, port), network), address
            self._refuse(accepted, why)
        self._left = self._at_once
        raise BlockingIOError

    def _counted(self, accepted: socket.socket, peer: Peer, network: str) -> socket.socket:
        limits = self._limits

        def ended() -> None:
            limits.handshake_ended(peer)
            limits.remove_stranger(peer)
            limits.leave(network)

        result = _Connection(accepted, ended)
        end = weakref.WeakMethod(result.end)  # no reference: nobody else's keeps the connection

        def close() -> None:
            if (living := end()) is not None:
                living()

        limits.add_stranger(peer, network, close)
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
