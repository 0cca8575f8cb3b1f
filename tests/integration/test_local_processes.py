"""The processes of the embedded stack: nothing of them is left whatever ends it, and failures say what it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from bridge.local import LocalStack, LocalStackError, ManagedProcess, ProcessDied, WaitTimedOut, kafka_jars
from tests.support import eventually
from tests.support.messages import message_pattern
from tests.support.waits import WAIT

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]


def exists(pid: int) -> bool:
    """Whether the process runs; a zombie that nobody has reaped yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


_PARENT = """
import os, sys, time
from pathlib import Path
from bridge.local import LocalStack, ManagedProcess

directory = Path(sys.argv[1])
with LocalStack(directory) as stack:
    broker = stack.broker("alone")
    family = ManagedProcess("family", ["/bin/sh", "-c", "sleep 600 & echo $! > grandchild; wait"],
                            directory / "family.log", directory=directory)
    family.start()
    said = directory / "grandchild"
    family.wait_until(lambda: said.exists() and bool(said.read_text()), 60, "the grandchild runs")
    grandchild = said.read_text().strip()
    print(broker.process.pid, family.pid, grandchild, flush=True)
    {ending}
"""


@contextmanager
def stack_in_a_process(directory: Path, ending: str) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A Python process that runs a stack, and the ids of the processes that must not outlive it."""
    command = [sys.executable, "-W", "error", "-c", _PARENT.replace("{ending}", ending), str(directory)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True
    ) as parent:
        try:
            assert parent.stdout is not None
            pids = [int(pid) for pid in parent.stdout.readline().split()]
            assert len(pids) == 3, parent.communicate()[1]
            yield parent, pids
        finally:
            if parent.poll() is None:
                parent.kill()


@pytest.mark.parametrize(
    ("ending", "sent"),
    [
        pytest.param("", None, id="the block ends"),
        pytest.param("raise RuntimeError('oops')", None, id="an error"),
        pytest.param("sys.exit(3)", None, id="exit"),
        pytest.param("time.sleep(600)", signal.SIGINT, id="Ctrl-C"),
        pytest.param("time.sleep(600)", signal.SIGTERM, id="SIGTERM"),
        pytest.param("time.sleep(600)", signal.SIGKILL, id="SIGKILL"),
        pytest.param(
            "broker.process.pause(); print(flush=True); time.sleep(600)", signal.SIGKILL, id="SIGKILL, paused"
        ),
    ],
)
def test_nothing_outlives_its_parent(tmp_path: Path, ending: str, sent: signal.Signals | None) -> None:
    with stack_in_a_process(tmp_path, ending) as (parent, pids):
        if sent is not None:
            if "pause" in ending:
                assert parent.stdout is not None
                parent.stdout.readline()
            assert all(exists(pid) for pid in pids)
            os.kill(parent.pid, sent)
        parent.communicate(timeout=60)
    eventually(lambda: not any(exists(pid) for pid in pids), WAIT, what=f"processes {pids} are gone")


def test_a_wait_fails_at_once_with_the_log_of_what_died(tmp_path: Path) -> None:
    doomed = ManagedProcess("doomed", ["/bin/sh", "-c", "echo no disk left; exit 7"], tmp_path / "doomed.log")
    doomed.start()
    died = message_pattern("local.died", process="doomed", status=7)
    with pytest.raises(ProcessDied, match=f"(?s){died}.*no disk left.*it is up"):
        doomed.wait_until(lambda: False, 60, "it is up")
    doomed.stop()


def test_a_wait_fails_with_what_another_died_of(tmp_path: Path) -> None:
    needed = ManagedProcess("needed", ["/bin/sh", "-c", "echo bad luck; kill -9 $$"], tmp_path / "needed.log")
    waiting = ManagedProcess("waiting", ["sleep", "600"], tmp_path / "waiting.log")
    needed.start()
    waiting.start()
    with pytest.raises(ProcessDied, match=r"(?s)needed was killed by SIGKILL.*bad luck"):
        waiting.wait_until(lambda: False, 60, "it is up", needs=[needed])
    for process in (needed, waiting):
        process.stop()


def test_a_wait_that_takes_too_long_says_the_last_failure(tmp_path: Path) -> None:
    slow = ManagedProcess("slow", ["/bin/sh", "-c", "echo warming up; sleep 600"], tmp_path / "slow.log")
    slow.start()

    def refuse() -> bool:
        assert "warming up" in slow.log_tail()
        raise ConnectionError("refused")

    why = "ConnectionError: refused"
    late = message_pattern("local.timed_out", seconds=0.5, what="it is up", why=why)
    with pytest.raises(WaitTimedOut, match=f"(?s){late}.*warming"):
        slow.wait_until(refuse, 0.5, "it is up")
    assert slow.running
    slow.kill()
    assert slow.exit_status == -signal.SIGKILL
    assert not slow.died(), "a kill that was asked for is no death"


def test_a_restart_shows_the_log_of_this_run_only(tmp_path: Path) -> None:
    process = ManagedProcess("again", ["/bin/sh", "-c", "echo run of $$; sleep 600"], tmp_path / "again.log")

    def wrote(line: str) -> bool:
        return process.log_tail() == line

    for _ in range(2):
        process.start()
        expected = f"run of {process.pid}"
        process.wait_until(partial(wrote, expected), 60, "it wrote a line")
        process.stop()
    assert len((tmp_path / "again.log").read_text().splitlines()) == 2


def test_a_broker_that_cannot_start_shows_why(new_stack: Callable[[], LocalStack]) -> None:
    with pytest.raises(ProcessDied, match=r"(?s)broker broken ended.*num\.io\.threads"):
        new_stack().broker("broken", properties={"num.io.threads": "none"})


@pytest.fixture
def path_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """A PATH with nothing but the given scripts, and no homes or caches that would help out."""
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.setenv("MIRROR_BRIDGE_CACHE", str(tmp_path / "cache"))
    for home in ("JAVA_HOME", "MAVEN_HOME"):
        monkeypatch.delenv(home, raising=False)

    def install(**scripts: str) -> Path:
        for name, script in scripts.items():
            (tools / name).write_text(f"#!/bin/sh\n{script}\n")
            (tools / name).chmod(0o755)
        return tools

    return install


JAVA_17 = "echo 'openjdk version \"17.0.1\"' >&2"


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        pytest.param({}, "No Java found: install a JDK 17 or newer, or set JAVA_HOME", id="no JDK"),
        pytest.param(
            {"java": "echo 'java version \"1.8.0_402\"'"}, "is Java 8: install a JDK 17", id="old JDK"
        ),
        pytest.param(
            {"java": "echo 'openjdk version \"11.0.2\"'"}, "is Java 11: install a JDK 17", id="JDK 11"
        ),
        pytest.param({"java": JAVA_17}, "No Maven found: install Maven 3.6 or newer", id="no Maven"),
        pytest.param(
            {"java": JAVA_17, "mvn": "echo '[ERROR] the network is down'; exit 1"},
            "Maven could not fetch the jars of Kafka 4.3.1: the network is down",
            id="Maven fails",
        ),
    ],
)
def test_a_missing_tool_is_one_line(
    path_with: Callable[..., Path], tmp_path: Path, tools: dict[str, str], message: str
) -> None:
    path_with(**tools)
    with pytest.raises(LocalStackError) as refused:
        LocalStack(tmp_path).start_clusters()
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not [path for path in (tmp_path / "cache").glob("kafka-*") if path.is_dir()]


def test_jars_of_an_impossible_version_are_refused() -> None:
    with pytest.raises(LocalStackError, match=r"'2\.8' is not of the form"):
        kafka_jars("2.8")
