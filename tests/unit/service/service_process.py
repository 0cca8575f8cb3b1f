"""The service as a process with the fake kind, and a client of it."""

from __future__ import annotations

import os
import re
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from bridge.local import NO_AUTHORITIES
from tests.unit.service.service_fakes import ROOT, session

WAIT_SECONDS = 60.0


class Running:
    """A service process and a client of it."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        log: Path,
        tls: ssl.SSLContext | None = None,
        token: str | None = None,
    ) -> None:
        self.process = process
        self.log = log
        self._forgotten = 0
        match = self.eventually(lambda: re.search(r"listens on (https?://[0-9.:]+)", self.text()))
        self.url = match.group(1)
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.client = httpx.Client(
            base_url=self.url, timeout=30, verify=tls or NO_AUTHORITIES, headers=headers
        )
        self.wait_rounds()

    def text(self) -> str:
        """The log, from the last `forget_log` on."""
        return self.log.read_bytes()[self._forgotten :].decode()

    def forget_log(self) -> None:
        self._forgotten = self.log.stat().st_size

    def eventually(self, ask: Callable[[], Any]) -> Any:
        end = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < end:
            answer = ask()
            if answer:
                return answer
            assert self.process.poll() is None, self.text()
            time.sleep(0.02)
        raise AssertionError(f"did not come to be:\n{self.text()}")

    def wait_rounds(self) -> None:
        self.eventually(lambda: self.health()["rounds_process"] == "running")

    def health(self) -> dict[str, Any]:
        answer: dict[str, Any] = self.client.get("/health").json()
        return answer

    def start(
        self,
        name: str = "c",
        tasks: int = 1,
        at: int = 1,
        config: Mapping[str, str] | None = None,
        **more: str,
    ) -> None:
        for index in range(tasks):
            body = {
                "session": session(at),
                "kind": "fake",
                "task_count": tasks,
                "config": {**(config or {}), **more},
            }
            answer = self.client.put(f"/v1/connectors/{name}/tasks/{index}", json=body)
            assert answer.status_code == 200, answer.text

    def status(self, name: str = "c") -> dict[str, Any]:
        answer: dict[str, Any] = self.client.get(f"/v1/connectors/{name}/status").json()
        return answer

    def status_when(self, holds: Callable[[dict[str, Any]], Any], name: str = "c") -> dict[str, Any]:
        """The first status of which that holds."""

        def status() -> dict[str, Any] | None:
            answer = self.status(name)
            return answer if holds(answer) else None

        result: dict[str, Any] = self.eventually(status)
        return result

    def forget_connectors(self) -> None:
        for each in self.client.get("/v1/connectors").raise_for_status().json()["connectors"]:
            path = f"/v1/connectors/{quote(each['name'], safe='')}"
            for task in each["tasks"]:
                stop = {"session": task["session"]}
                self.client.request("DELETE", f"{path}/tasks/{task['task']}", json=stop).raise_for_status()
            self.client.delete(path).raise_for_status()

    def rounds_pid(self) -> int:
        out = subprocess.run(
            ["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True, check=True
        )
        return int(out.stdout.split()[0])


@contextmanager
def service(
    folder: Path,
    env: Mapping[str, str] | None = None,
    *,
    tls: ssl.SSLContext | None = None,
    token: str | None = None,
) -> Iterator[Running]:
    """`tls` and `token`: those of the client."""
    log = folder / "service.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.unit.service.service_main"],
            cwd=ROOT,
            stdout=out,
            stderr=out,
            env=os.environ | {"MIRROR_BRIDGE_PORT": "0", **(env or {})},
        )
    running = None
    try:
        running = Running(process, log, tls, token)
        yield running
    finally:
        if running is not None:
            running.client.close()
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
