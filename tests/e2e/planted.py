"""Secrets that a test plants, and eyes on every place where one could come up: each time one is seen is kept."""

from __future__ import annotations

import base64
import os
import re
import stat
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from fnmatch import translate
from pathlib import Path

from tests.support.background import in_background
from tests.support.processes import all_processes, words

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
"""Seconds between two searches."""
_PAUSE_OF_SEARCH = 3
"""Times what the search took: what is searched has to run."""
_BEGINNING = 8
"""Characters that most secrets of a test have in common."""
_CONTROL = """
import base64, os, shutil, sys
value, *folders = sys.argv[1:]
made = [os.path.join(folder, f"planted-control-{os.getpid()}") for folder in folders]
try:
    for folder in made:
        os.mkdir(folder)
        forms = {"plain": value.encode()}
        for before in range(3):
            forms[f"base64-{before}"] = base64.b64encode(b"x" * before + value.encode() + b"x")
        for name, form in forms.items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(b"before " + form + b" behind")
    print(*made, sep=chr(10), flush=True)
    sys.stdin.read()
finally:
    for folder in made:
        shutil.rmtree(folder, ignore_errors=True)
"""


class Place:
    """A folder whose files are searched, but not those with names of `without` (patterns), nor folders of such names.
    `new`: only what is made or changed there from now on, and belongs to the user of the test, as all that its
    processes make does."""

    def __init__(self, folder: Path, *without: str, new: bool = False) -> None:
        self.folder, self._new = folder, new
        self._without = re.compile("|".join(map(translate, without)) or "(?!)")
        self._before = {entry.path: _version(entry) for entry in self._entries()} if new else {}

    def files(self) -> Iterator[str]:
        """Files and folders that vanish meanwhile are none."""
        for entry in self._entries():
            with suppress(OSError):
                if not self._new or self._is_new(entry):
                    yield from self._below(entry)

    def _is_new(self, entry: os.DirEntry[str]) -> bool:
        if entry.stat(follow_symlinks=False).st_uid != os.getuid():
            return False
        if entry.path not in self._before:
            return True
        # What others do in a folder that was there before is no affair of ours.
        return entry.is_file(follow_symlinks=False) and self._before[entry.path] != _version(entry)

    def _entries(self) -> Iterator[os.DirEntry[str]]:
        with suppress(OSError), os.scandir(self.folder) as entries:
            yield from (entry for entry in entries if not self._left_out(entry.name))

    def _below(self, entry: os.DirEntry[str]) -> Iterator[str]:
        if not entry.is_dir(follow_symlinks=False):
            yield entry.path
            return
        for place, folders, names in os.walk(entry.path):  # often: a Path would take longer
            folders[:] = [name for name in folders if not self._left_out(name)]
            yield from (os.path.join(place, name) for name in names if not self._left_out(name))

    def _left_out(self, name: str) -> bool:
        return self._without.match(name) is not None


def _version(entry: os.DirEntry[str]) -> tuple[int, int] | None:
    with suppress(OSError):
        known = entry.stat(follow_symlinks=False)
        return known.st_ino, known.st_mtime_ns
    return None


class Planted:
    def __init__(self, secrets: Mapping[str, str]) -> None:
        """By what they are for."""
        self.secrets = secrets
        self._names = {form: name for name, secret in secrets.items() for form in _forms(secret.encode())}
        self._any = re.compile(b"|".join(re.escape(form) for form in self._names))
        beginnings = {secret[:_BEGINNING] for secret in secrets.values()}
        self._beginnings = {form for each in beginnings for form in _forms(each.encode())}
        """Of all forms. To look for them, few as they are, takes a fifth of the time that the forms themselves take."""
        self._lock = threading.Lock()
        self.places: defaultdict[str, set[str]] = defaultdict(set)
        """By secret, where it was seen."""
        self._read: set[tuple[object, ...]] = set()
        """Files and processes as they were searched: what has not changed is not read again."""

    def search(self, where: str, data: bytes | str) -> None:
        searched = data.encode() if isinstance(data, str) else data
        if not any(beginning in searched for beginning in self._beginnings):
            return
        for form in set(self._any.findall(searched)):
            with self._lock:
                self.places[self._names[form]].add(where)

    def search_files(self, *places: Place) -> None:
        for path in (path for place in places for path in place.files()):
            with suppress(OSError):
                known = os.stat(path)
                version = (path, known.st_ino, known.st_size, known.st_mtime_ns)
                if stat.S_ISREG(known.st_mode) and version not in self._read:
                    self.search(f"file {path}", Path(path).read_bytes())
                    self._read.add(version)

    def search_processes(self) -> None:
        """Command lines and environments of all processes but this one."""
        for each in all_processes():
            if each == os.getpid():
                continue
            with suppress(OSError):
                # A process that has become another program has another command line.
                with open(f"/proc/{each}/cmdline", "rb", buffering=0) as file:
                    command = file.readall()
                # Those of the kernel, and what has ended, have no command line.
                if not command or (each, command) in self._read:
                    continue
                for what in ("cmdline", "environ"):
                    data = Path(f"/proc/{each}/{what}").read_bytes()
                    self.search(f"{what} of {' '.join(words(each)[-3:])}", data)
                self._read.add((each, command))

    def watching(self, *places: Place) -> AbstractContextManager[None]:
        """Searches processes and files again and again, for the time of the block."""

        def watch(end: threading.Event) -> None:
            took = 0.0
            while not end.wait(min(max(_SHORTEST_PAUSE, _PAUSE_OF_SEARCH * took), _LONGEST_PAUSE)):
                began = time.monotonic()
                self.search_processes()
                self.search_files(*places)
                took = time.monotonic() - began

        return in_background(watch, "watching")


@contextmanager
def control(value: str, folders: Sequence[Path]) -> Iterator[Sequence[str]]:
    """A process that has the value on its command line, in its environment and in files below each of these folders,
    as it is and as Base64, for the time of the block. Gives the files' names: a search that works finds all of it."""
    command = [sys.executable, "-c", _CONTROL, value, *map(str, folders)]
    environment = {**os.environ, "PLANTED_CONTROL": value}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        made = [child.stdout.readline().rstrip("\n") for _ in folders]
        assert all(made), "the control ended"
        try:
            yield [
                f"{folder}/{name}"
                for folder in made
                for name in ("plain", *(f"base64-{n}" for n in range(3)))
            ]
        finally:
            child.stdin.close()
            child.wait(60)
    assert not any(map(os.path.exists, made))


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


def _forms(secret: bytes) -> Iterable[bytes]:
    """As it is, and inside of Base64, wherever it begins there."""
    yield secret
    for before in range(3):
        whole = base64.b64encode(bytes(before) + secret)
        # What depends on bytes around it is left out.
        yield whole[4 * (before > 0) : len(whole) - 4]
