"""What processes have cost, as /proc tells it: processor seconds and resident size of whole trees."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


def tree(root: int) -> list[int]:
    """The process and all that descend from it, as far as they live."""
    collected, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        try:
            threads = list(Path(f"/proc/{pid}/task").iterdir())
        except OSError:
            continue
        collected.append(pid)
        for thread in threads:
            waiting += map(int, _read(thread / "children").split())
    return collected


def resident_mb(pid: int) -> float:
    """0 for a process that has ended."""
    result = _status(pid).get("VmRSS")
    return int(result.split()[0]) / 1024 if result else 0.0


def resident(pids: Iterable[int]) -> dict[str, float]:
    """MB by program, and their sum. RSS counts what processes share once for each of them."""
    sizes: dict[str, float] = {}
    for pid in pids:
        name = _status(pid).get("Name", "ended")
        sizes[name] = sizes.get(name, 0.0) + resident_mb(pid)
    return {name: round(size, 1) for name, size in {**sizes, "sum": sum(sizes.values())}.items()}


class Meter:
    """Processor seconds of the trees that `roots` answers, from now on; what ended on the way counts as last seen."""

    def __init__(self, roots: Callable[[], Iterable[int]]) -> None:
        self._roots = roots
        self._used: dict[int, float] = {}
        self._before = sum(self._read().values())

    def seconds(self) -> float:
        return sum(self._read().values()) - self._before

    def _read(self) -> dict[int, float]:
        for root in self._roots():
            for pid in tree(root):
                stat = _read(Path(f"/proc/{pid}/stat"))
                if stat:
                    # Behind the name, which may have spaces: state is field 3, utime 14 and stime 15.
                    fields = stat.rpartition(")")[2].split()
                    self._used[pid] = (int(fields[11]) + int(fields[12])) / _TICK
        return self._used


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _status(pid: int) -> dict[str, str]:
    lines = _read(Path(f"/proc/{pid}/status")).splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
