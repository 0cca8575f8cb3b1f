"""Golden bytes with something wrong, thousands of them: nothing hangs, nothing takes memory without end, nothing reads
behind the end, and nothing is raised but what its callers expect. `make soak FORMS=fuzz` runs each for ten minutes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import ROOT
from tests.support.forms import examples

SECONDS = float(os.environ.get("MIRROR_BRIDGE_FUZZ_SECONDS", examples(0.4, 2.0)))
"""Of each kind."""
SEED = os.environ.get("MIRROR_BRIDGE_FUZZ_SEED") or ("1" if SECONDS < 60 else str(time.time_ns()))
"""The same for every short run: what fails there fails again."""
HANGS, STARTS = 30.0, 120.0
"""Seconds after which a case hangs, and for the first one, which compiles loops."""

Record = Callable[[str, object], None]
"""Into the report, which `make soak` reads: what passing tests print is not shown."""


def test_answers_of_brokers(tmp_path: Path, record_property: Record) -> None:
    record_property("ran", fuzz("wire", tmp_path))


def test_batches(tmp_path: Path, record_property: Record) -> None:
    record_property("ran", fuzz("batches", tmp_path))


def test_state_topics(tmp_path: Path, record_property: Record) -> None:
    record_property("ran", fuzz("state", tmp_path))


@pytest.mark.skipif(sys.platform != "linux", reason="a server in the way of Linux")
def test_http(tmp_path: Path, record_property: Record) -> None:
    record_property("ran", fuzz("http", tmp_path))


def fuzz(kind: str, directory: Path) -> str:
    """Returns what was run."""
    note, output = directory / "case", directory / "output"
    note.touch()
    command = [sys.executable, "-m", "tests.unit.kafka.fuzz", kind, str(SECONDS), SEED, str(note)]
    with output.open("w") as out, subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out) as running:
        last, since = "", time.monotonic()
        while running.poll() is None:
            now, at = time.monotonic(), note.read_text()
            if at != last:
                last, since = at, now
            elif now - since > (HANGS if last else STARTS):
                running.kill()
                pytest.fail(f"{kind}, seed {SEED}, hangs in case {last}")
            try:
                running.wait(0.2)
            except subprocess.TimeoutExpired:
                continue
    assert running.returncode == 0, (
        f"{kind}, seed {SEED}, ended with {running.returncode} in case {last}: {output.read_text()[-4000:]}"
    )
    return output.read_text().splitlines()[-1]
