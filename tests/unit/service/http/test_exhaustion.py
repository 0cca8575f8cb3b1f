"""What a caller can use up: each kind of attack on a service as a process, and /health meanwhile."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from http.client import HTTPResponse
from pathlib import Path

import httpx
import pytest

from bridge.protocol.messages import ErrorBody
from tests.unit.service.health_times import HEALTH_MS
from tests.unit.service.service_fakes import session
from tests.unit.service.service_main import HOLD_UPS
from tests.unit.service.service_process import Running, service

LIMITS = {
    "CHECK_SECONDS": "1",
    "IMPORT_SECONDS": "0.2",
    "HEAD_SECONDS": "0.5",
    "BODY_SECONDS": "0.8",
    "MAX_CONNECTIONS": "80",
    "MAX_CONNECTIONS_PER_ADDRESS": "40",
}


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("service")
    env = {f"MIRROR_BRIDGE_{name}": value for name, value in LIMITS.items()}
    with service(folder, env | {HOLD_UPS: str(HEALTH_MS)}) as running:
        running.start()
        yield running


@pytest.fixture(autouse=True)
def hold_ups(at: Running) -> Iterator[None]:
    """Nothing holds up the event loop for as long as health may take, not even once."""

    def told() -> list[str]:
        return [line for line in at.text().splitlines() if line.startswith("held up")]

    before = len(told())
    yield
    assert told()[before:] == []


def ask_health(at: Running) -> None:
    assert at.client.get("/health").status_code == httpx.codes.OK


@pytest.fixture(scope="module")
def healthy(at: Running) -> Callable[[], None]:
    """Asserts that health is answered, again and again; `hold_ups` sees what that costs the event loop. How long it
    takes is measured elsewhere (tests/perf/test_health_attacked.py): machines stand still now and then."""

    def ask() -> None:
        for _ in range(20):
            ask_health(at)

    return ask


def connected(at: Running, address: str = "127.0.0.2") -> socket.socket:
    """A connection from an address that the clients of these tests don't have."""
    url = at.client.base_url
    return socket.create_connection((url.host, url.port or 0), 10, source_address=(address, 0))


def rest(connection: socket.socket) -> tuple[bytes, str]:
    """What still comes, to its end: the status, and the error code."""
    answer = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    return head[:12], ErrorBody.model_validate_json(body).error_code if body else ""


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    """A file whose reader waits until somebody has written it."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


def released(path: Path, at: Running) -> bool:
    """Ends the reads that have begun; whether no thread hangs any more."""
    with suppress(OSError):  # nobody reads now
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    return "mirror_bridge_pool_hanging 0.0" in at.client.get("/metrics").text


def test_validations_and_starts_that_hang_hold_up_nothing_else(
    at: Running, healthy: Callable[[], None], fifo: Path
) -> None:
    """Before, two of them took both threads for ever, and every start was 503."""
    hangs = {"wait.for": str(fifo)}
    with ThreadPoolExecutor(16) as callers:
        validations = [
            callers.submit(
                httpx.put,
                f"{at.url}/v1/plugins/fake/validate",
                json={"config": {**hangs, "how.many": str(number)}},
                timeout=60,
            )
            for number in range(8)
        ]
        starts = [
            callers.submit(
                httpx.put,
                f"{at.url}/v1/connectors/hangs-{number}",
                json={"session": session(1), "kind": "fake", "config": {**hangs, "how.many": str(number)}},
                timeout=60,
            )
            for number in range(4)
        ]
        healthy()
        poll = {"session": session(1), "wait_ms": 0}
        assert at.client.post("/v1/connectors/c/tasks/0/poll", json=poll).is_success
        assert at.client.get("/v1/groups").is_success
        answers = [each.result() for each in (*validations, *starts)]
    assert {answer.status_code for answer in answers} == {503}
    assert {answer.json()["error_code"] for answer in answers} <= {"not_answered", "overloaded"}
    assert any("took longer than 1.2 s" in answer.json()["message"] for answer in answers)
    at.start("fine")  # while all of them hang
    ok = at.client.put("/v1/plugins/fake/validate", json={"config": {}})
    assert ok.status_code == 200, at.text()
    assert at.client.get("/health/ready").status_code == 200
    healthy()
    assert "mirror_bridge_pool_hanging 0.0" not in at.client.get("/metrics").text
    tried = next(n for n, each in enumerate(answers[8:]) if each.json()["error_code"] == "not_answered")
    again = {"session": session(1), "kind": "fake", "config": {**hangs, "how.many": str(tried)}}
    hanging = at.client.get("/metrics").text.partition("\nmirror_bridge_pool_hanging ")[2].partition("\n")[0]
    answer = at.client.put(f"/v1/connectors/hangs-{tried}", json=again)
    assert (answer.status_code, answer.json()["retriable"]) == (503, True)
    assert f"mirror_bridge_pool_hanging {hanging}\n" in at.client.get("/metrics").text, (
        "the same hangs already"
    )
    at.eventually(lambda: released(fifo, at))


def test_a_start_whose_check_takes_too_long_gets_its_result_at_the_next_attempt(
    tmp_path: Path, fifo: Path
) -> None:
    """Before, each attempt began anew, and on a busy machine none of them ended in time."""
    settings = {"MIRROR_BRIDGE_CHECK_SECONDS": "0.2", "MIRROR_BRIDGE_IMPORT_SECONDS": "0.2"}
    with service(tmp_path, settings) as running:
        body = {"session": session(1), "kind": "fake", "config": {"wait.for": str(fifo)}}
        answer = running.client.put("/v1/connectors/slow", json=body)
        assert (answer.status_code, answer.json()["error_code"]) == (503, "not_answered")
        running.eventually(lambda: released(fifo, running))
        # The file would be waited for again.
        assert running.client.put("/v1/connectors/slow", json=body).status_code == 200


def test_a_service_ends_though_threads_hang(tmp_path: Path, fifo: Path) -> None:
    with service(
        tmp_path, {"MIRROR_BRIDGE_CHECK_SECONDS": "0.2", "MIRROR_BRIDGE_IMPORT_SECONDS": "0.2"}
    ) as running:
        body = {"config": {"wait.for": str(fifo)}}
        assert running.client.put("/v1/plugins/fake/validate", json=body).status_code == 503
        running.process.terminate()
        assert running.process.wait(60) == 0


REQUEST = b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
HEAD = b"PUT /v1/plugins/fake/validate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
LENGTH = b"Content-Length: 1000\r\n\r\n"
SLOW = (b"HTTP/1.1 408", "too_slow")


@pytest.mark.parametrize(
    ("sent", "drip", "answer"),
    [
        (b"GET /health", b"x", SLOW),
        (HEAD + LENGTH, b" ", SLOW),
        (b"", b"", (b"", "")),
        # What was answered already is not answered again.
        (
            b"DELETE /v1/nothing HTTP/1.1\r\nHost: 127.0.0.1\r\n" + LENGTH,
            b" ",
            (b"HTTP/1.1 404", "no_such_route"),
        ),
    ],
)
def test_clients_that_are_slow_are_dropped(
    at: Running, healthy: Callable[[], None], sent: bytes, drip: bytes, answer: tuple[bytes, str]
) -> None:
    """Before, a client that sent a byte now and then was waited for as long as it liked."""
    with ExitStack() as stack:
        slow = [stack.enter_context(connected(at)) for _ in range(30)]
        for each in slow:
            each.sendall(sent)
        healthy()
        silent, dripping = slow[:15], slow[15:]
        for each in dripping:
            with suppress(OSError):
                each.sendall(drip)
        assert {rest(each) for each in silent} == {answer}
        for each in dripping:
            # Where the byte came after the end, the connection was reset, and the answer is lost.
            with suppress(ConnectionResetError):
                assert rest(each) == answer


def _status(connection: socket.socket) -> int:
    """Of the response to a request, which is read to its end: head and body may come one after the other."""
    connection.sendall(REQUEST)
    with HTTPResponse(connection) as response:
        response.begin()
        response.read()
        return response.status


def test_held_polls_and_idle_connections_are_not_slow(at: Running) -> None:
    """Both last longer here than a head, or a body, may take."""

    def held() -> bool:
        answer = at.client.post(
            "/v1/connectors/c/tasks/0/poll", json={"session": session(1), "wait_ms": 1000}
        )
        return bool(answer.raise_for_status().json()["held_ms"] > 900)

    with connected(at) as idle:
        assert _status(idle) == 200
        at.eventually(held)
        assert _status(idle) == 200


def test_two_requests_at_once_are_answered_one_after_the_other(at: Running) -> None:
    with connected(at) as both:
        both.sendall(REQUEST * 2)
        answer = b""
        while answer.count(b"HTTP/1.1 200") < 2:
            answer += both.recv(65536)


def test_connections_are_limited_in_all_and_by_address(at: Running, healthy: Callable[[], None]) -> None:
    """An address that takes all it can get leaves some for others."""
    with ExitStack() as stack:
        for _ in range(40):  # one by one: each has half a second for its request
            each = stack.enter_context(connected(at))
            each.sendall(REQUEST)
            assert each.recv(65536).startswith(b"HTTP/1.1 200")
        refused_ones = [stack.enter_context(connected(at)) for _ in range(20)]
        assert {rest(each) for each in refused_ones} == {(b"HTTP/1.1 503", "overloaded")}
        healthy()
        others = [stack.enter_context(connected(at, "127.0.0.3")) for _ in range(40)]
        assert min(rest(each)[0] for each in others) == b"", "80 in all: who came first makes room"
        assert at.client.get("/health").is_success, "by the connection that it has"
        assert at.text().count("refusing connections") == 1

    def served() -> bool:
        with connected(at) as again, suppress(ConnectionResetError):
            again.sendall(REQUEST)
            return again.recv(65536).startswith(b"HTTP/1.1 200")
        return False

    at.eventually(served)  # once the service has seen that the others are closed


@pytest.mark.parametrize("end", [b"", b"\r\n\r\n"])
def test_a_head_that_is_too_large_is_refused(at: Running, end: bytes) -> None:
    with connected(at) as large:
        large.sendall(HEAD + b"X-Large: " + b"x" * 20_000 + end)
        assert rest(large) == (b"HTTP/1.1 400", "body_rejected")
