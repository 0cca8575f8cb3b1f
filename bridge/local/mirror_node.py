"""A node of dedicated mode as a process of the local stack, started by its command."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx

from bridge.local.plain_http import NO_AUTHORITIES
from bridge.local.ports import LOOPBACK, ReservedPort
from bridge.local.processes import ManagedProcess
from bridge.local.server import START_SECONDS, Server


class MirrorNode(Server):
    """Runs `mirror-bridge mirror FILE` on a port of its own; `environment` carries MIRROR_BRIDGE_… settings."""

    def __init__(
        self,
        directory: Path,
        file: Path,
        *,
        name: str = "node",
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name, self.file = name, file
        self._port = ReservedPort()
        command = [sys.executable, "-m", "bridge", "mirror", str(file), *arguments]
        self.process = ManagedProcess(
            f"bridge {name}",
            [*command, "--host", LOOPBACK, "--port", str(self._port.number)],
            directory / f"{name}.log",
            environment=environment,
        )

    @property
    def url(self) -> str:
        return f"http://{self._port.address}"

    @property
    def port(self) -> int:
        return self._port.number

    def launch(self) -> None:
        self.process.start()

    def wait_ready(self, timeout: float = START_SECONDS) -> None:
        def ready() -> bool:
            return (
                httpx.get(f"{self.url}/health/ready", timeout=5.0, verify=NO_AUTHORITIES).status_code
                == httpx.codes.OK
            )

        self.process.wait_until(ready, timeout, f"{self.process.name} is ready on {self.url}")

    def close(self) -> None:
        self.stop()
        self._port.release()
