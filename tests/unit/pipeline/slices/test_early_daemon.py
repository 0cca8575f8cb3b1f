"""A daemon of Spark hands over to one that has imported already; real processes, without Spark."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bridge.pipeline.slices.early_daemon import ADDRESS, EarlyDaemon
from bridge.pipeline.slices.workers import MODULE
from tests.support import eventually
from tests.support.steps import ROOT
from tests.support.waits import WAIT

LIGHT = "tests.unit.pipeline.slices.light_daemon"

TAKES = """
import json, os, resource, socket, sys
from bridge.pipeline.slices.early_daemon import take_over
if take_over(socket.socket(fileno=int(sys.argv[1])), lambda: None):
    more, files = sys.stdin.readline(), resource.getrlimit(resource.RLIMIT_NOFILE)
    print(json.dumps([dict(os.environ), sys.argv[1:], sys.path, files, more]), flush=True)
"""
HANDS_OVER = """
import resource, sys
from bridge.pipeline.slices.early_daemon import hand_over
resource.setrlimit(resource.RLIMIT_NOFILE, (321, 321))
sys.path.append("/of/spark")
print(hand_over(sys.argv.pop(1)), flush=True)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """One whose path a socket's address can have."""
    with tempfile.TemporaryDirectory() as short:
        yield Path(short)


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)


@contextmanager
def early(folder: Path, module: str = LIGHT) -> Iterator[EarlyDaemon]:
    process = EarlyDaemon(module, folder)
    try:
        yield process
    finally:
        process.close()
        eventually(lambda: not alive(process.pid), WAIT, what="the early daemon ends")


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@contextmanager
def daemon(folder: Path, address: str, module: str = LIGHT) -> Iterator[subprocess.Popen[bytes]]:
    """As Spark starts one, until its standard input is closed."""
    environment = os.environ | {
        ADDRESS: address,
        "PYTHON_UNIX_DOMAIN_ENABLED": "true",
        "PYTHON_WORKER_FACTORY_SOCK_DIR": str(folder),
    }
    command = [sys.executable, "-m", module, "pyspark.worker"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as process:
        yield process
        process.communicate(timeout=WAIT)


def listening(process: subprocess.Popen[bytes]) -> int:
    """The process that listens where the daemon says that workers can be asked for."""
    assert process.stdout is not None
    (length,) = struct.unpack("!i", process.stdout.read(4))
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(process.stdout.read(length).decode())
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[0])


def test_sparks_daemon_hands_over_and_ends_with_the_early_one(folder: Path) -> None:
    with early(folder, MODULE) as ready:
        with daemon(folder, ready.address, MODULE) as process:
            assert listening(process) == ready.pid
        assert process.returncode == 0
        eventually(lambda: not alive(ready.pid), WAIT, what="Spark ends the early daemon")
        assert list(folder.iterdir()) == []


def test_a_second_daemon_of_spark_serves_by_itself(folder: Path) -> None:
    with early(folder) as ready, daemon(folder, ready.address) as first:
        assert listening(first) == ready.pid
        with daemon(folder, ready.address) as second:
            assert listening(second) == second.pid


@pytest.mark.parametrize("address", ["", "/nowhere/daemon"])
def test_a_daemon_serves_by_itself_where_nobody_listens(folder: Path, address: str) -> None:
    with daemon(folder, address) as process:
        assert listening(process) == process.pid


def test_a_daemon_serves_by_itself_when_the_early_one_was_killed(folder: Path) -> None:
    with early(folder) as ready:
        ready.kill()
        eventually(lambda: not alive(ready.pid), WAIT, what="the early daemon ends")
        with daemon(folder, ready.address) as process:
            assert listening(process) == process.pid


def test_a_daemon_serves_by_itself_when_the_early_one_ends_before_it_takes_over(folder: Path) -> None:
    address = str(folder / "daemon")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(1)
        with daemon(folder, address) as process:
            connection, _ = listener.accept()
            with connection:
                assert connection.recv(1)
            assert listening(process) == process.pid


@pytest.mark.parametrize("half", [b"", b"\0", b'\0{"environment": {}'])
def test_the_early_daemon_ends_without_a_word_when_the_one_that_came_has_ended(
    folder: Path, capfd: pytest.CaptureFixture[str], half: bytes
) -> None:
    with early(folder) as ready:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(ready.address)
            connection.sendall(half)
        eventually(lambda: not alive(ready.pid), WAIT, what="the early daemon ends")
    assert capfd.readouterr().err == ""


def test_the_early_daemon_begins_as_spark_begins_its_own(folder: Path) -> None:
    """What a worker prints would be lost without the second one, and threads would run when it is forked."""
    with early(folder) as ready:
        environment = Path(f"/proc/{ready.pid}/environ").read_text().split("\0")
    assert {"PYTHONHASHSEED=0", "PYTHONUNBUFFERED=YES", "OMP_NUM_THREADS=1"} <= {*environment}


@pytest.mark.parametrize("end", [EarlyDaemon.close, EarlyDaemon.kill])
def test_the_early_daemon_ends_when_it_is_not_wanted(
    folder: Path, end: Callable[[EarlyDaemon], None]
) -> None:
    with early(folder) as ready:
        assert alive(ready.pid)
        end(ready)
        eventually(lambda: not alive(ready.pid), WAIT, what="the early daemon ends")


def test_the_early_daemon_has_all_that_spark_gave(folder: Path) -> None:
    address = str(folder / "daemon")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(1)
        takes = subprocess.Popen(
            [sys.executable, "-c", TAKES, str(listener.fileno())],
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
            env=os.environ | {"ONLY": "early"},
        )
    environment = os.environ | {"OF_SPARK": "ü" * 50_000}
    with (
        takes,
        subprocess.Popen(
            [sys.executable, "-c", HANDS_OVER, address, "pyspark.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        ) as hands_over,
    ):
        output, _ = hands_over.communicate(b"of Spark\n", timeout=WAIT)
    told, handed = output.decode().splitlines()
    given, arguments, path, files, read = json.loads(told)
    assert given == environment
    assert arguments == ["pyspark.worker"]
    assert path[-1] == "/of/spark"
    assert files == [321, 321]
    assert read == "of Spark\n"
    assert handed == "True"
