"""A cluster that is far away for whoever comes by its FAR listener, or behind a thin link, and near for us."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bridge.local import Cluster, GivenCluster, eventually
from bridge.local.broker import Broker
from bridge.local.jars import DEFAULT_KAFKA, kafka_jars
from bridge.local.processes import ManagedProcess, ReservedPort, listening
from tests.support.waits import WAIT


class FarBroker(Broker):
    """Advertises `proxied` on a listener of its own, `behind`; its other listeners and its own business stay near."""

    def __init__(
        self, name: str, directory: Path, behind: ReservedPort, proxied: ReservedPort, heap: str
    ) -> None:
        super().__init__(name, kafka_jars(DEFAULT_KAFKA), directory, heap=heap)
        self._behind, self._proxied = behind, proxied

    def _properties(self) -> dict[str, str]:
        result = super()._properties()
        return {
            **result,
            "listeners": f"{result['listeners']},FAR://{self._behind.address}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap},FAR://{self._proxied.address}",
            "listener.security.protocol.map": f"{result['listener.security.protocol.map']},FAR:PLAINTEXT",
        }


@contextmanager
def far_cluster(
    directory: Path, milliseconds: float, *, rate: float | None = None, heap: str = "512m"
) -> Iterator[tuple[FarBroker, Cluster]]:
    """The broker as it is near, and the cluster as it is that long away, each way; behind a link of `rate` bytes per
    second, each way, if that is given."""
    behind, proxied = ReservedPort(), ReservedPort()
    broker = FarBroker("far", directory, behind, proxied, heap)
    program = str(Path(__file__).with_name("proxy.py"))
    narrow = [] if rate is None else [str(rate)]
    command = [
        sys.executable,
        "-P",
        program,
        str(proxied.number),
        behind.address,
        str(milliseconds),
        *narrow,
    ]
    proxy = ManagedProcess("proxy", command, directory / "proxy.log")
    try:
        broker.start()
        proxy.start()
        eventually(lambda: listening(proxied.number), WAIT, what="the proxy listens", watched=[proxy])
        yield broker, GivenCluster("far", proxied.address)
    finally:
        proxy.stop()
        broker.close()
        behind.release()
        proxied.release()
