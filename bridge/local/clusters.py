"""The kinds of clusters: a broker from jars (broker.py), a container, or one that runs already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from bridge.local.processes import LocalStackError, Watched

IMAGE = "confluentinc/cp-kafka:7.9.1"
"""What Testcontainers' KafkaContainer knows how to start; its scripts are Confluent's."""


class Cluster(Protocol):
    """A cluster that can be started, reached and closed, of whatever kind."""

    @property
    def name(self) -> str: ...

    @property
    def bootstrap(self) -> str: ...

    @property
    def watched(self) -> Sequence[Watched]:
        """The processes of ours that it runs in."""

    def launch(self) -> None: ...

    def wait_ready(self) -> None: ...

    def close(self) -> None: ...


class GivenCluster:
    """A cluster that runs already: never started, never stopped."""

    watched: Sequence[Watched] = ()

    def __init__(self, name: str, bootstrap: str) -> None:
        self.name = name
        self.bootstrap = bootstrap

    def launch(self) -> None:
        """Runs already."""

    def wait_ready(self) -> None:
        """Its clients find out."""

    def close(self) -> None:
        """Not ours to stop."""


class ContainerCluster:
    """A broker in a container, through Testcontainers; for users who have Docker."""

    watched: Sequence[Watched] = ()

    def __init__(self, name: str, image: str = IMAGE) -> None:
        self.name = name
        self._image = image
        self._container: Any = None

    @property
    def bootstrap(self) -> str:
        return str(self._container.get_bootstrap_server())

    def launch(self) -> None:
        try:
            from testcontainers.community.kafka import KafkaContainer
        except ImportError as error:
            raise LocalStackError("Testcontainers is not installed: pip install testcontainers") from error
        try:
            container = KafkaContainer(self._image).with_kraft()
            for key in ("REPLICATION_FACTOR", "MIN_ISR"):
                container = container.with_env(f"KAFKA_TRANSACTION_STATE_LOG_{key}", "1")
            container = container.with_env("KAFKA_AUTO_CREATE_TOPICS_ENABLE", "false")
            self._container = container.start(timeout=120)
        except Exception as error:
            raise LocalStackError(
                f"Container {self._image} for {self.name} did not start; is Docker running? {error}"
            ) from error

    def wait_ready(self) -> None:
        """Does nothing: `launch` has waited for it."""

    def close(self) -> None:
        if self._container is not None:
            self._container.stop()
