"""Processes of this machine, as /proc has them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def processes(below: int | None = None, word: str = "") -> list[int]:
    """Ids of all processes, or of those below one; `word` is in their command line."""
    parents: dict[int, int] = {}
    for pid in all_processes():
        with suppress(OSError):  # it has ended meanwhile
            parents[pid] = parent(pid)

    def ours(pid: int) -> bool:
        return below is None or pid == below or (pid in parents and ours(parents[pid]))

    return [pid for pid in parents if ours(pid) and (not word or any(word in each for each in words(pid)))]


def all_processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def words(pid: int) -> list[str]:
    """The command line; none of a process that has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def descriptors() -> set[str]:
    """This process's open files, pipes and sockets, but for TCP: clients that other tests have had come and go."""
    found = {}
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # that of this listing
            found[descriptor] = os.readlink(f"/proc/self/fd/{descriptor}")
    tables = [Path(f"/proc/net/{name}").read_text() for name in ("tcp", "tcp6")]
    lines = [line.split() for table in tables for line in table.splitlines()]
    tcp = {f"socket:[{fields[9]}]" for fields in lines if len(fields) > 9}
    return {descriptor for descriptor, link in found.items() if link not in tcp}
