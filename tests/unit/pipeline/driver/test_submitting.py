"""What the start of Spark has on a disk where files can't be in memory: who may read it, and when it is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest
from pyspark import java_gateway

from bridge.pipeline.driver import submitting

SECRET = "planted-b01dface"
SETTINGS = {
    "spark.master": "local[1]",
    "spark.hadoop.fs.s3a.secret.key": SECRET,
    "spark.driver.extraJavaOptions": f"-Dvault.password={SECRET}",
}
STARTS = """
import os, sys, threading
from pathlib import Path
from pyspark import java_gateway
from bridge.pipeline.driver import main as driver, jobs, submitting

folder = Path(sys.argv[2])

def launched(**_):
    print(*sorted(each.name for each in folder.iterdir()), flush=True)
    threading.Event().wait()

def refused(name):
    raise OSError("no memory files")

os.memfd_create = refused
java_gateway.launch_gateway = launched

async def drive(output):
    import asyncio
    settings = {"spark.hadoop.fs.s3a.secret.key": "planted-b01dface"}
    start = threading.Thread(target=submitting.start, args=(settings, "", folder, "tag"), daemon=True)
    start.start()
    await asyncio.to_thread(sys.stdin.read)

driver.run_driver = drive
driver.main()
"""


@pytest.fixture
def _on_disk_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a system without files in memory."""
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr(pyspark, "SparkContext", lambda **_: SimpleNamespace())


def started(monkeypatch: pytest.MonkeyPatch, folder: Path, launch: Callable[[], object]) -> None:
    """Starts Spark with another `launch_gateway`."""
    monkeypatch.setattr(java_gateway, "launch_gateway", lambda **_: launch())
    submitting.start(SETTINGS, "", folder, "tag")


@pytest.mark.usefixtures("_on_disk_only")
def test_nobody_else_can_read_it_and_it_is_gone_once_it_was_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: dict[str, tuple[int, bool]] = {}
    arguments: list[str] = []

    def launch() -> None:
        arguments.append(os.environ["PYSPARK_SUBMIT_ARGS"])
        for each in tmp_path.iterdir():
            seen[each.name] = each.stat().st_mode & 0o777, SECRET in each.read_text()

    before = os.umask(0)
    try:
        started(monkeypatch, tmp_path, launch)
    finally:
        os.umask(before)
    assert seen == {"spark.properties": (0o600, True), "spark.driver.extraJavaOptions": (0o600, True)}
    assert str(tmp_path / "spark.properties") in arguments[0]
    assert SECRET not in arguments[0]
    assert not [*tmp_path.iterdir()]


@pytest.mark.usefixtures("_on_disk_only")
def test_java_copies_options_to_no_file_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In /tmp/hsperfdata_*, where jps and jstat look, and where options outlive the one that is removed here."""
    files: list[str] = []
    started(monkeypatch, tmp_path, lambda: files.append((tmp_path / submitting.JAVA_OPTIONS[0]).read_text()))
    assert "-XX:+PerfDisableSharedMem" in files[0]


@pytest.mark.usefixtures("_on_disk_only")
def test_it_is_gone_when_spark_does_not_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def launch() -> None:
        assert [*tmp_path.iterdir()]
        raise RuntimeError("no Java")

    with pytest.raises(RuntimeError, match="no Java"):
        started(monkeypatch, tmp_path, launch)
    assert not [*tmp_path.iterdir()]


@pytest.mark.usefixtures("_on_disk_only")
def test_a_file_that_somebody_has_put_there_is_not_written_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.touch()
    (tmp_path / "spark.properties").symlink_to(other)
    with pytest.raises(FileExistsError):
        started(monkeypatch, tmp_path, lambda: pytest.fail("Spark is started"))
    assert other.read_text() == ""


@contextmanager
def driver(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A driver process in the middle of the start of Spark, with its file."""
    program = [sys.executable, "-c", STARTS, "info", str(folder)]
    pipes: dict[str, Any] = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.PIPE,
    }
    with subprocess.Popen(program, text=True, **pipes) as process:
        assert process.stderr is not None
        try:
            # What a driver prints is for its log, which is standard error.
            assert process.stderr.readline().split() == ["spark.properties"]
            assert SECRET in (folder / "spark.properties").read_text()
            yield process
        finally:
            process.kill()


def test_nothing_is_left_by_a_driver_that_is_terminated(tmp_path: Path) -> None:
    with driver(tmp_path) as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == -signal.SIGTERM
    assert not [*tmp_path.iterdir()]


def test_nothing_is_left_by_a_driver_that_is_told_to_end(tmp_path: Path) -> None:
    with driver(tmp_path) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0
    assert not [*tmp_path.iterdir()]
