"""A process of the local stack: it has a session and a log of its own, and never outlives this interpreter.

Whoever starts it calls `stop()`; else `atexit` does; and if the interpreter ends without either (SIGKILL, a crash), the
reaper, a tiny process, kills what is left.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bridge.local.errors import LocalStackError
from bridge.local.groups import GROUPS
from bridge.local.waiting import Watched, eventually

STOP_SECONDS = 60.0
"""A service has half of that for what it commits and for its own end."""


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
