"""Reserves free loopback ports.

The kernel may give a port that was bound and closed again to another process before the server binds it. So the
socket stays open, bound but not listening: no other process gets the port, while a server that sets SO_REUSEADDR
(Java, Jetty and uvicorn all do) can bind it and listen there, also after a restart.
"""

from __future__ import annotations

import socket
import sys

LOOPBACK = "127.0.0.1"
_SHARED_BIND = sys.platform == "linux"
"""Other systems refuse the second bind; there the port is released at once, and the race remains."""


class ReservedPort:
    """One port, reserved until `release`."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((LOOPBACK, 0))
        self.number: int = self._socket.getsockname()[1]
        if not _SHARED_BIND:
            self.release()

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.number}"

    def release(self) -> None:
        self._socket.close()


def listening(port: int) -> bool:
    """Whether something accepts connections on the port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((LOOPBACK, port)) == 0
