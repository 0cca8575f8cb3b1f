"""`poll_overhead`: how long the answer to a poll takes beyond the time it was held, and how long /health takes: while
nothing moves, and during rounds in which the offsets of all 10,000 groups × 10 have moved.

The service runs by its HTTP contract alone, 100 tasks polling over sockets of their own. How much of it is the
machine's, which brokers, rounds and others use, is told twice: a process that only sends lines back is asked beside it
(`echo`), and the kernel says how long the process that serves HTTP was ready to run and waited for a processor.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bridge.local import Cluster, ConnectWorker, LocalStack
from bridge.protocol.messages import Health
from tests.perf.group_rounds import (
    DirectTasks,
    both,
    commit_all,
    forget_groups,
    mirrored_topic,
    names,
    our_config,
    quantile,
    spread,
)
from tests.perf.results import write
from tests.unit.service.health_times import echo

PARTITIONS, RECORDS, GROUPS, TASKS = 10, 30_000, 10_000, 100
FULL_ROUNDS = 3
INTERVAL = 30
MOST_MS = 5.0

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Samples:
    """(time, ms) of every answer; and when rounds were seen to end, with the seconds that they say they took."""

    polls: list[tuple[float, float]] = field(default_factory=list)
    health: list[tuple[float, float]] = field(default_factory=list)
    live: list[tuple[float, float]] = field(default_factory=list)
    echo: list[tuple[float, float]] = field(default_factory=list)
    rounds: dict[int, tuple[float, float]] = field(default_factory=dict)
    cpu: list[tuple[float, float, float]] = field(default_factory=list)
    """(time, seconds that the HTTP process ran, seconds that it was ready to run and waited for a processor)."""

    def row(self, during: str, spans: list[tuple[float, float]]) -> dict[str, object]:
        row: dict[str, object] = {
            "during": during,
            "seconds": round(sum(end - start for start, end in spans), 1),
        }
        for name in ("polls", "health", "live", "echo"):
            kept = [
                took for at, took in getattr(self, name) if any(start <= at <= end for start, end in spans)
            ]
            row |= {f"{name}_n": len(kept)}
            row |= {f"{name}_p{part}": round(quantile(kept, part / 100), 2) for part in (50, 99)}
            row |= {f"{name}_max": round(max(kept, default=0.0), 2)}
        for at, name in ((1, "http_ran"), (2, "http_waited_for_cpu")):
            row[name] = round(sum(self._grown(at, *span) for span in spans), 2)
        return row

    def _grown(self, what: int, start: float, end: float) -> float:
        kept = [each[what] for each in self.cpu if start <= each[0] <= end]
        return kept[-1] - kept[0] if kept else 0.0


def scheduled(pid: int) -> tuple[float, float]:
    """Seconds that the first thread of a process ran, and that it waited for a processor."""
    ran, waited, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
    return int(ran) / 1e9, int(waited) / 1e9


async def ask(streams: Streams, sent: bytes) -> tuple[float, bytes]:
    """Milliseconds from the request to the last byte of the answer, and its body."""
    reader, writer = streams
    began = time.perf_counter()
    writer.write(sent)
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    length = re.search(rb"content-length: (\d+)", head)
    assert length is not None
    body = await reader.readexactly(int(length.group(1)))
    return (time.perf_counter() - began) * 1000, body


async def watch(
    url: str, pid: int, echo_port: int, tasks: DirectTasks, samples: Samples, over: asyncio.Event
) -> None:
    """Polls of every task, and once in 20 ms /health, /health/live and the echo, until it is over."""
    host, port = url.removeprefix("http://").split(":")

    async def poll(index: int) -> None:
        streams = await asyncio.open_connection(host, int(port))
        body = json.dumps({"session": tasks.session, "wait_ms": 900}).encode()
        head = (
            f"POST {tasks.path}/tasks/{index}/poll HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}"
        )
        await asyncio.sleep(index * 0.9 / TASKS)
        while not over.is_set():
            took, answer = await ask(streams, head.encode() + b"\r\n\r\n" + body)
            samples.polls.append((time.monotonic(), took - json.loads(answer)["held_ms"]))
        streams[1].close()

    async def look() -> None:
        streams = await asyncio.open_connection(host, int(port))
        reader, writer = await asyncio.open_connection("127.0.0.1", echo_port)
        while not over.is_set():
            took, answer = await ask(streams, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            now = time.monotonic()
            samples.health.append((now, took))
            (status,) = Health.model_validate_json(answer).connectors
            if status.rounds not in samples.rounds and status.last_round_seconds is not None:
                samples.rounds[status.rounds] = (now, status.last_round_seconds)
            live, _ = await ask(streams, b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            samples.live.append((time.monotonic(), live))
            began = time.perf_counter()
            writer.write(b"x\n")
            await reader.readline()
            samples.echo.append((time.monotonic(), (time.perf_counter() - began) * 1000))
            samples.cpu.append((time.monotonic(), *scheduled(pid)))
            await asyncio.sleep(0.02)
        writer.close()
        streams[1].close()

    await asyncio.gather(look(), *(poll(index) for index in range(TASKS)))


@pytest.mark.timeout(1800)
def test_poll_overhead(stack: LocalStack, source: Cluster, target: Cluster, worker: ConnectWorker) -> None:
    topic = mirrored_topic(worker, source, target, partitions=PARTITIONS, records=RECORDS, name="polls-topic")
    groups = names("polls-", GROUPS)
    service = stack.service("polls-service")
    settings = {"sync_group_offsets_interval_seconds": INTERVAL, "refresh_groups_interval_seconds": INTERVAL}
    config = our_config(source, target, service.url, groups="polls-.*", topics=topic, **settings)
    result, pid = Samples(), service.process.pid

    async def measure(echo_port: int) -> list[tuple[float, float]]:
        """The spans of rounds in which all has moved."""
        over = asyncio.Event()
        spans: list[tuple[float, float]] = []
        async with both(source, target) as (a, _):
            await commit_all(a, spread(groups, topic, PARTITIONS, 1, 10_000))
            with DirectTasks(service.url, "polls", config, TASKS) as tasks:
                watching = asyncio.create_task(watch(service.url, pid, echo_port, tasks, result, over))

                async def ended(number: int) -> tuple[float, float]:
                    while number not in result.rounds:
                        if watching.done():
                            watching.result()
                        await asyncio.sleep(0.05)
                    at, seconds = result.rounds[number]
                    return at - seconds, at

                # The first round finds everything anew; a task that starts while it runs makes another one due.
                await ended(1)
                await asyncio.sleep(INTERVAL)
                for number in range(FULL_ROUNDS):
                    last = max(result.rounds)
                    await ended(last + 1)
                    # Nothing is due for most of an interval: the commits do not meet a round.
                    lowest = 10_000 + 5_000 * number
                    await commit_all(a, spread(groups, topic, PARTITIONS, lowest, lowest + 5_000))
                    spans.append(await ended(last + 2))
                over.set()
                await watching
        return spans

    with echo() as echo_port:
        full = asyncio.run(measure(echo_port))
    quiet = [
        (at - seconds, at)
        for at, seconds in result.rounds.values()
        if seconds < min(b - a for a, b in full) / 2
    ]
    rows = [result.row("rounds in which all moved", full), result.row("rounds in which nothing moved", quiet)]
    rows.append({"full_rounds": [round(end - start, 2) for start, end in full]})
    service.stop()
    forget_groups(source, groups)
    forget_groups(target, groups)
    p99 = rows[0]["polls_p99"]
    assert isinstance(p99, float)
    write(
        "poll_overhead",
        ours=p99,
        other=MOST_MS,
        unit="ms at p99 during a full round",
        better="less",
        rows=rows,
    )
