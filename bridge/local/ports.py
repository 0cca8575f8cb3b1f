"""Free loopback ports that stay ours.

A port asked from the kernel and closed again can be given to somebody else before the server binds it. So the
socket stays open, bound but not listening: the kernel hands the port to nobody else, while a server that sets
SO_REUSEADDR (Java, Jetty and uvicorn all do) can still bind and listen there, also after a restart.
"""

from __future__ import annotations

import socket
import sys

LOOPBACK = "127.0.0.1"
_SHARED_BIND = sys.platform == "linux"
"""Elsewhere two binds of one address clash even so; there the port is let go at once and the race remains."""


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
