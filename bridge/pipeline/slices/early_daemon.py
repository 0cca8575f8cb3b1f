"""A Python daemon that imports what slices need while Spark's JVM starts, before Spark asks for one.

Both take seconds, and one would begin where the other ends. The driver starts this process beside Spark, with a
listening socket. The daemon that Spark starts later passes on what Spark gave to it, its standard streams above all,
by which Spark asks for workers and ends the daemon. It stays for as long as the other runs: it is the one that Spark
waits for. Where nobody listens, as on an executor of a cluster, it is the daemon itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from bridge.child_process import python_command
from bridge.environment import for_child

ADDRESS = "MIRROR_BRIDGE_EARLY_DAEMON"
"""The environment variable that tells a daemon where another one listens."""
_STREAMS = (0, 1, 2)
_TAKEN = b"1"


class EarlyDaemon:
    """The process, as whoever starts Spark has it: until `close`, or the end of this process, it waits to be asked."""

    def __init__(self, module: str, folder: Path) -> None:
        """`module` is run with the descriptor of the socket as its argument, which is in `folder`."""
        self.address = str(folder / "daemon")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.address)
            listener.listen(1)
            self._process = subprocess.Popen(
                python_command(module, str(listener.fileno())),
                pass_fds=[listener.fileno()],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                # As spark-submit has it for all Python of Spark: workers have to agree on what a string's hash is.
                env=for_child() | {"PYTHONHASHSEED": "0"},
            )
        self.pid = self._process.pid
        threading.Thread(target=self._process.wait, name="end of the early daemon", daemon=True).start()

    def close(self) -> None:
        """Ends it, unless a daemon of Spark's has handed over to it: then Spark does."""
        assert self._process.stdin is not None
        self._process.stdin.close()


def take_over(listener: socket.socket, load: Callable[[], object]) -> bool:
    """Calls `load`, and takes over from the first daemon that comes: this process then has its standard streams,
    environment, arguments and search path. Returns False once whoever started this process has ended or closed it."""
    with listener:
        load()
        ready, _, _ = select.select([0, listener.fileno()], [], [])
        if listener.fileno() not in ready:
            return False
        connection, _ = listener.accept()
    Path(connection.getsockname()).unlink(missing_ok=True)
    _, streams, _, _ = socket.recv_fds(connection, 1, len(_STREAMS))
    given = json.loads(b"".join(iter(lambda: connection.recv(1 << 16), b"")))
    for stream, descriptor in zip(_STREAMS, streams, strict=True):
        os.dup2(descriptor, stream)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(given["environment"])
    sys.argv[1:], sys.path[:] = given["arguments"], given["path"]
    connection.sendall(_TAKEN)
    connection.detach()  # open until this process ends
    return True


def hand_over(address: str) -> bool:
    """Hands over to the daemon that listens there, and returns once that has ended; False where none has taken over."""
    given = {"environment": dict(os.environ), "arguments": sys.argv[1:], "path": sys.path}
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        socket.send_fds(connection, [b"\0"], _STREAMS)
        connection.sendall(json.dumps(given).encode())
        connection.shutdown(socket.SHUT_WR)
        if connection.recv(1) == _TAKEN:
            with contextlib.suppress(OSError):  # it was killed
                connection.recv(1)
            return True
    return False
