"""The base of all servers of the local stack."""

from __future__ import annotations

from abc import ABC, abstractmethod

from bridge.local.processes import ManagedProcess

START_SECONDS = 240.0
"""How long a server may take to start, and a connector to reach a state: on a busy machine several begin at once."""


class Server(ABC):
    """A server in a process of its own, on ports that it keeps until it is closed."""

    process: ManagedProcess

    @abstractmethod
    def launch(self) -> None:
        """Starts the process without waiting, so that several can start at the same time."""

    @abstractmethod
    def wait_ready(self) -> None:
        """Waits until it serves requests."""

    def start(self) -> None:
        self.launch()
        self.wait_ready()

    def stop(self) -> None:
        self.process.stop()

    def kill(self) -> None:
        self.process.kill()

    def restart(self) -> None:
        """Restarts it with the same ports and data."""
        self.stop()
        self.start()

    @abstractmethod
    def close(self) -> None:
        """Stops it for good and releases its ports."""
