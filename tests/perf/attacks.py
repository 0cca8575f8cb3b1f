"""Clients that use up what a service has: `python -m tests.perf.attacks KIND HOST PORT`, until it is killed.

Each sends the same bytes again and again over a few connections, so that the attack itself takes little of the machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from itertools import count

CONNECTIONS = 4
SLOW_CLIENTS = 500
FLOODERS = 64
STALLED = 2500
"""Fewer than one address may have, or whoever asks for health from it would not be let in."""
FIFO = "ATTACK_FIFO"
"""The variable that names a FIFO which nobody writes."""
OVER_TLS = "stalled TLS handshakes"
"""The attack on a service with TLS."""
SESSION = "1795000000001-a"
_BODY = 1_000_000

Requests = Iterator[bytes]


def request(method: str, path: str, body: object = None) -> bytes:
    data = b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(data)}\r\n\r\n"
    return head.encode() + data


def same(method: str, path: str, body: Callable[[], object] = lambda: None) -> Callable[[], Requests]:
    """The same request for ever. Its body may take a second to make: only the attack that sends it makes it."""

    @cache
    def sent() -> bytes:
        return request(method, path, body())

    return lambda: (sent() for _ in count())


def config(**more: str) -> dict[str, str]:
    return {
        "name": "attack",
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": "127.0.0.1:1",
        "target.cluster.bootstrap.servers": "127.0.0.1:1",
        "bridge.validate.reachability": "off",
        **more,
    }


def validation(more: Callable[[], dict[str, str]] = dict) -> Callable[[], Requests]:
    return same("PUT", "/v1/plugins/group_offset/validate", lambda: {"config": config(**more())})


def starts() -> Requests:
    """Tasks that start again and again, each time with another configuration."""
    for number in count():
        body = {
            "session": f"{1_795_000_000_001 + number}-a",
            "kind": "group_offset",
            "task_count": 1,
            "config": config(topics="t" * 200_000, groups=str(number)),
        }
        yield request("PUT", f"/v1/connectors/c{number % 20}/tasks/0", body)


def fifo() -> Requests:
    """Validations whose truststore is a FIFO that nobody writes. Before only regular files were read, they hung."""
    store = {
        "source.cluster.security.protocol": "SSL",
        "source.cluster.ssl.truststore.location": os.environ[FIFO],
        "source.cluster.ssl.truststore.type": "PEM",
    }
    return validation(lambda: store)()


def nothing() -> Requests:
    """Of what is no request."""
    yield from ()


ATTACKS: dict[str, Callable[[], Requests]] = {
    "validations of many keys": validation(lambda: {f"k{n:07d}": "" for n in range(_BODY // 14)}),
    "validations of known prefixes": validation(
        lambda: {f"source.cluster.k{n:07d}": "v" for n in range(_BODY // 32)}
    ),
    "validations of one value": validation(lambda: {"topics": "t" * _BODY}),
    "validations of many patterns": validation(
        lambda: {"topics": ",".join(f"a{n}.*[0-9]{{1,{n % 90 + 1}}}" for n in range(20_000))}
    ),
    "validations": validation(),
    "starts": starts,
    "acknowledgements": same(
        "POST",
        "/v1/connectors/c/tasks/0/ack",
        lambda: {
            "session": SESSION,
            "acked": [{"source_partition": {"p": n}, "timestamp": n} for n in range(10_000)],
        },
    ),
    "stored offsets": same(
        "POST",
        "/v1/connectors/c/tasks/0/poll",
        lambda: {
            "session": SESSION,
            "wait_ms": 0,
            "offsets": [
                {"source_partition": {"p": n}, "source_offset": {"offset": n}} for n in range(10_000)
            ],
        },
    ),
    "altered offsets": same(
        "POST",
        "/v1/connectors/c/offsets",
        lambda: {"config": {}, "offsets": [{"source_partition": {}, "source_offset": None}] * 15_000},
    ),
    "garbage": same(
        "PUT",
        "/v1/plugins/group_offset/validate",
        lambda: {"config": {str(n): n for n in range(60_000)}},
    ),
    "large answers": same("GET", "/v1/plugins"),
    "documents": same("GET", "/v1/openapi.json"),
    "metrics": same("GET", "/metrics"),
    "validations of a FIFO": fifo,
    # No cluster is there, so they are compiled and wait for it; matching is measured in test_mirror_routes.
    "slow patterns": same(
        "GET", "/v1/connectors/c/clusters/target/consumer-offsets?alias=A&timeout_ms=1000&pattern=(.*)*x"
    ),
    "slow clients": same("GET", "/health/live"),
    "connections": nothing,
    OVER_TLS: nothing,
}


async def talk(host: str, port: int, requests: Requests) -> None:
    """Sends one request after the other, and reads the answers' bytes."""
    while True:
        with suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection(host, port, limit=1 << 20)
            for each in requests:
                writer.write(each)
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0] or 0)
                await reader.readexactly(length)
        await asyncio.sleep(0.01)


async def drip(host: str, port: int) -> None:
    """Sends a byte now and then."""
    while True:
        with suppress(OSError):
            _, writer = await asyncio.open_connection(host, port)
            for byte in b"GET /health/live HTTP/1.1\r\nX: " + b"x" * 10_000:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.2)
        await asyncio.sleep(0.2)


async def flood(host: str, port: int) -> None:
    """Connects again and again, and leaves."""
    while True:
        with suppress(OSError):
            _, writer = await asyncio.open_connection(host, port)
            writer.close()
        await asyncio.sleep(0)


async def stall(host: str, port: int) -> None:
    """Begins a handshake, and waits until it is dropped."""
    while True:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(b"\x16\x03\x01\x02\x00\x01")
            await reader.read()
            writer.close()
        await asyncio.sleep(0.2)


MANY = {"slow clients": (SLOW_CLIENTS, drip), "connections": (FLOODERS, flood), OVER_TLS: (STALLED, stall)}


async def attack(kind: str, host: str, port: int) -> None:
    if kind in MANY:
        clients, act = MANY[kind]
        await asyncio.gather(*(act(host, port) for _ in range(clients)))
    await asyncio.gather(*(talk(host, port, ATTACKS[kind]()) for _ in range(CONNECTIONS)))


if __name__ == "__main__":
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(attack(sys.argv[1], sys.argv[2], int(sys.argv[3])))
