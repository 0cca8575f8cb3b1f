"""A process of the local stack: it leads a process group, has a log of its own, and never outlives this interpreter.

Whoever starts it calls `stop()`; else `atexit` does; and if the interpreter ends without either (SIGKILL, a crash), the
reaper, a tiny process, kills what is left.

Errors of the local stack.

    LocalStackError             first line: what is missing or broken, and what to do about it
    ├── ProcessDied             a process ended on its own; the end of its log follows
    ├── WaitTimedOut            a condition did not become true in time; the last failure and ends of logs follow
    └── ConnectFailed           the worker's REST API refused a call

They are shown on the command line or by a test, never over HTTP.

The process groups that must not outlive this interpreter, and the reaper that kills them.

Waits for a condition, and fails at once when a process dies meanwhile.

The base of all servers of the local stack.

Makes SIGTERM and SIGHUP raise an exception as Ctrl-C does, so that the stack is closed.

Reserves free loopback ports.

The kernel may give a port that was bound and closed again to another process before the server binds it. So the
socket stays open, bound but not listening: no other process gets the port, while a server that sets SO_REUSEADDR
(Java, Jetty and uvicorn all do) can bind it and listen there, also after a restart.

Requests over plain HTTP.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Protocol, TypeVar

from bridge.errors import BridgeError

_REAPER = Path(__file__).parent / "reaper.py"
T = TypeVar("T")
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_OF_THE_WAIT = 0.05
"""A pause is a twentieth of the wait so far: who polls takes processor time from what is waited for."""
STOP_SECONDS = 60.0
"""A service has half of that for what it commits and for its own end."""
START_SECONDS = 240.0
"""How long a server may take to start, and a connector to reach a state: on a busy machine several begin at once."""
_Handler = Callable[[int, FrameType | None], object] | int | None
LOOPBACK = "127.0.0.1"
_SHARED_BIND = sys.platform == "linux"
"""Other systems refuse the second bind; there the port is released at once, and the race remains."""
NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For httpx's `verify` where nothing is encrypted: by default it loads all authorities of certifi for each request,
which takes more processor time than the request."""


class LocalStackError(BridgeError):
    """Root of this room's errors."""


class ProcessDied(LocalStackError):
    """A supervised process ended without being asked to."""


class WaitTimedOut(LocalStackError):
    """A condition did not become true in time."""


class ConnectFailed(LocalStackError):
    """Connect answered with an error; `status` is the HTTP status, the message is Connect's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ProcessGroups:
    """Process groups by id, each with a function that ends it. They share a reaper, started with the first one."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._ends: dict[int, Callable[[], None]] = {}
        self._reaper: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def add(self, group: int, end: Callable[[], None]) -> None:
        with self._lock:
            if self._owner != os.getpid():
                self._adopt()
            self._ends[group] = end
            if self._reaper is None or self._reaper.poll() is not None:
                self._start_reaper()
            else:
                self._send(f"+{group}\n")

    def remove(self, group: int) -> None:
        with self._lock:
            if self._ends.pop(group, None) is not None:
                self._send(f"-{group}\n")
            if not self._ends:
                self._end_reaper()

    def end_all(self) -> None:
        """Ends the groups that are left when the interpreter exits. In a fork it leaves those of the parent alone."""
        if self._owner != os.getpid():
            return
        for end in list(self._ends.values()):
            with contextlib.suppress(Exception):
                end()
        self._end_reaper()

    def _adopt(self) -> None:
        """Begins a list of its own, in this interpreter or in a fork, which inherits the list of its parent."""
        self._owner = os.getpid()
        self._ends = {}
        self._reaper = None
        atexit.register(self.end_all)

    def _start_reaper(self) -> None:
        self._reaper = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_REAPER), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            process_group=0,
        )
        for group in self._ends:
            self._send(f"+{group}\n")

    def _end_reaper(self) -> None:
        reaper, self._reaper = self._reaper, None
        if reaper is not None:
            reaper.communicate()

    def _send(self, line: str) -> None:
        if self._reaper is not None and self._reaper.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._reaper.stdin.write(line.encode())
                self._reaper.stdin.flush()


GROUPS = ProcessGroups()
"""Those of this interpreter."""


class Watched(Protocol):
    """A process whose death ends a wait."""

    @property
    def name(self) -> str: ...

    def died(self) -> bool:
        """Whether it ended without having been asked to."""

    def obituary(self) -> str:
        """How it ended, and the end of its log."""

    def log_tail(self, lines: int = ...) -> str: ...


def eventually(attempt: Callable[[], T], timeout: float, *, what: str, watched: Iterable[Watched] = ()) -> T:
    """Repeats `attempt` until it neither raises nor returns False, and returns its result.

    Raises ProcessDied as soon as one of the watched processes has died, and WaitTimedOut with the last failure after
    `timeout` seconds.
    """
    processes = list(watched)
    began = time.monotonic()
    while True:
        failure: Exception | None = None
        try:
            result = attempt()
            if result is not False:
                return result
        except ProcessDied:
            raise
        except Exception as error:
            failure = error
        for process in processes:
            if process.died():
                raise ProcessDied(f"{process.obituary()}\n(while waiting: {what})") from failure
        waited = time.monotonic() - began
        if waited >= timeout:
            raise WaitTimedOut(_timed_out(what, timeout, failure, processes)) from failure
        time.sleep(min(max(_SHORTEST_PAUSE, waited * _OF_THE_WAIT), _LONGEST_PAUSE))


def _timed_out(what: str, timeout: float, failure: Exception | None, processes: list[Watched]) -> str:
    reason = f": {type(failure).__name__}: {failure}" if failure else ""
    tails = [f"--- end of the log of {process.name}\n{process.log_tail(15)}" for process in processes]
    return "\n".join([f"Not within {timeout:g} s: {what}{reason}", *tails])


class ManagedProcess:
    """A command that can be started, stopped, killed, paused and started again; its log is kept."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> None:
        self.name = name
        self.command = list(command)
        self.log = log
        self._environment = dict(environment or {})
        self._directory = directory
        self._popen: subprocess.Popen[bytes] | None = None
        self._asked_to_end = True
        self._log_start = 0

    @property
    def pid(self) -> int:
        """The process id, which is the id of its process group too."""
        return self._live().pid

    @property
    def running(self) -> bool:
        return self._popen is not None and self._popen.poll() is None

    @property
    def exit_status(self) -> int | None:
        """The process's exit status: None while it runs and before the first start, negative for a signal."""
        return None if self._popen is None else self._popen.poll()

    def start(self) -> None:
        """Starts the command and returns at once; `wait_until` waits for it to be ready."""
        if self.running:
            raise LocalStackError(f"{self.name} is running already.")
        self.log.parent.mkdir(parents=True, exist_ok=True)
        # The first start truncates the log, a restart appends to it.
        with self.log.open("wb" if self._popen is None else "ab") as output:
            self._log_start = output.tell()
            try:
                self._popen = subprocess.Popen(
                    self.command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **self._environment},
                    cwd=self._directory,
                    # No session of its own: Linux gives every session the same share of the processors, so that
                    # a broker, whose threads are many, gets as little as one busy loop beside it.
                    process_group=0,
                )
            except OSError as error:
                raise LocalStackError(f"{self.name} cannot be started: {error}") from error
        self._asked_to_end = False
        GROUPS.add(self._popen.pid, self.stop)

    def stop(self, timeout: float = STOP_SECONDS) -> None:
        """Sends SIGTERM, and SIGKILL to the whole group after `timeout`. Does nothing if it has ended."""
        self._end(signal.SIGTERM, timeout)

    def kill(self) -> None:
        """Sends SIGKILL to the whole group."""
        self._end(signal.SIGKILL, STOP_SECONDS)

    def pause(self) -> None:
        """Sends SIGSTOP: the process keeps its sockets and answers nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def wait_until(
        self, condition: Callable[[], bool], timeout: float, what: str, needs: Sequence[Watched] = ()
    ) -> None:
        """Waits, and fails with the end of the log as soon as this process or one that it needs has died."""
        eventually(condition, timeout, what=what, watched=(self, *needs))

    def died(self) -> bool:
        return not self._asked_to_end and self._popen is not None and self._popen.poll() is not None

    def obituary(self) -> str:
        status = self.exit_status
        how = (
            f"was killed by {signal.Signals(-status).name}"
            if status and status < 0
            else f"ended with exit status {status}"
        )
        return f"{self.name} {how}; the end of {self.log}:\n{self.log_tail()}"

    def log_tail(self, lines: int = 30) -> str:
        """The last lines that the process wrote since it was last started."""
        if not self.log.exists():
            return ""
        with self.log.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(self._log_start, size - 500 * lines))
            return "\n".join(log.read().decode(errors="replace").splitlines()[-lines:])

    def _end(self, how: signal.Signals, timeout: float) -> None:
        self._asked_to_end = True
        popen = self._popen
        if popen is None:
            return
        self._signal_group(popen.pid, how)
        # A stopped process handles SIGTERM only once it runs again.
        self._signal_group(popen.pid, signal.SIGCONT)
        try:
            popen.wait(timeout)
        except subprocess.TimeoutExpired:
            pass
        finally:
            # Also after a clean end: grandchildren may be left in the group.
            self._signal_group(popen.pid, signal.SIGKILL)
            popen.wait()
            GROUPS.remove(popen.pid)

    def _signal(self, which: signal.Signals) -> None:
        self._signal_group(self._live().pid, which)

    def _live(self) -> subprocess.Popen[bytes]:
        if self._popen is None or self._popen.poll() is not None:
            raise LocalStackError(f"{self.name} is not running.")
        return self._popen

    @staticmethod
    def _signal_group(group: int, which: signal.Signals) -> None:
        try:
            os.killpg(group, which)
        except (ProcessLookupError, PermissionError):
            # Gone already; macOS says EPERM for a group of zombies.
            return


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


def _leave(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


@contextmanager
def unwinding_on_signals() -> Iterator[None]:
    """Inside, the two signals raise SystemExit. Handlers that are installed already stay."""
    before: dict[signal.Signals, _Handler] = {}
    if threading.current_thread() is threading.main_thread():
        for which in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(which) is signal.SIG_DFL:
                before[which] = signal.signal(which, _leave)
    try:
        yield
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)


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
