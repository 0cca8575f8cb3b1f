"""One stack for all lanes of a run: the process that starts the lanes has it, and lanes attach to it.

    controller (pytest)                         lane gw0, gw1, … (pytest-xdist)
    ┌────────────────────────────┐              ┌──────────────────────────────┐
    │ LocalStack                 │  a socket    │ AttachedStack                │
    │ brokers A, B, workers,     │◀─────────────│ the same brokers, workers and│
    │ services: started once,    │  start this  │ services, by their addresses │
    │ ended with the run         │              │                              │
    └────────────────────────────┘              └──────────────────────────────┘

What a lane asks of the whole stack is started once, with the options of whoever asks first. What a test file starts
for itself (`stack`, a part of it) belongs to its lane.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.managers import BaseManager
from pathlib import Path
from typing import Any

from bridge.local import (
    BridgeService,
    Broker,
    Cluster,
    ConnectClient,
    ConnectWorker,
    GivenCluster,
    LocalStack,
    ManagedProcess,
)
from bridge.local.processes import LOOPBACK
from tests import ROOT
from tests.support.brokers import shared_security

LOGS = ROOT / ".local" / "test" / "stack"
"""Where the logs of the shared stack are after a run in lanes."""


@dataclass(frozen=True)
class Running:
    """A server of the controller's stack, as lanes need it."""

    address: str
    """host:port of a cluster, the URL of a worker or a service."""
    process: tuple[str, int, Path] | None
    """Name, process id and log; None for a cluster that runs already."""
    listeners: Mapping[str, str] = field(default_factory=dict)
    """host:port by the listeners of a broker."""
    group_id: str = ""
    version: str = ""
    """Of a worker."""


class SharedStack:
    """The controller's side: starts what lanes ask for, one at a time."""

    def __init__(self, stack: LocalStack) -> None:
        self._stack = stack
        self._lock = threading.Lock()

    def clusters(self) -> dict[str, Running]:
        with self._lock:
            self._stack.start_clusters()
            return {cluster.name: _cluster(cluster) for cluster in (self._stack.source, self._stack.target)}

    def worker(self, name: str, options: Mapping[str, Any]) -> Running:
        with self._lock:
            worker = self._stack.worker(name, **options)
            return Running(
                worker.url, _process(worker.process), group_id=worker.group_id, version=worker.version
            )

    def service(self, name: str, options: Mapping[str, Any]) -> Running:
        with self._lock:
            service = self._stack.service(name, **options)
            return Running(service.url, _process(service.process))


class _Manager(BaseManager):
    """The socket between both sides."""


class Controller:
    """Serves a stack to lanes until it is closed."""

    def __init__(self, stack: LocalStack, directory: Path) -> None:
        shared = SharedStack(stack)
        self._directory = directory
        self._stack = stack
        _Manager.register("stack", callable=lambda: shared)
        key = secrets.token_bytes(16)
        server = _Manager(address=(LOOPBACK, 0), authkey=key).get_server()
        threading.Thread(target=server.serve_forever, name="shared stack", daemon=True).start()
        assert isinstance(server.address, tuple)
        self.contact = {"port": server.address[1], "key": key.hex(), "tls": str(directory / "tls")}
        """What a lane needs to attach."""

    @classmethod
    def start(cls, **options: Any) -> Controller:
        directory = Path(
            tempfile.mkdtemp(prefix="mirror-bridge-", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT"))
        )
        stack = LocalStack(directory, security=shared_security(directory / "tls"), **options)
        stack.__enter__()
        return cls(stack, directory)

    def close(self) -> None:
        """Ends all that the stack has started; keeps its logs."""
        self._stack.close()
        shutil.rmtree(LOGS, ignore_errors=True)
        LOGS.mkdir(parents=True)
        for log in self._directory.glob("*.log"):
            shutil.copy(log, LOGS)
        shutil.rmtree(self._directory, ignore_errors=True)


class AttachedProcess(ManagedProcess):
    """A process of the controller: lanes see whether it lives and read its log."""

    def __init__(self, name: str, pid: int, log: Path) -> None:
        super().__init__(name, [], log)
        self._pid = pid

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def running(self) -> bool:
        try:
            state = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return False
        return state != "Z"

    def died(self) -> bool:
        return not self.running

    def obituary(self) -> str:
        return f"{self.name}, which all tests share, has ended; the end of {self.log}:\n{self.log_tail()}"

    def start(self) -> None:
        raise AssertionError(f"{self.name} is shared by all tests: none may start it")

    def _end(self, *_: object) -> None:
        raise AssertionError(f"{self.name} is shared by all tests: none may end it")


class AttachedCluster(GivenCluster):
    def __init__(self, name: str, running: Running) -> None:
        super().__init__(name, running.address)
        self.watched = () if running.process is None else (AttachedProcess(*running.process),)
        self._listeners = running.listeners

    def address(self, listener: str) -> str:
        """host:port of a listener: PLAINTEXT, SASL_PLAINTEXT, SSL or SASL_SSL."""
        return self._listeners[listener]


class AttachedWorker(ConnectWorker):
    def __init__(self, name: str, running: Running, needs: tuple[Cluster, ...]) -> None:
        assert running.process is not None
        self.name = name
        self.group_id = running.group_id
        self.version = running.version
        self._url = running.address
        self.process = AttachedProcess(*running.process)
        watched = [process for cluster in needs for process in cluster.watched]
        self.rest = ConnectClient(self._url, watched=(self.process, *watched))

    @property
    def url(self) -> str:
        return self._url


class AttachedService(BridgeService):
    def __init__(self, name: str, running: Running) -> None:
        assert running.process is not None
        self.name = name
        self._url = running.address
        self.process = AttachedProcess(*running.process)

    @property
    def url(self) -> str:
        return self._url


class AttachedStack(LocalStack):
    """A lane's side: what is asked of it runs in the controller's stack."""

    def __init__(self, directory: Path, contact: Mapping[str, Any], **options: Any) -> None:
        _Manager.register("stack")
        manager = _Manager(address=(LOOPBACK, contact["port"]), authkey=bytes.fromhex(contact["key"]))
        manager.connect()
        self._shared: Any = manager.stack()  # type: ignore[attr-defined]
        clusters = {name: AttachedCluster(name, running) for name, running in self._shared.clusters().items()}
        super().__init__(directory, clusters=clusters, **options)

    def worker(self, name: str = "worker", **options: Any) -> ConnectWorker:
        if name not in self._workers:
            running = self._shared.worker(name, options)
            worker = AttachedWorker(name, running, (self.source, self.target))
            self._closing.callback(worker.rest.close)
            self._workers[name] = worker
        return self._workers[name]

    def service(self, name: str = "service", **options: Any) -> BridgeService:
        if name not in self._services:
            self._services[name] = AttachedService(name, self._shared.service(name, options))
        return self._services[name]


def _cluster(cluster: Cluster) -> Running:
    if not isinstance(cluster, Broker):
        return Running(cluster.bootstrap, None)
    names = ("PLAINTEXT", *cluster.security.listeners)
    return Running(
        cluster.bootstrap, _process(cluster.process), {name: cluster.address(name) for name in names}
    )


def _process(process: ManagedProcess) -> tuple[str, int, Path]:
    return process.name, process.pid, process.log
