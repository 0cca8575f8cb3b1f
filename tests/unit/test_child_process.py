"""A child process that is kept running: restarts and their pauses, the ways it ends, and that nothing of it is left."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from bridge.backoff import JITTER, Backoff
from bridge.child_process import (
    Callbacks,
    ChildProcess,
    Program,
    ending,
    how_ended,
    python_command,
    with_socket,
)
from tests.support.messages import message
from tests.support.processes import descriptors
from tests.support.waiting import until

FIRST, LONGEST = 0.01, 1.0
ECHOES = "import sys\nfor line in sys.stdin:\n    print(line, end='', flush=True)"
"""Ends with its input, and when it is killed."""
UNTIL_STOP = ECHOES + "\n    if line == 'stop\\n': sys.exit()"
DEAF = "import time\nprint('runs', flush=True)\ntime.sleep(600)"


class Owner:
    """Runs `text` as a child process, and keeps all that it hears of it."""

    def __init__(
        self,
        text: str,
        *,
        steady: float = 60.0,
        first: float = FIRST,
        limit: int = 1 << 16,
        command: list[str] | None = None,
        again: bool = True,
        before_start: Callable[[], Awaitable[bool]] | None = None,
        own_group: bool = False,
    ) -> None:
        self.pids: list[int] = []
        self.lines: list[str] = []
        self.endings: list[str] = []
        self.pauses: list[float] = []
        self._again = again
        program = Program(
            "the child",
            command or [sys.executable, "-c", text],
            process="driver",
            connector="c1",
            steady_seconds=steady,
            limit=limit,
            own_group=own_group,
        )
        callbacks = Callbacks(self._started, self._read, self._ended, before_start)
        self.child = ChildProcess(program, callbacks, Backoff(first, max(first, LONGEST)))

    def _started(self) -> None:
        assert self.child.pid is not None
        self.pids.append(self.child.pid)
        self.child.send(b"hello\n")

    async def _read(self, output: asyncio.StreamReader) -> None:
        while line := await output.readline():
            self.lines.append(line.decode().rstrip())

    def _ended(self, how: str, pause: float) -> bool:
        self.endings.append(how)
        self.pauses.append(pause)
        return self._again


def play(owner: Owner, script: Callable[[Owner], Awaitable[None]]) -> None:
    """Runs the script on the started child, stops it, and looks for what it has left behind."""

    async def run() -> None:
        owner.child.start()
        try:
            async with asyncio.timeout(30):
                await script(owner)
        finally:
            await owner.child.stop(b"stop\n", 0.0)
        assert owner.child.pid is None
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert not others

    before = descriptors()
    asyncio.run(run())
    assert not [pid for pid in owner.pids if Path(f"/proc/{pid}").exists()], (
        "a zombie, or a process that runs"
    )
    assert descriptors() <= before


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "bridge.child_process"]


def test_it_is_restarted_with_growing_pauses_and_each_life_is_sent_its_first_message() -> None:
    async def script(owner: Owner) -> None:
        await until(lambda: len(owner.endings) == 4)

    owner = Owner("import sys\nprint(input(), flush=True)\nsys.exit(3)")
    play(owner, script)
    assert owner.endings[:4] == ["exit status 3"] * 4
    assert owner.lines[:4] == ["hello"] * 4
    assert len(set(owner.pids)) == len(owner.pids)
    for pause, middle in zip(owner.pauses[:4], (FIRST, 2 * FIRST, 4 * FIRST, 8 * FIRST), strict=True):
        assert pause == pytest.approx(middle, rel=JITTER)


def test_pauses_begin_again_after_a_steady_life() -> None:
    async def script(owner: Owner) -> None:
        await until(lambda: len(owner.pauses) == 4)

    owner = Owner("", steady=0.0)
    play(owner, script)
    assert max(owner.pauses) <= FIRST * (1 + JITTER)


def test_it_is_not_restarted_when_its_owner_says_so() -> None:
    async def script(owner: Owner) -> None:
        await until(lambda: bool(owner.endings))
        await asyncio.sleep(0.1)

    owner = Owner("", again=False)
    play(owner, script)
    assert owner.endings == ["exit status 0"]


@pytest.mark.parametrize("starts", [0, 2])
def test_it_is_asked_for_before_each_start(starts: int) -> None:
    asked = 0

    async def before_start() -> bool:
        nonlocal asked
        asked += 1
        return asked <= starts

    async def script(_: Owner) -> None:
        await until(lambda: asked == starts + 1)

    owner = Owner("", before_start=before_start)
    play(owner, script)
    assert len(owner.pids) == starts


def test_one_that_stops_when_asked_is_neither_killed_nor_restarted(caplog: pytest.LogCaptureFixture) -> None:
    async def script(owner: Owner) -> None:
        await until(lambda: owner.lines == ["hello"])
        owner.child.send(b"one\n")
        await owner.child.stop(b"stop\n", 20.0)

    owner = Owner(UNTIL_STOP)
    play(owner, script)
    assert owner.lines == ["hello", "one", "stop"], "output is read to its end"
    assert (len(owner.pids), owner.endings, warnings(caplog)) == (1, [], [])


def test_one_that_does_not_stop_is_killed_after_the_grace(caplog: pytest.LogCaptureFixture) -> None:
    async def script(owner: Owner) -> None:
        await until(lambda: owner.lines == ["runs"])
        began = asyncio.get_running_loop().time()
        await owner.child.stop(b"stop\n", 0.2)
        assert asyncio.get_running_loop().time() - began >= 0.2

    owner = Owner(DEAF)
    play(owner, script)
    assert owner.endings == []
    assert warnings(caplog) == [message("processes.not_ended", child="the child", seconds=0.2)]
    (record,) = [record for record in caplog.records if record.name == "bridge.child_process"]
    assert getattr(record, "connector", None) == "c1"


def test_one_whose_stop_is_cancelled_is_killed_at_once() -> None:
    async def script(owner: Owner) -> None:
        await until(lambda: owner.lines == ["runs"])
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(owner.child.stop(b"stop\n", 60.0), 0.1)
        assert owner.child.pid is None

    play(Owner(DEAF), script)


def test_a_stop_in_a_pause_does_not_wait_for_its_end(caplog: pytest.LogCaptureFixture) -> None:
    async def script(owner: Owner) -> None:
        await until(lambda: bool(owner.endings))
        await owner.child.stop(b"stop\n", 60.0)

    owner = Owner("", first=3600.0)
    play(owner, script)
    assert (len(owner.pids), warnings(caplog)) == (1, [])


def test_a_stop_right_after_the_start_leaves_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def script(owner: Owner) -> None:
        for _ in range(3):  # into the start of the process
            await asyncio.sleep(0)
        await owner.child.stop(b"stop\n", 60.0)

    owner = Owner(DEAF)
    play(owner, script)
    assert (owner.endings, warnings(caplog)) == ([], [])


def test_one_that_was_never_started_is_stopped() -> None:
    asyncio.run(Owner("").child.stop(b"stop\n", 60.0))


def test_one_that_cannot_be_started_is_tried_again() -> None:
    async def script(owner: Owner) -> None:
        owner.child.send(b"nobody reads this\n")
        owner.child.kill()
        await until(lambda: len(owner.endings) == 3)

    owner = Owner("", command=["/nowhere/python"])
    play(owner, script)
    assert owner.endings[0] == message("processes.not_started", path="/nowhere/python")
    assert owner.pids == []


def test_one_that_is_killed_is_restarted() -> None:
    async def script(owner: Owner) -> None:
        await until(lambda: owner.lines == ["hello"])
        owner.child.kill()
        await until(lambda: owner.lines == ["hello", "hello"])
        os.kill(owner.pids[-1], signal.SIGTERM)
        await until(lambda: len(owner.endings) == 2)

    owner = Owner(ECHOES)
    play(owner, script)
    assert owner.endings == ["signal SIGKILL", "signal SIGTERM"]


def test_one_whose_output_cannot_be_read_is_killed_and_restarted() -> None:
    async def script(owner: Owner) -> None:
        await until(lambda: bool(owner.endings))

    owner = Owner("import time\nprint('x' * 10_000, flush=True)\ntime.sleep(600)", limit=100)
    play(owner, script)
    assert owner.endings[0].startswith("it sent output that can't be read: ")


def test_what_it_writes_to_standard_error_goes_to_our_log(caplog: pytest.LogCaptureFixture) -> None:
    async def script(owner: Owner) -> None:
        await until(lambda: bool(owner.endings))

    owner = Owner("import sys\nprint('ERROR no memory', file=sys.stderr)", again=False)
    play(owner, script)
    (record,) = [record for record in caplog.records if record.name == "stderr"]
    assert (record.getMessage(), record.levelno) == ("ERROR no memory", logging.ERROR)
    assert (getattr(record, "process_name", None), getattr(record, "connector", None)) == ("driver", "c1")


@pytest.mark.parametrize("own_group", [False, True])
def test_signals_of_the_terminal_reach_it_only_in_our_group(own_group: bool) -> None:
    async def script(owner: Owner) -> None:
        await until(lambda: bool(owner.lines))
        assert (os.getpgid(owner.pids[0]) == os.getpgid(0)) is not own_group
        assert os.getsid(owner.pids[0]) == os.getsid(0), "processors are shared out by session"

    play(Owner(DEAF, own_group=own_group), script)


def test_secrets_are_not_for_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIRROR_BRIDGE_AUTH_TOKEN", "sesame")

    async def script(owner: Owner) -> None:
        await until(lambda: bool(owner.endings))

    owner = Owner("import os\nprint(os.environ.get('MIRROR_BRIDGE_AUTH_TOKEN'))", again=False)
    play(owner, script)
    assert owner.lines == ["None"]


def test_commands_and_endings() -> None:
    assert python_command("a.b", "c") == [sys.executable, "-P", "-m", "a.b", "c"]
    with suppress(AttributeError):
        assert ending(-signal.SIGRTMIN - 1) == f"signal {signal.SIGRTMIN + 1}"
    assert (ending(0), ending(-9)) == ("exit status 0", "signal SIGKILL")


def test_a_module_answers_on_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It leads a process group of its own, has the variables that it is given, and no secret of its parent's."""
    (tmp_path / "answering.py").write_text(
        "import os, socket, sys\n"
        "ours = socket.socket(fileno=int(sys.argv[1]))\n"
        "known = [os.environ.get(each, 'none') for each in ('MORE', 'MIRROR_BRIDGE_AUTH_TOKEN')]\n"
        "ours.sendall(f'{os.getpgid(0) == os.getpid()} {known}'.encode())\n"
        "sys.exit(3)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("MIRROR_BRIDGE_AUTH_TOKEN", "sesame")
    process, channel = with_socket("answering", more={"MORE": "sails"})
    with channel, channel.makefile() as answers:
        assert answers.read() == "True ['sails', 'none']"
    assert how_ended(process) == "exit status 3"
