"""Each input of worst_inputs to a running service: what it answers, what it keeps of it, and how others fare meanwhile.

The short form sends each once, and says nothing of time. The long one (`make attack`) sends each again and again for
some seconds, with /health asked every 50 ms by a process beside it: no answer takes longer than LONGEST_MS.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from bridge.local import NO_AUTHORITIES, eventually
from bridge.local.security import make_tls
from bridge.local.service import BridgeService
from tests.contract.worst_inputs import SESSION, TOKENS, Input, config, worst_inputs
from tests.perf.processes import resident, tree

SECONDS = float(os.environ.get("MIRROR_BRIDGE_ATTACK_SECONDS", "0"))
"""For each input; 0: each is sent once, and nothing is said of time."""
LONGEST_MS = 500.0
MOST_MB = 200.0
"""That all processes of the service together have more after an input than before all of them."""
ASKING = """
import sys, threading, time, httpx
took = []
def ask():
    with httpx.Client(base_url=sys.argv[1], timeout=60, verify=False) as client:
        while True:
            began = time.perf_counter()
            client.get("/health").raise_for_status()
            took.append(time.perf_counter() - began)
            time.sleep(0.05)
threading.Thread(target=ask, daemon=True).start()
for _ in sys.stdin:
    while not took:
        time.sleep(0.01)
    asked, took[:] = took[:], []
    print(f"{max(asked) * 1000:.1f}", flush=True)
"""
"""Asks every 50 ms, and says at each line that it gets what took longest since the last one, in ms."""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[BridgeService]:
    folder = tmp_path / "files"
    folder.mkdir()
    environment = {
        "MIRROR_BRIDGE_AUTH_TOKEN": TOKENS["auth_token"],
        "MIRROR_BRIDGE_READ_TOKEN": TOKENS["read_token"],
        "MIRROR_BRIDGE_ALLOWED_FOLDERS": str(folder),
    }
    started = BridgeService(tmp_path, environment=environment)
    try:
        started.start()
        yield started
    finally:
        started.close()


def send(client: httpx.Client, sent: Input, body: bytes) -> httpx.Response:
    headers = {"authorization": f"Bearer {TOKENS[sent.token]}"} if sent.token else {}
    return client.request(sent.method, sent.path, content=body, headers=headers)


def problem(sent: Input, answer: httpx.Response) -> str:
    """What is wrong with an answer, "" if nothing is. 503 is right for what a busy machine does not get done."""
    late = answer.status_code == httpx.codes.SERVICE_UNAVAILABLE and answer.json()["retriable"]
    if not late and answer.status_code not in sent.statuses:
        return f"{sent.name}: {answer.status_code} {answer.text[:300]}"
    if not late and sent.says not in answer.text:
        return f"{sent.name}: its answer does not have {sent.says!r}: {answer.text[:300]}"
    return ""


@contextmanager
def asking(url: str) -> Iterator[Callable[[], float]]:
    """Asks for health from another process; yields what took longest since it was called last, in ms."""
    process = subprocess.Popen(
        [sys.executable, "-c", ASKING, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    send_line, read_line = process.stdin, process.stdout

    def longest() -> float:
        send_line.write("\n")
        send_line.flush()
        return float(read_line.readline())

    try:
        longest()
        yield longest
    finally:
        process.kill()
        process.communicate()


def megabytes(service: BridgeService) -> float:
    return resident(tree(service.process.pid))["sum"]


@pytest.mark.timeout(7200 if SECONDS else 300)
def test_each_is_answered_and_nothing_is_kept_of_it(
    service: BridgeService, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    folder = tmp_path / "files"
    certificate = make_tls(tmp_path / "tls").authority.read_text()
    wrong = list[str]()
    with (
        httpx.Client(base_url=service.url, timeout=60, verify=NO_AUTHORITIES) as client,
        asking(service.url) as longest,
    ):
        begin = {"session": SESSION, "kind": "group_offset", "task_count": 1, "config": config()}
        start = Input("start", "auth_token", "PUT", "/v1/connectors/c/tasks/0", json.dumps(begin).encode)
        assert send(client, start, start.body()).is_success
        before = megabytes(service)
        for sent in worst_inputs(folder, certificate):
            body, began, sends = sent.body(), time.monotonic(), 0
            longest()
            while not sends or time.monotonic() - began < SECONDS:
                answer = send(client, sent, body)
                sends += 1
            took, slowest, more = (time.monotonic() - began) / sends, longest(), megabytes(service) - before
            told = f"{sent.name:34} {answer.status_code} {took:6.2f} s, health {slowest:6.1f} ms, {more:+6.0f} MB"
            print(told, flush=True)
            record_property("ran", told)
            wrong += filter(None, [problem(sent, answer)])
            if SECONDS and slowest > LONGEST_MS:
                wrong.append(f"{sent.name}: health took {slowest:.0f} ms")
        # Processes that check large configurations end once nobody asks.
        eventually(lambda: megabytes(service) - before < MOST_MB, 120, what="memory is free again")
    assert wrong == []
