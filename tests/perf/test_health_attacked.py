"""`health_attacked`: how long /health takes while clients use up what they can, each kind of attack by itself.

Attackers, service and whoever asks share two cores. How much of it is the machine's is told by a process that only
works half a millisecond and sends a line back, asked beside it (`echo`). `ratio`: the p99 of the echo over that of
/health, of the worst attack.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from bridge.local.service import BridgeService
from tests.perf.attacks import ATTACKS, SESSION, config
from tests.perf.group_rounds import quantile
from tests.perf.loads import SCALE
from tests.perf.results import write
from tests.unit.service.health_times import echo
from tests.unit.service.service_fakes import ROOT

SECONDS = 10 * SCALE
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def asked(url: str, echo_port: int, seconds: float) -> tuple[list[float], list[float]]:
    """Answer times of /health and of the echo, in ms."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
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
def attackers(kind: str | None, url: str) -> Iterator[None]:
    if kind is None:
        yield
        return
    host, port = url.removeprefix("http://").split(":")
    process = subprocess.Popen([sys.executable, "-m", "tests.perf.attacks", kind, host, port], cwd=ROOT)
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
    service = BridgeService(tmp_path)
    try:
        service.start()
        body = {"session": SESSION, "kind": "group_offset", "task_count": 1, "config": config()}
        assert httpx.put(f"{service.url}/v1/connectors/c/tasks/0", json=body).is_success
        with echo() as echo_port:
            for kind in (None, *ATTACKS):
                with attackers(kind, service.url):
                    asyncio.run(asked(service.url, echo_port, 1.0 + SECONDS / 10))
                    figures = asyncio.run(asked(service.url, echo_port, SECONDS))
                rows.append(row(kind or "none", *figures))
                print(json.dumps(rows[-1]), flush=True)
    finally:
        service.close()
    worst = max(rows, key=lambda each: float(str(each["health_p99"])))
    ours, other = float(str(worst["health_p99"])), float(str(worst["echo_p99"]))
    write("health_attacked", ours=ours, other=other, unit="ms", better="less", rows=rows)
