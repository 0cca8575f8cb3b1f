"""Python processes of ours: one that is kept running, with pipes and a forwarded log, restarted when it ends; and one
that answers on a socket.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from bridge.backoff import Backoff
from bridge.environment import for_child
from bridge.logs.forward import Forward

log = logging.getLogger(__name__)


def python_command(module: str, *arguments: str) -> list[str]:
    """Runs a module in the interpreter of this process, without the working directory on its search path."""
    return [sys.executable, "-P", "-m", module, *arguments]


def ending(returncode: int) -> str:
    """How a process ended, by its returncode in `subprocess`: `exit status 3`, or `signal SIGKILL`."""
    if returncode >= 0:
        return f"exit status {returncode}"
    try:
        return f"signal {signal.Signals(-returncode).name}"
    except ValueError:  # a real-time signal
        return f"signal {-returncode}"


def with_socket(
    module: str, *, logged: bool = False, more: Mapping[str, str] | None = None
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Starts a module that answers on a socket, whose file descriptor is its one argument. Returns the process, which
    leads a process group of its own and can be killed with all that it has started, and our end of the socket.

    - `logged`: what it prints goes to standard error, and else nowhere.
    - `more`: variables of its environment besides those of every child.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            process = subprocess.Popen(
                python_command(module, str(theirs.fileno())),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=2 if logged else subprocess.DEVNULL,
                stderr=None if logged else subprocess.DEVNULL,
                process_group=0,
                env=for_child() | dict(more or {}),
            )
        except BaseException:
            ours.close()
            raise
    return process, ours


def how_ended(process: subprocess.Popen[bytes]) -> str:
    """How a process ended that has closed its socket; it may run on without it."""
    try:
        return ending(process.wait(1))
    except subprocess.TimeoutExpired:
        return "it closed its channel"


@dataclass(frozen=True, slots=True)
class Program:
    """What a child process runs.

    - `name`: what log lines call it, as in "the driver".
    - `command`: see `python_command`.
    - `process`, `connector`: these fields of the lines that it writes to standard error, which go to our log.
    - `steady_seconds`: a process that runs for longer resets the backoff.
    - `limit`: most bytes of its output that are buffered until they are read.
    - `own_group`: keeps signals of the terminal, Ctrl-C above all, from the process. A session of
      its own would have its processors shared otherwise: Linux gives each the same part (sched_autogroup_enabled).
    """

    name: str
    command: Sequence[str]
    process: str
    steady_seconds: float
    limit: int
    connector: str | None = None
    own_group: bool = False


@dataclass(frozen=True, slots=True)
class Callbacks:
    """What a child process's owner does.

    - `started`: called when the process runs, before its output is read. It sends what the process needs first.
    - `read`: reads standard output until it ends. A ValueError is output that can't be read: the process is killed, and
      restarted as if it had ended by itself.
    - `ended`: called with how the process ended and the seconds until the restart; returns whether to restart it.
    - `before_start`: called before each start; returns whether to start it.
    """

    started: Callable[[], None]
    read: Callable[[asyncio.StreamReader], Awaitable[None]]
    ended: Callable[[str, float], bool]
    before_start: Callable[[], Awaitable[bool]] | None = None


class ChildProcess:
    """One child process, restarted with backoff until it is stopped. For use in one event loop."""

    def __init__(self, program: Program, callbacks: Callbacks, backoff: Backoff) -> None:
        self._program, self._callbacks, self._backoff = program, callbacks, backoff
        self._process: asyncio.subprocess.Process | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._stopping = False

    @property
    def pid(self) -> int | None:
        """The process id; None while no process runs."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Starts the process, and returns at once."""
        self._supervisor = asyncio.create_task(self._supervise(), name=f"supervisor of {self._program.name}")

    def send(self, data: bytes) -> None:
        """Writes to standard input. While no process runs it does nothing: `started` sends what a new one needs."""
        process = self._process
        if process is not None and process.stdin is not None and not process.stdin.is_closing():
            process.stdin.write(data)

    def kill(self) -> None:
        """Kills the process, which is then restarted."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def stop(self, request: bytes, grace: float) -> None:
        """Sends `request`, by which the process ends by itself, and kills it after `grace` seconds. Its output is read
        meanwhile; Callbacks.ended is not called."""
        if self._supervisor is None:
            return
        self._stopping = True
        self.send(request)
        try:
            if self._process is not None:  # else it is being started, or waits for its restart
                await asyncio.wait({self._supervisor}, timeout=grace)
            if self._process is not None:
                log.warning(
                    "%s did not end within %.1f s after it was asked to, and is killed",
                    self._program.name,
                    grace,
                    extra={"connector": self._program.connector},
                )
        finally:
            # Also if the caller is cancelled: no process is left behind.
            self._supervisor.cancel()
            await asyncio.wait({self._supervisor})

    async def _supervise(self) -> None:
        loop, before_start = asyncio.get_running_loop(), self._callbacks.before_start
        while before_start is None or await before_start():
            began = loop.time()
            how = await self._run()
            if self._stopping:
                return
            if loop.time() - began > self._program.steady_seconds:
                self._backoff.reset()
            pause = self._backoff.next()
            if not self._callbacks.ended(how, pause):
                return
            await asyncio.sleep(pause)

    async def _run(self) -> str:
        """Runs the process once; returns how it ended. Kills it when cancelled."""
        program = self._program
        forward = Forward(program.process, program.connector)
        try:
            process = await asyncio.create_subprocess_exec(
                *program.command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=forward.fileno,
                process_group=0 if program.own_group else None,
                env=for_child(),
                limit=program.limit,
            )
        except OSError as error:
            await forward.ended()
            return f"it could not be started: {error}"
        except asyncio.CancelledError:
            await forward.ended()
            raise
        assert process.stdout is not None
        forward.started()
        self._process = process
        try:
            self._callbacks.started()
            await self._callbacks.read(process.stdout)
            return ending(await process.wait())
        except ValueError as error:
            return f"it sent output that can't be read: {error}"
        finally:
            self._process = None
            if process.returncode is None:
                process.kill()
                await process.wait()
            await forward.ended()
