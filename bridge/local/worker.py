"""A distributed Connect worker from Kafka's own jars, with MirrorMaker's connectors on its classpath."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx

from bridge.local.broker import write_properties
from bridge.local.connect_client import ConnectClient
from bridge.local.jars import KafkaJars
from bridge.local.processes import (
    LOOPBACK,
    NO_AUTHORITIES,
    START_SECONDS,
    ManagedProcess,
    ReservedPort,
    Server,
    Watched,
)

_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"

_DEFAULTS = {
    "key.converter": _BYTES,
    "value.converter": _BYTES,
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "offset.storage.partitions": "2",
    "status.storage.replication.factor": "1",
    "status.storage.partitions": "1",
    "offset.flush.interval.ms": "1000",
    "scheduled.rebalance.max.delay.ms": "1000",
    "session.timeout.ms": "10000",
    "heartbeat.interval.ms": "1000",
    "connector.client.config.override.policy": "All",
    # Finds plugins by their manifests only, ours included: seconds faster, and a missing manifest shows.
    "plugin.discovery": "service_load",
    # A worker finds its broker again after a restart, whatever its metadata said before.
    "metadata.recovery.strategy": "rebootstrap",
}


class ConnectWorker(Server):
    """A worker with a REST port of its own. Workers with the same group id share the connectors."""

    def __init__(
        self,
        name: str,
        jars: KafkaJars,
        directory: Path,
        *,
        bootstrap: str,
        group_id: str = "connect",
        plugin_path: Sequence[Path] = (),
        heap: str = "512m",
        properties: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        needs: Sequence[Watched] = (),
    ) -> None:
        self.name = name
        self.group_id = group_id
        self.version = jars.version
        self._jars = jars
        self._needs = tuple(needs)
        self._port = ReservedPort()
        self._config = directory / f"{name}.properties"
        self._heap = heap
        self._properties = {
            **_DEFAULTS,
            "bootstrap.servers": bootstrap,
            "group.id": group_id,
            "client.id": name,
            "listeners": self.url,
            "rest.advertised.host.name": LOOPBACK,
            "rest.advertised.port": str(self._port.number),
            **{f"{kind}.storage.topic": f"{group_id}-{kind}s" for kind in ("config", "offset")},
            "status.storage.topic": f"{group_id}-status",
            **({"plugin.path": ",".join(map(str, plugin_path))} if plugin_path else {}),
            **(properties or {}),
        }
        self.process = ManagedProcess(
            f"Connect worker {name}", [], directory / f"{name}.log", environment=environment
        )
        self.rest = ConnectClient(self.url, watched=(self.process, *self._needs))

    @property
    def url(self) -> str:
        return f"http://{self._port.address}"

    def launch(self) -> None:
        write_properties(self._config, self._properties)
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        self.process.command = self._jars.command(main, str(self._config), heap=self._heap)
        self.process.start()

    def wait_ready(self, timeout: float = START_SECONDS) -> None:
        """Waits until /health (Kafka 3.9 or newer) says that the worker is in its group and has read its topics."""

        def healthy() -> bool:
            answer = httpx.get(f"{self.url}/health", timeout=5.0, verify=NO_AUTHORITIES)
            return answer.status_code == httpx.codes.OK

        self.process.wait_until(
            healthy, timeout, f"{self.process.name} is healthy on {self.url}", self._needs
        )

    def stop(self) -> None:
        self.process.stop(timeout=30.0)

    def close(self) -> None:
        """Kills the worker and releases its port. A clean shutdown would only take time: nobody starts it again."""
        self.rest.close()
        self.kill()
        self._port.release()
