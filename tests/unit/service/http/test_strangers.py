"""Connections of those who show no token make room for those who do."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from bridge.model.addresses import network_of
from bridge.service.http.connections import ConnectionLimits
from tests.unit.service.service_process import Running, service

TOKEN = "0123456789abcdef0123456789abcdef"
LIMITS = {"MAX_CONNECTIONS": "40", "MAX_CONNECTIONS_PER_ADDRESS": "30"}
REQUEST = f"GET /v1/version HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    env = {f"MIRROR_BRIDGE_{name}": value for name, value in {**LIMITS, "AUTH_TOKEN": TOKEN}.items()}
    with service(tmp_path_factory.mktemp("service"), env, token=TOKEN) as running:
        yield running


def connected(at: Running, address: str) -> socket.socket:
    url = httpx.URL(at.url)
    return socket.create_connection((url.host, url.port or 0), 10, source_address=(address, 0))


def answered(connection: socket.socket) -> bool:
    """Whether a request with a token is answered."""
    connection.sendall(REQUEST)
    answer = b""
    while not answer.endswith(b"}"):
        received = connection.recv(65536)
        if not received:
            return False
        answer += received
    return answer.startswith(b"HTTP/1.1 200")


def test_whoever_has_a_token_gets_a_connection_and_keeps_it(at: Running) -> None:
    with ExitStack() as stack:
        known = stack.enter_context(connected(at, "127.0.0.2"))
        for address in ("127.0.0.3", "127.0.0.4", "127.0.0.2"):
            for _ in range(40):
                stack.enter_context(connected(at, address))
            assert answered(known), address
        assert answered(stack.enter_context(connected(at, "127.0.0.5")))
    assert at.text().count("closing connections that have not logged in") == 1


def test_a_stranger_is_answered_on_open_paths_and_no_longer_connected(at: Running) -> None:
    with connected(at, "127.0.0.2") as stranger:
        stranger.sendall(b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        answer = b"".join(iter(lambda: stranger.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"connection: close" in answer.lower()


def test_those_who_have_logged_in_are_not_closed_for_others() -> None:
    limits, closed = ConnectionLimits(connections=3, connections_per_address=2), list[int]()

    def come(port: int, address: str) -> str | None:
        why = limits.enter(address)
        if why is None:
            limits.add_stranger((address, port), address, lambda: closed.append(port))
        return why

    assert [come(port, "a") for port in (1, 2)] == [None, None]
    limits.remove_stranger(("a", 1))
    assert come(3, "a") is None, "its address has a stranger's"
    assert closed == [2]
    limits.leave("a")
    limits.remove_stranger(("a", 3))
    assert "a has 2 connections" in (come(4, "a") or "")
    assert come(5, "b") is None
    assert come(6, "c") is None, "in place of b's"
    assert closed == [2, 5]
    limits.leave("b")
    limits.remove_stranger(("c", 6))
    assert "all 3 connections are in use" in (come(7, "d") or "")


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_an_ipv6_network_counts_as_one_address(host: str, network: str) -> None:
    assert network_of(host) == network
