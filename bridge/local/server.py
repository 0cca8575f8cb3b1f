"""What all servers of the stack have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod

from bridge.local.processes import ManagedProcess


class Server(ABC):
    """A server in a process of its own, on ports that it keeps until it is closed."""

    process: ManagedProcess

    @abstractmethod
    def launch(self) -> None:
        """Starts the process without waiting, so that several come up side by side."""

    @abstractmethod
    def wait_ready(self) -> None:
        """Until it does what it is there for."""

    def start(self) -> None:
        self.launch()
        self.wait_ready()

    def stop(self) -> None:
        self.process.stop()

    def kill(self) -> None:
        self.process.kill()

    def restart(self) -> None:
        """The same ports and data; what `kill` left is recovered first."""
        self.stop()
        self.start()

    @abstractmethod
    def close(self) -> None:
        """Stops for good and gives the ports back."""
