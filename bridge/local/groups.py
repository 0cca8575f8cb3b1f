"""The process groups that must not outlive this interpreter, and the reaper that kills them."""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

_REAPER = Path(__file__).parent / "reaper.py"


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
