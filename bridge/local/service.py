"""The bridge service as a process of the local stack, started by its command."""

from __future__ import annotations

import ssl
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx

from bridge.local.plain_http import NO_AUTHORITIES
from bridge.local.ports import LOOPBACK, ReservedPort
from bridge.local.processes import ManagedProcess
from bridge.local.server import START_SECONDS, Server


class BridgeService(Server):
    """Runs `mirror-bridge serve` on a port of its own; `environment` carries MIRROR_BRIDGE_… settings."""

    def __init__(
        self,
        directory: Path,
        *,
        name: str = "service",
        environment: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`tls`: for requests to it, if `environment` makes it serve HTTPS."""
        self.name = name
        self._tls = tls
        self._port = ReservedPort()
        serve = [sys.executable, "-m", "bridge", "serve", "--host", LOOPBACK]
        command = [*serve, "--port", str(self._port.number), *arguments]
        self.process = ManagedProcess(
            f"bridge {name}", command, directory / f"{name}.log", environment=environment
        )

    @property
    def url(self) -> str:
        return f"{'http' if self._tls is None else 'https'}://{self._port.address}"

    def launch(self) -> None:
        self.process.start()

    def wait_ready(self, timeout: float = START_SECONDS) -> None:
        def ready() -> bool:
            response = httpx.get(f"{self.url}/health/ready", timeout=5.0, verify=self._tls or NO_AUTHORITIES)
            return response.status_code == httpx.codes.OK

        self.process.wait_until(ready, timeout, f"{self.process.name} is ready on {self.url}")

    def close(self) -> None:
        self.stop()
        self._port.release()
