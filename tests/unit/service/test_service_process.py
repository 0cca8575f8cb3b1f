"""The service as a process, with its rounds process: signals, crashes, limits on a real socket, and how
quick it is."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import statistics
import time
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from bridge.local import NO_AUTHORITIES, eventually
from bridge.protocol.messages import ErrorBody
from tests.support.messages import message
from tests.support.waits import WAIT
from tests.unit.service.health_times import echo
from tests.unit.service.service_fakes import SECRET, session
from tests.unit.service.service_process import Running, service


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_rounds_run_in_their_own_process_and_what_they_find_is_served(at: Running) -> None:
    at.start(tasks=2)
    assert at.status_when(lambda status: status["rounds"] > 1)["errors"] == [
        f"pid {at.rounds_pid()} active [0, 1]"
    ]
    assert at.client.get("/health/ready").json() == {"status": "ready", "reasons": []}
    groups = at.client.get("/v1/groups").json()
    assert (groups["total"], groups["ready"]) == (3, 3)
    report = at.client.get("/v1/groups/g-000001").json()["reports"][0]
    assert report["partitions"][1]["committed"] == 1002


def test_a_lease_runs_out_and_comes_back(at: Running) -> None:
    at.start(tasks=2, config={"bridge.task.lease.ms": "2000"})
    poll = {"session": session(1), "wait_ms": 0}

    def only_task_1(status: dict[str, Any]) -> bool:
        assert at.client.post("/v1/connectors/c/tasks/1/poll", json=poll).status_code == 200
        return "active [1]" in str(status["errors"])

    assert [task["state"] for task in at.status_when(only_task_1)["tasks"]] == ["lapsed", "active"]
    at.client.post("/v1/connectors/c/tasks/0/poll", json=poll)
    at.eventually(lambda: "active [0, 1]" in str(at.status()["errors"]))
    assert at.text().count("the lease of task 0 has expired") == 1


def test_a_killed_rounds_process_is_started_again_and_told_everything(at: Running) -> None:
    at.start()
    at.eventually(lambda: at.status()["rounds"] > 0)
    first, before = at.rounds_pid(), restarts(at)
    os.kill(first, signal.SIGKILL)
    at.eventually(lambda: at.health()["rounds_process"] == "restarting")
    away = at.client.get("/health/ready")
    restarting = message("health.rounds_restarting")
    assert (away.status_code, away.json()["reasons"]) == (503, [restarting])
    assert at.client.get("/v1/groups/g-000001").status_code == 200  # old verdicts rather than none
    at.eventually(lambda: at.health()["rounds_process"] == "running")
    at.eventually(lambda: str(at.status()["errors"]) == f"['pid {at.rounds_pid()} active [0]']")
    assert at.rounds_pid() != first
    assert at.client.get("/health/ready").status_code == 200
    assert "signal SIGKILL" in at.text()
    assert restarts(at) == before + 1


def restarts(at: Running) -> float:
    (count,) = re.findall(
        r"^mirror_bridge_rounds_process_restarts_total (\S+)$", at.client.get("/metrics").text, re.MULTILINE
    )
    return float(count)


@pytest.mark.parametrize("mode", [pytest.param("ok", marks=pytest.mark.long), "hang"])
def test_the_rounds_process_ends_with_a_killed_service(tmp_path: Path, mode: str) -> None:
    with service(tmp_path) as at:
        at.start(mode=mode)
        at.eventually(lambda: "instance started" in at.text())
        child = at.rounds_pid()
        at.process.kill()
        at.process.wait()
        eventually(lambda: gone(child), WAIT, what="the rounds process ends")


def test_a_signal_to_all_processes_of_a_service_ends_the_rounds_process_with_its_parent_only(
    tmp_path: Path,
) -> None:
    """systemd and `kill` of a group send SIGTERM to each process. Before, the rounds process ended by itself, and its
    parent logged that it is restarted, while it still shut down."""
    with service(tmp_path) as at:
        at.start()
        at.eventually(lambda: at.status()["rounds"] > 0)
        child = at.rounds_pid()
        for which in (signal.SIGTERM, signal.SIGINT):
            os.kill(child, which)
        rounds = at.status()["rounds"]
        assert at.client.post("/v1/connectors/c/refresh").status_code == 200
        at.eventually(lambda: at.status()["rounds"] > rounds)
        assert at.rounds_pid() == child
        at.process.terminate()
        assert at.process.wait(60) == 0
        assert "is restarted" not in at.text()
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)


@pytest.mark.parametrize("which", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_a_signal_drains(tmp_path: Path, which: signal.Signals) -> None:
    marker = tmp_path / "closed"
    with service(tmp_path) as at:
        at.start(marker=str(marker))
        at.eventually(lambda: at.status()["rounds"] > 0)
        child = at.rounds_pid()

        async def held() -> list[httpx.Response]:
            async with httpx.AsyncClient(base_url=at.url, timeout=60, verify=NO_AUTHORITIES) as client:
                body = {"session": session(1), "wait_ms": 1000}
                polls = [
                    asyncio.create_task(client.post("/v1/connectors/c/tasks/0/poll", json=body))
                    for _ in range(20)
                ]
                await asyncio.sleep(0.3)
                at.process.send_signal(which)
                return list(await asyncio.gather(*polls))

        answers = asyncio.run(held())
        assert {answer.status_code for answer in answers} == {200}
        assert max(answer.json()["held_ms"] for answer in answers) < 950
        assert at.process.wait(60) == 0
        assert gone(child)
        assert marker.read_text() == "closed\n"
        assert "Traceback" not in at.text()


def test_a_rounds_process_that_hangs_does_not_hold_up_the_end(tmp_path: Path) -> None:
    with service(tmp_path, {"MIRROR_BRIDGE_SHUTDOWN_GRACE_SECONDS": "3"}) as at:
        at.start(mode="hang")
        at.eventually(lambda: "instance started" in at.text())
        assert at.client.get("/health/live").status_code == 200
        at.process.terminate()
        assert at.process.wait(60) == 0


def test_a_broken_instance_is_shown_and_made_anew_with_backoff(at: Running) -> None:
    at.start(mode="crash")
    at.start("d")
    restarting = at.status_when(lambda status: status["state"] == "restarting")
    assert "as configured" in restarting["errors"][0]
    at.eventually(lambda: at.health()["status"] == "degraded")
    at.eventually(lambda: "has failed 2 time(s)" in str(at.status()["errors"]))
    at.eventually(lambda: at.status("d")["state"] == "running")
    assert at.text().count("Traceback") == 1
    at.start(at=2, mode="ok")  # a configuration that works
    running = at.status_when(lambda status: status["state"] == "running")
    assert "has failed" not in str(running["errors"])


def failure(at: Running, name: str) -> str:
    """What the poll of a task answers, "" as long as nothing failed."""
    poll = {"session": session(1), "wait_ms": 1000}
    return at.client.post(f"/v1/connectors/{name}/tasks/0/poll", json=poll).json()["failure"] or ""


def test_a_permanent_failure_reaches_the_task(at: Running) -> None:
    for number, (mode, words) in enumerate((("fail", "the credentials are wrong"), ("reject", "on create"))):
        name = f"c{number}"
        at.start(name, mode=mode)
        answer = at.eventually(partial(failure, at, name))
        assert words in answer


def test_a_ten_megabyte_body_is_refused_on_a_real_socket(at: Running) -> None:
    for content in (b"x" * 10_000_000, (b"x" * 65536 for _ in range(160))):
        answer = at.client.put(
            "/v1/plugins/fake/validate", content=content, headers={"content-type": "application/json"}
        )
        assert answer.status_code == 413
        assert answer.json()["error_code"] == "too_large"
        assert "1048576 bytes" in answer.json()["message"]
    assert at.client.get("/health/live").status_code == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET /v1/\xc3\xa9 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"PUT /v1/connectors/c HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
    ],
)
def test_what_is_not_http_gets_the_error_body_too(at: Running, sent: bytes) -> None:
    with socket.create_connection((at.client.base_url.host, at.client.base_url.port or 0), 5) as raw:
        raw.sendall(sent + b"\r\n\r\n")
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert ErrorBody.model_validate_json(body).error_code == "body_rejected"
    assert at.client.get("/health/live").status_code == 200


def test_secrets_are_neither_logged_nor_shown(at: Running) -> None:
    at.start(mode="crash", config={"target.password": SECRET})
    at.eventually(lambda: at.status()["state"] == "restarting")
    for path in ("/health", "/metrics", "/v1/connectors", "/v1/connectors/c/status"):
        assert SECRET not in at.client.get(path).text
    at.client.put("/v1/connectors/c%0Alevel", json={"session": session(1), "kind": "fake", "config": {}})
    lines = at.text().splitlines()
    assert SECRET not in at.text()
    for line in lines:
        assert line.startswith("{"), line
        assert line.endswith("}"), line


async def measured(url: str, echo_port: int, tasks: int, seconds: float) -> tuple[list[float], ...]:
    """In ms: answer time of polls minus the time they were held, answer times of /health, and of the echo."""
    host, port = url.removeprefix("http://").split(":")
    until = time.perf_counter() + seconds
    polls: list[float] = []
    health: list[float] = []
    echoed: list[float] = []

    async def ask(
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], sent: bytes
    ) -> tuple[float, bytes]:
        reader, writer = streams
        began = time.perf_counter()
        writer.write(sent)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        length = re.search(rb"content-length: (\d+)", head)
        assert length is not None
        body = await reader.readexactly(int(length.group(1)))
        return (time.perf_counter() - began) * 1000, body

    async def poll(index: int) -> None:
        streams = await asyncio.open_connection(host, int(port))
        body = json.dumps({"session": session(1), "wait_ms": 900}).encode()
        head = f"POST /v1/connectors/c/tasks/{index}/poll HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}"
        await asyncio.sleep(index * 0.9 / tasks)
        while time.perf_counter() < until:
            took, answer = await ask(streams, head.encode() + b"\r\n\r\n" + body)
            polls.append(took - json.loads(answer)["held_ms"])
        streams[1].close()

    async def look() -> None:
        streams = await asyncio.open_connection(host, int(port))
        reader, writer = await asyncio.open_connection("127.0.0.1", echo_port)
        while time.perf_counter() < until:
            health.append((await ask(streams, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"))[0])
            began = time.perf_counter()
            writer.write(b"x\n")
            await reader.readline()
            echoed.append((time.perf_counter() - began) * 1000)
            await asyncio.sleep(0.02)
        writer.close()
        streams[1].close()

    await asyncio.gather(look(), *(poll(index) for index in range(tasks)))
    return polls, health, echoed


@pytest.mark.long
def test_polls_and_health_are_quick_while_a_round_is_on(tmp_path: Path) -> None:
    """A hundred polls at once, beside rounds that never rest. The figures proper are measured on a quiet machine."""
    with service(tmp_path) as at, echo() as echo_port:
        at.start(tasks=100, mode="busy", config={"how.many": "2000", "partitions": "5"})
        at.eventually(lambda: at.status()["rounds"] > 0)
        for left in (2, 1, 0):  # what else runs on the machine may spoil a run, and not three of them
            polls, health, echoed = asyncio.run(measured(at.url, echo_port, 100, 4.0))
            room = 2 + 5 * statistics.median(echoed)
            slowest = max(statistics.median(polls), statistics.median(health))
            if slowest < room or not left:
                break
        assert len(polls) > 300
        assert slowest < room
