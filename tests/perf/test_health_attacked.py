"""`health_attacked`: how long /health takes while clients use up what they can, each kind of attack by itself.

Attackers, service and whoever asks share two cores. How much of it is the machine's is told by a process that only
works half a millisecond and sends a line back, asked beside it (`echo`). `ratio`: the p99 of the echo over that of
/health, of the worst attack. The p99 of each attack has room(): 10 ms, or three times that of the echo.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from bridge.local import NO_AUTHORITIES
from bridge.local.security import make_tls
from bridge.local.service import BridgeService
from tests.perf.attacks import ATTACKS, FIFO, OVER_TLS, SESSION, config
from tests.perf.group_rounds import quantile
from tests.perf.loads import SCALE
from tests.perf.results import write
from tests.unit.service.health_times import echo, room
from tests.unit.service.service_fakes import ROOT

SECONDS = 10 * SCALE
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


def address(url: str) -> tuple[str, int]:
    host, port = url.rpartition("/")[2].split(":")
    return host, int(port)


async def asked(
    url: str, echo_port: int, seconds: float, tls: ssl.SSLContext | None = None
) -> tuple[list[float], list[float]]:
    """Answer times of /health and of the echo, in ms."""
    host, port = address(url)
    reader, writer = await asyncio.open_connection(host, port, ssl=tls)
    echo_reader, echo_writer = await asyncio.open_connection("127.0.0.1", echo_port)
    health: list[float] = []
    echoed: list[float] = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        began = time.perf_counter()
        writer.write(HEALTH)
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        assert head.startswith(b"HTTP/1.1 200")
        assert length is not None
        await reader.readexactly(int(length.group(1)))
        health.append((time.perf_counter() - began) * 1000)
        began = time.perf_counter()
        echo_writer.write(b"x\n")
        await echo_reader.readline()
        echoed.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(0.01)
    writer.close()
    echo_writer.close()
    return health, echoed


@contextmanager
def attackers(kind: str | None, url: str, fifo: Path) -> Iterator[None]:
    if kind is None:
        yield
        return
    host, port = address(url)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.perf.attacks", kind, host, str(port)],
        cwd=ROOT,
        env=os.environ | {FIFO: str(fifo)},
    )
    try:
        yield
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def row(kind: str, health: Sequence[float], echoed: Sequence[float]) -> dict[str, object]:
    figures: dict[str, object] = {"attack": kind, "n": len(health)}
    for name, times in (("health", health), ("echo", echoed)):
        figures |= {f"{name}_p{part}": round(quantile(list(times), part / 100), 2) for part in (50, 99)}
        figures[f"{name}_max"] = round(max(times), 2)
    return figures


@pytest.mark.timeout(600)
def test_health_attacked(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = []
    slow: list[str] = []
    files = make_tls(tmp_path / "tls")
    tls = ssl.create_default_context(cafile=files.authority)
    settings = {"MIRROR_BRIDGE_TLS_CERT": str(files.server), "MIRROR_BRIDGE_TLS_KEY": str(files.server)}
    os.mkfifo(tmp_path / "fifo")
    with ExitStack() as stack:
        service = BridgeService(tmp_path, environment={"MIRROR_BRIDGE_ALLOWED_FOLDERS": str(tmp_path)})
        over_tls = BridgeService(tmp_path, name="over-tls", environment=settings, tls=tls)
        for each in (service, over_tls):
            stack.callback(each.close)
            each.start()
        body = {"session": SESSION, "kind": "group_offset", "task_count": 1, "config": config()}
        assert httpx.put(
            f"{service.url}/v1/connectors/c/tasks/0", json=body, verify=NO_AUTHORITIES
        ).is_success
        echo_port = stack.enter_context(echo())
        for kind in (None, *ATTACKS):
            attacked, context = (over_tls, tls) if kind == OVER_TLS else (service, None)
            with attackers(kind, attacked.url, tmp_path / "fifo"):
                asyncio.run(asked(attacked.url, echo_port, 1.0 + SECONDS / 10, context))
                health, echoed = asyncio.run(asked(attacked.url, echo_port, SECONDS, context))
            rows.append(row(kind or "none", health, echoed))
            print(json.dumps(rows[-1]), flush=True)
            if quantile(health, 0.99) >= room(echoed, lambda times: quantile(times, 0.99)):
                slow.append(kind or "none")
    worst = max(rows, key=lambda each: float(str(each["health_p99"])))
    ours, other = float(str(worst["health_p99"])), float(str(worst["echo_p99"]))
    write("health_attacked", ours=ours, other=other, unit="ms", better="less", rows=rows)
    assert not slow, "longer than it may take: see the rows"
