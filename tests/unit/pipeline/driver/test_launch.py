"""The driver as its launcher sees it: no Java is found out before, and one that ends again never looks well."""

from __future__ import annotations

import asyncio
import logging
import re
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from bridge.model.copying import PipelineState
from bridge.pipeline.driver import launch
from bridge.pipeline.driver.launch import DriverPipeline
from bridge.pipeline.driver.spark_problem import java_problem
from tests.support.messages import message, message_pattern
from tests.support.waiting import until
from tests.unit.pipeline.values import copied
from tests.unit.pipeline.values import spec as any_spec


def java(folder: Path, text: str, status: int = 0) -> Path:
    """A home with a `java` that says this."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{text}' >&2\nexit {status}\n")
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ('openjdk version "17.0.9" 2023-10-17', None),
        ('openjdk version "21" 2023-09-19', None),
        ('java version "1.8.0_392"', "is Java 8"),
        ('openjdk version "11.0.21" 2023-10-17', "is Java 11"),
        ("cannot open shared object file", "-version` could not be read"),
    ],
)
def test_a_java_that_is_too_old_is_named_with_where_it_was_found(
    tmp_path: Path, text: str, wrong: str | None
) -> None:
    home = java(tmp_path / "jdk", text)
    for environment in ({"JAVA_HOME": str(home)}, {"PATH": str(home / "bin")}):
        problem = java_problem(environment)
        if wrong is None:
            assert problem is None
            continue
        assert problem is not None
        assert wrong in problem
        assert f"JAVA_HOME is {environment.get('JAVA_HOME', 'not set')}, PATH is" in problem
        assert "install a JDK 17 or newer" in problem


def test_no_java_at_all_and_a_java_home_that_is_wrong(tmp_path: Path) -> None:
    problem = java_problem({"PATH": str(tmp_path)})
    assert problem is not None
    where = f"JAVA_HOME is not set, PATH is {tmp_path}"
    assert problem.startswith(message("spark.no_java", where=where))
    good = java(tmp_path / "jdk", 'openjdk version "17"')
    problem = java_problem({"JAVA_HOME": str(tmp_path), "PATH": str(good / "bin")})
    assert problem is not None, "Spark takes what JAVA_HOME says"
    assert message("spark.java_broken", java=f"{tmp_path}/bin/java") in problem


def test_a_driver_imports_nothing_of_what_only_slices_need() -> None:
    """numba takes more time than all else that it imports, and more memory."""
    ask = f"import sys, {launch.DRIVER_MODULE}; print('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", ask], check=True, capture_output=True).stdout == b"False\n"


def play(
    script: Callable[[DriverPipeline], Awaitable[None]],
    module: str,
    now: Callable[[], float] = time.monotonic,
) -> None:
    async def run() -> None:
        pipeline = DriverPipeline(any_spec(), module, now)
        try:
            async with asyncio.timeout(30):
                await script(pipeline)
        finally:
            await pipeline.stop()

    asyncio.run(run())


def test_without_java_copying_fails_for_good_and_no_driver_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    seen: set[PipelineState] = set()

    async def script(pipeline: DriverPipeline) -> None:
        while pipeline.status.failure is None:
            seen.add(pipeline.status.state)
            await asyncio.sleep(0.01)
        assert pipeline.status.failure.startswith("there is no Java for Spark: ")
        assert (pipeline.status.state, pipeline.status.failure_code) == (PipelineState.FAILED, "no_java")
        assert (pipeline.pid, pipeline.status.restarts, list(pipeline.status.errors)) == (None, 0, [])

    with caplog.at_level(logging.INFO):
        play(script, launch.DRIVER_MODULE)
    assert seen <= {PipelineState.STARTING}
    assert len([record for record in caplog.records if record.name == launch.__name__]) == 1


ENDS = """
import pathlib
import sys
from bridge.pipeline.driver.frames import pack_status
from bridge.model.copying import PipelineState, PipelineStatus
sys.stdout.buffer.write(pack_status(PipelineStatus()))
sys.stdout.buffer.flush()
sys.stdin.readline()
ended = pathlib.Path(__file__).with_name("ended")
if {copies_again} and ended.exists():
    sys.stdout.buffer.write(pack_status(PipelineStatus(PipelineState.COPYING)))
    sys.stdout.buffer.flush()
    while "stop" not in sys.stdin.readline():
        pass
ended.touch()
sys.exit(3)
"""


def ending(folder: Path, monkeypatch: pytest.MonkeyPatch, *, copies_again: bool) -> str:
    """A driver that ends as soon as it has its spec; `copies_again`: its second process copies until it is stopped."""
    (folder / "ending_driver.py").write_text(ENDS.format(copies_again=copies_again))
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    monkeypatch.setattr(launch, "FIRST_BACKOFF", 0.05)
    monkeypatch.setattr(launch, "MOST_BACKOFF", 0.1)
    return "ending_driver"


def test_a_driver_that_ends_again_and_again_never_looks_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def script(pipeline: DriverPipeline) -> None:
        await until(lambda: bool(pipeline.status.errors))
        while pipeline.status.restarts < 3:
            assert pipeline.status.state is PipelineState.RETRYING
            (error,) = pipeline.status.errors
            assert re.fullmatch(message_pattern("copying.driver_restarts", how="exit status 3"), error)
            await asyncio.sleep(0.001)

    play(script, ending(tmp_path, monkeypatch, copies_again=False))


def test_a_driver_that_copies_again_is_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(pipeline: DriverPipeline) -> None:
        await until(lambda: bool(pipeline.status.errors))
        await until(lambda: pipeline.status.state is PipelineState.COPYING)
        assert (list(pipeline.status.errors), pipeline.status.restarts) == ([], 1)

    play(script, ending(tmp_path, monkeypatch, copies_again=True))


HANGS = """
import sys
from bridge.pipeline.driver.frames import pack_alive, pack_status
from bridge.model.copying import PipelineState, PipelineStatus
sys.stdin.readline()  # its spec
for line in sys.stdin:  # an assignment makes it say something
    if "orders" in line:
        sys.stdout.buffer.write(pack_status(PipelineStatus(PipelineState.COPYING, layout=1)))
    elif "stop" in line:
        break
    else:
        sys.stdout.buffer.write(pack_alive())
    sys.stdout.buffer.flush()
"""


def test_a_driver_that_hangs_is_not_said_to_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, its connector was `copying` for as long as it hung."""
    (tmp_path / "hanging_driver.py").write_text(HANGS)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    seconds = 1_000.0

    async def script(pipeline: DriverPipeline) -> None:
        nonlocal seconds

        def reported() -> tuple[PipelineState, list[str]]:
            return pipeline.status.state, list(pipeline.status.errors)

        def silent(age: int) -> tuple[PipelineState, list[str]]:
            text = f"no report of the driver (process {pipeline.pid}) for {age} s: whether it copies is not known"
            return PipelineState.SILENT, [text]

        await until(lambda: pipeline.pid is not None)
        seconds += launch.SILENT_START_SECONDS
        assert reported() == (PipelineState.STARTING, [])
        seconds += 1
        assert reported() == silent(121)
        pipeline.assign([copied()])
        await until(lambda: reported() == (PipelineState.COPYING, []))
        seconds += 34
        assert reported() == silent(34)
        assert pipeline.status.layout == 1
        seconds += 1
        assert reported() == silent(35)
        pipeline.assign([])
        await until(lambda: reported() == (PipelineState.COPYING, []))

    play(script, "hanging_driver", lambda: seconds)


CLAIMS = """
import itertools
import sys
from bridge.pipeline.driver.frames import pack_status, read_line
from bridge.model.copying import PipelineState, PipelineStatus
sys.stdin.readline()  # its spec
claimed = ["orders", "payments"]
for line in itertools.chain(["{}"], sys.stdin):
    message = read_line(line)
    if "stop" in message:
        break
    claimed = [topic for topic in claimed if topic not in message.get("release", ())]
    sys.stdout.buffer.write(pack_status(PipelineStatus(PipelineState.COPYING, claimed=claimed)))
    sys.stdout.buffer.flush()
"""


def test_a_driver_is_told_what_to_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "claiming_driver.py").write_text(CLAIMS)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])

    async def script(pipeline: DriverPipeline) -> None:
        await until(lambda: pipeline.status.claimed == ("orders", "payments"))
        pipeline.release(["payments"])
        await until(lambda: pipeline.status.claimed == ("orders",))

    play(script, "claiming_driver")
