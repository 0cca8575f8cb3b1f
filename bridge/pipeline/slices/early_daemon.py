"""A Python daemon that imports what slices need while Spark's JVM starts, before Spark asks for one.

Both take seconds, and one would begin where the other ends. The driver starts this process beside Spark, with a
listening socket. The daemon that Spark starts later hands over to it: it passes on its standard streams, by which Spark
learns where to ask for workers and ends the daemon, and all else that it was started with, and stays until the early
daemon has ended. Where nobody listens, as on an executor of a cluster, Spark's daemon does the work by itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bridge.child_process import python_command
from bridge.environment import for_child

ADDRESS = "MIRROR_BRIDGE_EARLY_DAEMON"
"""The environment variable that tells Spark's daemon where an early one listens."""
_STREAMS = (0, 1, 2)
_TAKEN = b"1"
_AS_SPARK_SETS_THEM = {
    # By spark-submit: workers have to agree on the hash of a string.
    "PYTHONHASHSEED": "0",
    # What a worker prints would be lost otherwise: it ends without flushing.
    "PYTHONUNBUFFERED": "YES",
    # Libraries that are imported would start threads, and none may run when workers are forked.
    "OMP_NUM_THREADS": "1",
}


class EarlyDaemon:
    """The process, as whoever starts Spark has it. It waits for Spark's daemon until `close`, or the end of this
    process."""

    def __init__(self, module: str, folder: Path) -> None:
        """`module` is run with the descriptor of the socket as its argument; the socket is in `folder`. Raises
        OSError."""
        self.address = str(folder / "daemon")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.address)
            listener.listen(1)
            self._process = subprocess.Popen(
                python_command(module, str(listener.fileno())),
                pass_fds=[listener.fileno()],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env=for_child() | _AS_SPARK_SETS_THEM,
                process_group=0,  # as PySpark's daemon: Ctrl-C is for whoever has the terminal
            )
        self.pid = self._process.pid
        threading.Thread(target=self._process.wait, name="end of the early daemon", daemon=True).start()

    def close(self) -> None:
        """Ends it once it has imported, unless Spark's daemon has handed over to it: then Spark does."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def kill(self) -> None:
        """Ends it at once. For a Spark that has not started."""
        self._process.kill()
        self.close()


def take_over(listener: socket.socket, load: Callable[[], object]) -> bool:
    """Calls `load`, and takes over from the first daemon that comes: this process then has its standard streams,
    environment, arguments, search path and limit of open files. Returns False where none comes before whoever started
    this process has ended or closed it, or where the one that came has ended meanwhile."""
    with listener:
        load()
        ready, _, _ = select.select([0, listener.fileno()], [], [])
        if listener.fileno() not in ready:
            return False
        connection, _ = listener.accept()
    Path(connection.getsockname()).unlink(missing_ok=True)
    try:
        streams, message = _receive(connection)
        connection.sendall(_TAKEN)
    except (OSError, ValueError):
        return False
    for stream, descriptor in zip(_STREAMS, streams, strict=True):
        os.dup2(descriptor, stream)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(message["environment"])
    sys.argv[1:], sys.path[:] = message["arguments"], message["path"]
    resource.setrlimit(resource.RLIMIT_NOFILE, message["files"])
    connection.detach()  # open until this process and its workers end
    return True


def _receive(connection: socket.socket) -> tuple[list[int], dict[str, Any]]:
    """Raises OSError, and ValueError for a half of it."""
    _, streams, _, _ = socket.recv_fds(connection, 1, len(_STREAMS))
    if len(streams) != len(_STREAMS):
        raise ValueError(f"{len(streams)} streams")
    message: dict[str, Any] = json.loads(b"".join(iter(lambda: connection.recv(1 << 16), b"")))
    return streams, message


def hand_over(address: str) -> bool:
    """Hands over to the daemon that listens there, and returns once that one and its workers have ended; False where
    none has taken over."""
    message = {
        "environment": dict(os.environ),
        "arguments": sys.argv[1:],
        "path": sys.path,
        "files": resource.getrlimit(resource.RLIMIT_NOFILE),
    }
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        socket.send_fds(connection, [b"\0"], _STREAMS)
        connection.sendall(json.dumps(message).encode())
        connection.shutdown(socket.SHUT_WR)
        if connection.recv(1) == _TAKEN:
            with contextlib.suppress(OSError):  # it was killed
                connection.recv(1)
            return True
    return False
