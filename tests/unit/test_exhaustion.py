"""What a caller can use up: each kind of attack on a service as a process, and /health meanwhile."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.unit.service_fakes import session
from tests.unit.service_process import Running, service

HEALTH_MS = 10.0
"""Of the median, on an idle machine; a machine that is busy with other tests answers anything later."""


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("service")
    with service(folder, MIRROR_BRIDGE_CHECK_SECONDS="1", MIRROR_BRIDGE_IMPORT_SECONDS="0.2") as running:
        running.start()
        yield running


def median_ms(call: Callable[[], httpx.Response], times: int = 60) -> float:
    took: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        assert call().status_code == httpx.codes.OK
        took.append((time.perf_counter() - began) * 1000)
    took.sort()
    print(f"median {statistics.median(took):.1f} ms, p99 {took[-1 - times // 100]:.1f} ms")
    return statistics.median(took)


def healthy(at: Running, usual: float) -> None:
    """Health answers as quickly as it did, or in HEALTH_MS."""
    found = median_ms(lambda: at.client.get("/health"))
    assert found < max(HEALTH_MS, 3 * usual)


@pytest.fixture(scope="module")
def usual(at: Running) -> float:
    return median_ms(lambda: at.client.get("/health"))


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


def test_validations_and_starts_that_hang_hold_up_nothing_else(at: Running, usual: float, fifo: Path) -> None:
    """Before, two of them took both threads for ever, and every start was 503."""
    hangs = {"wait.for": str(fifo)}
    began = time.monotonic()
    with ThreadPoolExecutor(16) as callers:
        validations = [
            callers.submit(
                httpx.put,
                f"{at.url}/v1/plugins/fake/validate",
                json={"config": {**hangs, "how.many": str(number)}},
                timeout=10,
            )
            for number in range(8)
        ]
        starts = [
            callers.submit(
                httpx.put,
                f"{at.url}/v1/connectors/hangs-{number}",
                json={"session": session(1), "kind": "fake", "config": {**hangs, "how.many": str(number)}},
                timeout=10,
            )
            for number in range(4)
        ]
        healthy(at, usual)
        poll = {"session": session(1), "wait_ms": 0}
        assert at.client.post("/v1/connectors/c/tasks/0/poll", json=poll).is_success
        assert at.client.get("/v1/groups").is_success
        answers = [each.result() for each in (*validations, *starts)]
    assert {answer.status_code for answer in answers} == {503}
    assert {answer.json()["error_code"] for answer in answers} <= {"not_answered", "overloaded"}
    assert any("took longer than 1.2 s" in answer.json()["message"] for answer in answers)
    assert time.monotonic() - began < 6
    at.start("fine")  # while all of them hang
    ok = at.client.put("/v1/plugins/fake/validate", json={"config": {}})
    assert ok.status_code == 200, at.text()
    assert at.client.get("/health/ready").status_code == 200
    healthy(at, usual)
    assert "mirror_bridge_pool_hanging 0.0" not in at.client.get("/metrics").text
    tried = next(n for n, each in enumerate(answers[8:]) if each.json()["error_code"] == "not_answered")
    again = {"session": session(1), "kind": "fake", "config": {**hangs, "how.many": str(tried)}}
    began = time.monotonic()
    answer = at.client.put(f"/v1/connectors/hangs-{tried}", json=again)
    assert (answer.status_code, answer.json()["retriable"]) == (503, True)
    assert time.monotonic() - began < 0.5, "the same hangs already"
    at.eventually(lambda: released(fifo, at))


def test_a_service_ends_though_threads_hang(tmp_path: Path, fifo: Path) -> None:
    with service(tmp_path, MIRROR_BRIDGE_CHECK_SECONDS="0.2", MIRROR_BRIDGE_IMPORT_SECONDS="0.2") as running:
        body = {"config": {"wait.for": str(fifo)}}
        assert running.client.put("/v1/plugins/fake/validate", json=body).status_code == 503
        running.process.terminate()
        assert running.process.wait(10) == 0
