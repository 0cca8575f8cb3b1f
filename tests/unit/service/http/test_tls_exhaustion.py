"""Handshakes that stall, on a service with TLS as a process: they count as connections, and have their time."""

from __future__ import annotations

import selectors
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from http.client import HTTPResponse

import httpx
import pytest

from bridge.local.security import TlsFiles, make_tls
from tests.unit.service.service_process import Running, service

HEAD_SECONDS = 8.0
"""Longer than it takes to open the connections on a busy machine."""
CONNECTIONS, PER_ADDRESS = 80, 60
ASYNCIO_SECONDS = 60.0
"""What a handshake may take by asyncio's own rule."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return make_tls(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory, files: TlsFiles) -> Iterator[Running]:
    env = {
        "MIRROR_BRIDGE_TLS_CERT": str(files.server),
        "MIRROR_BRIDGE_TLS_KEY": str(files.server),
        "MIRROR_BRIDGE_HEAD_SECONDS": str(HEAD_SECONDS),
        "MIRROR_BRIDGE_MAX_CONNECTIONS": str(CONNECTIONS),
        "MIRROR_BRIDGE_MAX_CONNECTIONS_PER_ADDRESS": str(PER_ADDRESS),
    }
    with service(tmp_path_factory.mktemp("service"), env, tls=trusting(files)) as running:
        yield running


def trusting(files: TlsFiles) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=files.authority)


def half_a_hello() -> bytes:
    """The first half of what a client sends first."""
    sent = ssl.MemoryBIO()
    hello = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), sent, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        hello.do_handshake()
    whole = sent.read()
    return whole[: len(whole) // 2]


def stalled(at: Running, address: str, count: int, stack: ExitStack) -> dict[socket.socket, float]:
    """Connections whose handshakes do not go on, and when each began: every other one says half a hello."""
    port = httpx.URL(at.url).port or 0
    result: dict[socket.socket, float] = {}
    hello = half_a_hello()
    for number in range(count):
        began = time.monotonic()
        each = socket.create_connection(("127.0.0.1", port), 60, source_address=(address, 0))
        result[stack.enter_context(each)] = began
        if number % 2:
            with suppress(OSError):  # it may be refused already
                each.sendall(hello)
    return result


def lifetimes(opened: dict[socket.socket, float], at: Running) -> dict[socket.socket, float]:
    """How long each lived until the service ended it; the service is asked for its health meanwhile."""
    result: dict[socket.socket, float] = {}
    with selectors.DefaultSelector() as open_ones:
        for connection in opened:
            open_ones.register(connection, selectors.EVENT_READ, connection)
        while open_ones.get_map():
            for key, _ in open_ones.select(0.05):
                each = key.data
                with suppress(ConnectionResetError):
                    assert not each.recv(4096), "there is nothing to say before the handshake"
                result[each] = time.monotonic() - opened[each]
                open_ones.unregister(each)
            assert at.client.get("/health").is_success, "by the connection that it has"
    return result


def status(connection: ssl.SSLSocket) -> int:
    """Of an answer that is read to its end."""
    connection.sendall(b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    with HTTPResponse(connection) as response:
        response.begin()
        response.read()
        return response.status


def served(at: Running, tls: ssl.SSLContext) -> bool:
    """Whether a new client is served."""
    try:
        raw = socket.create_connection(("127.0.0.1", httpx.URL(at.url).port or 0), 60)
        with tls.wrap_socket(raw, server_hostname="127.0.0.1") as connection:
            return status(connection) == 200
    except OSError:
        return False


def test_handshakes_that_fail_are_no_connections_any_more(at: Running, files: TlsFiles) -> None:
    """More of them than connections may be open."""
    port = httpx.URL(at.url).port or 0
    for number in range(CONNECTIONS + 20):
        with socket.create_connection(("127.0.0.1", port), 60) as each:
            each.sendall(b"no TLS at all\r\n\r\n" if number % 2 else b"")
            if number % 2:
                while each.recv(4096):
                    pass
    assert served(at, trusting(files))
    assert "refusing connections" not in at.text()


def test_stalled_handshakes_count_as_connections_and_make_room(at: Running, files: TlsFiles) -> None:
    """Before, any number of them was let in, and then nobody was beside them."""
    tls = trusting(files)
    with ExitStack() as stack:
        most = stalled(at, "127.0.0.2", PER_ADDRESS + 30, stack)
        others = stalled(at, "127.0.0.3", CONNECTIONS, stack)
        assert served(at, tls)
        lived = lifetimes(most | others, at)
        kept = [each for each, seconds in lived.items() if seconds >= HEAD_SECONDS]
        assert 0 < len(kept) < CONNECTIONS
        assert sum(each in most for each in kept) <= PER_ADDRESS
    assert at.text().count("closing connections that have not logged in") == 1
    assert "refusing connections" not in at.text()
    assert "Traceback" not in at.text()


@pytest.mark.long
def test_a_client_that_has_shaken_hands_is_not_dropped_with_those_that_stall(
    at: Running, files: TlsFiles
) -> None:
    """The time for the handshake ends with the handshake: an idle connection has another one. Before, a handshake had a
    minute."""
    port = httpx.URL(at.url).port or 0
    with ExitStack() as stack:
        raw = socket.create_connection(("127.0.0.1", port), 60)
        idle = stack.enter_context(trusting(files).wrap_socket(raw, server_hostname="127.0.0.1"))
        assert status(idle) == 200
        (lived,) = lifetimes(stalled(at, "127.0.0.2", 1, stack), at).values()
        assert HEAD_SECONDS <= lived < ASYNCIO_SECONDS / 2
        assert status(idle) == 200
