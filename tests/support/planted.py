"""Secrets that a test plants, and eyes on every place where one could come up: each time one is seen is kept."""

from __future__ import annotations

import base64
import os
import re
import stat
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

_PAUSE = 0.05


class Planted:
    def __init__(self, secrets: Mapping[str, str]) -> None:
        """By what they are for."""
        self._names = {form: name for name, secret in secrets.items() for form in _forms(secret.encode())}
        self._any = re.compile(b"|".join(re.escape(form) for form in self._names))
        self._lock = threading.Lock()
        self.places: defaultdict[str, set[str]] = defaultdict(set)
        """By secret, where it was seen."""
        self._read: set[tuple[object, ...]] = set()
        """Files and processes as they were searched: what has not changed is not read again."""

    def search(self, where: str, data: bytes | str) -> None:
        for form in set(self._any.findall(data.encode() if isinstance(data, str) else data)):
            with self._lock:
                self.places[self._names[form]].add(where)

    def search_files(self, *folders: Path) -> None:
        """Files and folders that vanish meanwhile are none."""
        for folder in folders:
            for place, _, names in os.walk(folder):
                for path in (os.path.join(place, name) for name in names):  # often: a Path would take longer
                    with suppress(OSError):
                        known = os.stat(path)
                        version = (path, known.st_ino, known.st_size, known.st_mtime_ns)
                        if stat.S_ISREG(known.st_mode) and version not in self._read:
                            self.search(f"file {path}", Path(path).read_bytes())
                            self._read.add(version)

    def search_processes(self) -> None:
        """Command lines and environments of all processes but this one."""
        for each in _all_processes():
            if each == os.getpid():
                continue
            with suppress(OSError):
                # A process that has become another program has another command line.
                with open(f"/proc/{each}/cmdline", "rb", buffering=0) as file:
                    command = file.readall()
                if (each, command) in self._read:
                    continue
                for what in ("cmdline", "environ"):
                    data = Path(f"/proc/{each}/{what}").read_bytes()
                    self.search(f"{what} of {' '.join(_words(each)[-3:])}", data)
                self._read.add((each, command))

    @contextmanager
    def watching(self, *folders: Path) -> Iterator[None]:
        """Searches processes and files again and again, for the time of the block."""
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(_PAUSE):
                self.search_processes()
                self.search_files(*folders)

        thread = threading.Thread(target=watch, name="watching")
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def processes(below: int | None = None, word: str = "") -> list[int]:
    """Ids of all processes, or of those below one; `word` is in their command line."""
    parents: dict[int, int] = {}
    for each in _all_processes():
        with suppress(OSError):  # it has ended meanwhile
            parents[each] = int(Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()[1])

    def ours(pid: int) -> bool:
        return below is None or pid == below or (pid in parents and ours(parents[pid]))

    return [pid for pid in parents if ours(pid) and (not word or any(word in each for each in _words(pid)))]


def _all_processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def listening(pid: int) -> set[str]:
    """The addresses that a process listens on, as the kernel writes them: hexadecimal, without ports."""
    sockets = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            sockets.add(str(each.readlink()))
    rows = [
        row.split()
        for table in ("tcp", "tcp6")
        for row in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
    ]
    return {row[1].partition(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets}


def _words(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def _forms(secret: bytes) -> Iterable[bytes]:
    """As it is, and inside of Base64, wherever it begins there."""
    yield secret
    for before in range(3):
        whole = base64.b64encode(bytes(before) + secret)
        # What depends on bytes around it is left out.
        yield whole[4 * (before > 0) : len(whole) - 4]
