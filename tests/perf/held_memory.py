"""Memory that stays in the machine while a benchmark runs.

A virtual machine may give free pages back to its host after a second, and the first use of each then costs some ten
microseconds. On one such machine a file was written to the page cache at 3.5 to 4.6 GB/s, and at 0.4 GB/s after twenty
idle seconds. That slows down most who copies most bytes a second, and says nothing about mirrors. So a process takes
what is free, touches it and lets go of it lazily (MADV_FREE): the host does not get it, and whoever asks gets it soon.
"""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from tests import ROOT
from tests.perf.processes import resident_mb

_MB = 1 << 20
_LEFT = 300
"""MB that stay free: more than the kernel keeps for itself."""
_CHUNK = 256
"""MB taken at a time and let go of before the next: what is held never comes near the limit of a container."""
_PAUSE = 0.3
"""Seconds. Pages are given back to the host after one."""
_HELD = "held"


@contextmanager
def held_memory() -> Iterator[None]:
    """For the time of the block, which begins when all that is free has been touched: in up to a minute."""
    # As a module, from here: a dependency may have brought a package `tests` of its own.
    command = [sys.executable, "-m", "tests.perf.held_memory"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline().strip() == _HELD, "memory is not held"
            yield
        finally:
            holder.kill()


def _megabytes(pages: str) -> int:
    return os.sysconf(pages) * mmap.PAGESIZE // _MB


def _touched() -> mmap.mmap:
    chunk = mmap.mmap(-1, _CHUNK * _MB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    chunk.madvise(mmap.MADV_HUGEPAGE)
    for at in range(0, len(chunk), mmap.PAGESIZE):
        chunk[at] = 1
    chunk.madvise(mmap.MADV_FREE)
    return chunk


def _fill(held: deque[mmap.mmap]) -> None:
    """Until little is free, or until taking leaves no less: then a container has its limit."""
    free = _megabytes("SC_AVPHYS_PAGES")
    while free >= _LEFT + _CHUNK:
        held.append(_touched())
        before, free = free, _megabytes("SC_AVPHYS_PAGES")
        if before - free < _CHUNK // 2:
            break


def main() -> None:
    """Until killed, or until whoever has started it is gone."""
    parent = os.getppid()
    held: deque[mmap.mmap] = deque(maxlen=2 * _megabytes("SC_PHYS_PAGES") // _CHUNK)
    _fill(held)
    print(_HELD, flush=True)
    while os.getppid() == parent:
        time.sleep(_PAUSE)
        _fill(held)


if __name__ == "__main__":
    main()


def resident(pids: dict[str, int]) -> dict[str, float]:
    """MB by process, and their sum. RSS counts what processes share once for each of them."""
    sizes = {name: round(resident_mb(pid), 1) for name, pid in pids.items()}
    return {"sum": round(sum(sizes.values()), 1), **sizes}
