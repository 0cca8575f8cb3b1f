"""`make test` runs its steps in their order, says which have failed, and leaves nothing behind."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bridge.local import eventually
from tests import ROOT
from tests.support import steps
from tests.support.lanes import TOGETHER
from tests.support.steps import Ended, Step
from tests.support.waits import WAIT

ROOMS = "bridge/dedicated"


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(steps, "LOGS", tmp_path)
    return tmp_path


def step(name: str, code: str, *after: str) -> Step:
    return Step(name, (sys.executable, "-c", code), after)


@pytest.mark.parametrize(("form", "rooms"), [("short", []), ("all", []), ("all", [ROOMS])])
def test_each_step_comes_after_steps_that_there_are(form: str, rooms: list[str]) -> None:
    planned = steps.plan(form, rooms, "")
    names = [one.name for one in planned]
    assert all({*one.after, *one.behind} <= set(names[:place]) for place, one in enumerate(planned))
    markers = [one for one in planned if any("not long" in word for word in one.command)]
    tests = [one for one in planned if "pytest" in shlex.join(one.command)]
    assert markers == (tests if form == "short" else [])


@pytest.mark.parametrize(
    ("slower", "test", "wait", "lanes"),
    [(0.5, "120", "60", "5"), (1.0, "120", "60", "5"), (2.0, "240", "120", "3")],
)
def test_a_hang_costs_two_minutes_and_more_only_where_the_machine_is_slow(
    slower: float, test: str, wait: str, lanes: str
) -> None:
    planned = [one for one in steps.plan("short", [], "", slower) if "pytest" in shlex.join(one.command)]
    assert len(planned) == 2
    for one in planned:
        assert f"--timeout={test}" in one.command
        assert one.environment["MIRROR_BRIDGE_TEST_WAIT"] == wait
    assert f"--numprocesses={lanes}" in planned[-1].command


def test_the_slowest_tests_of_all_steps_come_first_and_the_pace_of_the_machine_last(logs: Path) -> None:
    planned = [step("one", ""), step("two", "")]
    (logs / "one.log").write_text("3.00s call     tests/unit/test_one.py::test_a\n0.5s not of a test\n")
    (logs / "two.log").write_text("12.50s setup    tests/e2e/test_two.py::test_b[x y]\n")
    said = steps.summary("short", planned, [Ended(one, 0, 60.0, 90.0) for one in planned], 120.0, [0.7, 0.7])
    lines = [line.strip() for line in said.splitlines() if line]
    assert lines[0].split() == ["12.5", "s", "tests/e2e/test_two.py::test_b[x", "y]", "(setup)"]
    assert lines[1].split() == ["3.0", "s", "tests/unit/test_one.py::test_a", "(call)"]
    pace = next(line for line in lines if line.startswith("this machine"))
    assert "2.00 times" in pace
    assert pace.endswith("60 s at normal speed")


def test_what_one_lane_takes_together_is_there() -> None:
    """A file that is renamed would start what it shares for itself."""
    assert [file for file in TOGETHER if not (ROOT / file).is_file()] == []


def test_what_comes_after_a_failure_is_not_run_and_the_rest_is(
    logs: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    planned = [
        step("one", "print('built')"),
        step("two", "raise SystemExit('no such jar')", "one"),
        step("three", "print('never')", "two"),
        step("four", "print('checked')", "one"),
        replace(step("five", "print('checked too')"), behind=["two"]),
    ]
    ended = {result.step.name: result.status for result in steps.run(planned)}
    assert ended == {"one": 0, "two": 1, "four": 0, "five": 0}
    shown = capfd.readouterr().out
    assert "no such jar" in shown
    assert "checked" not in shown
    assert (logs / "four.log").read_text() == "checked\n"


def test_a_run_that_is_terminated_ends_its_steps(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    code = (
        f"import os, pathlib, time; pathlib.Path({str(pid)!r}).write_text(str(os.getpid())); time.sleep(600)"
    )
    program = (
        "import sys; from pathlib import Path; from tests.support import steps;"
        f"steps.LOGS = Path({str(tmp_path)!r});"
        f"steps.plan = lambda *_: [steps.Step('long', (sys.executable, '-c', {code!r}))];"
        "sys.exit(steps.main(['short'], {}))"
    )
    running = subprocess.Popen([sys.executable, "-c", program], cwd=steps.ROOT)
    try:
        child = eventually(lambda: int(pid.read_text()), WAIT, what="the step runs")
        running.terminate()
        assert running.wait(WAIT) == 128 + signal.SIGTERM
    finally:
        running.kill()
        running.wait()
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
