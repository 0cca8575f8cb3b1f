"""The bridge service as a process of the local stack, started by its command.

The Java shim as a plugin directory: finds its zip, or builds it from the sources, and unpacks it.

A node of dedicated mode as a process of the local stack, started by its command.
"""

from __future__ import annotations

import ssl
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx

from bridge import VERSION
from bridge.local.jars import locked, run_maven
from bridge.local.processes import (
    LOOPBACK,
    NO_AUTHORITIES,
    START_SECONDS,
    LocalStackError,
    ManagedProcess,
    ReservedPort,
    Server,
)

SHIM = Path(__file__).resolve().parents[2] / "java-shim"


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


def check_sources() -> None:
    """Raises LocalStackError without the sources, which an installed package does not have."""
    if not (SHIM / "pom.xml").exists():
        raise LocalStackError(f"No shim sources at {SHIM}: run from a checkout of the repository.")


def shim_zip() -> Path:
    """The zip of this version; built when there is none or a source is newer."""
    check_sources()
    archive = SHIM / "target" / f"mirror-bridge-connect-{VERSION}.zip"
    with locked(SHIM / "target" / "build"):
        if not archive.exists() or archive.stat().st_mtime < _newest_source():
            run_maven(["-f", str(SHIM / "pom.xml"), "package", "-DskipTests"], purpose="build the shim")
    if not archive.exists():
        raise LocalStackError(f"The build of {SHIM} did not leave {archive.name}; is its version {VERSION}?")
    return archive


def unpack_shim(directory: Path) -> Path:
    """Unpacks the zip below `directory`, and returns that as an entry for a worker's plugin.path."""
    directory.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(shim_zip()) as archive:
        archive.extractall(directory)
    return directory


def _newest_source() -> float:
    sources = [SHIM / "pom.xml", *(path for path in (SHIM / "src" / "main").rglob("*") if path.is_file())]
    return max(path.stat().st_mtime for path in sources)


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
