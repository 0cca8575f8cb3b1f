"""Runs `make test` step by step: set-up, lint, the shim, pytest; says where it is and what each step took.

    python tests/support/steps.py short             make test: the short form
    python tests/support/steps.py all [ROOM …]      make test-all: everything but benchmarks and soak; or what a change
                                                    of these rooms selects (tests/support/rooms.py)

Only the standard library: a plain Python runs it, before there is a virtual environment. Steps that need nothing of
each other run side by side. What a step prints goes to `.local/test/STEP.log`; of a step that fails, the end of that
log is shown. Processor seconds are those of a step with all processes that it has waited for.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).parents[2]
LOGS = ROOT / ".local" / "test"
UNITS, BROKERS = "unit-tests", "broker-tests"
"""The steps whose output is shown as it comes. One after the other: clients of brokers that are gone connect again and
again, to ports that a fake of a unit test may have by then."""
_SHOWN_LINES = 150
_GRACE_SECONDS = 60.0
"""For steps that are told to end, and end brokers and workers first."""
_PYTEST = (".venv/bin/python", "-m", "pytest", "--ignore=tests/perf", "--ignore=tests/soak", "--durations=10")
_SELECT = (".venv/bin/python", "-m", "tests.support.rooms")
_LANES = {UNITS: 3, BROKERS: 5}
"""On two cores. Tests with brokers wait for them two thirds of their time."""
_SLOW, _SLOW_LANES = 1.4, 3
"""Where the machine is so many times slower than normal, there is no time left that they wait."""
_MARKERS = {"short": "not perf and not soak and not long", "all": "not perf and not soak"}
_ENVIRONMENT: Mapping[str, Mapping[str, str]] = {"short": {}, "all": {"MIRROR_BRIDGE_ORACLES": "check"}}
"""In the whole run programs in Java say what the short form takes from tables."""
_WAIT = {"short": 60, "all": 400}
_TIMEOUT = {"short": 120, "all": 900}
"""Seconds of a wait and of a test at normal speed: a hang of the short form costs two minutes. In the whole run long
forms run beside each other."""
_DURATION = re.compile(r"\s*([\d.]+)s (call|setup|teardown)\s+(tests/.*)")
_BUDGET_MINUTES = {"short": (8, 15)}
"""At normal speed on two cores: with the environment there, and from an empty clone."""
_LOOP, _NORMAL_SECONDS = 5_000_000, 0.35
"""A loop that says how fast this machine is at present, and the seconds that it took where the budget was set."""


@dataclass(frozen=True)
class Step:
    name: str
    command: Sequence[str]
    after: Sequence[str] = ()
    """Steps that have to end well before."""
    behind: Sequence[str] = ()
    """Steps that have to end before, in whatever way."""
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Ended:
    step: Step
    status: int
    seconds: float
    processor_seconds: float


def plan(form: str, rooms: Sequence[str], more: str, slower: float = 1) -> list[Step]:
    """Returns the steps of a form, in an order in which they can run; `more` is for pytest. Waits are longer where the
    machine is `slower` than normal, and never shorter."""
    make = ("make", "--no-print-directory", "--silent")
    slower = max(slower, 1)
    environment = {**_ENVIRONMENT[form], "MIRROR_BRIDGE_TEST_WAIT": f"{_WAIT[form] * slower:.0f}"}
    timeout = f"--timeout={_TIMEOUT[form] * slower:.0f}"

    built = ["shim", "jars"]

    def pytest(step: str) -> list[str]:
        number = min(_LANES[step], _SLOW_LANES) if slower >= _SLOW else _LANES[step]
        lanes = (f"--numprocesses={number}", "--dist=loadfile", "--no-loadscope-reorder")
        return [*_PYTEST, *lanes, "-m", _MARKERS[form], timeout, *shlex.split(more)]

    units = Step(UNITS, [*pytest(UNITS), "tests/unit", "tests/contract"], built, environment=environment)
    brokers = Step(BROKERS, [*pytest(BROKERS), "tests/integration", "tests/e2e"], built, [UNITS], environment)
    tests = [units, brokers]
    if rooms:
        # Asked when its turn comes: before, there may be no environment to ask in.
        selected = shlex.join([*_SELECT, *rooms])
        command = ["sh", "-c", f"paths=$({selected}) && exec {shlex.join(pytest(BROKERS))} $paths"]
        tests = [Step(BROKERS, command, built, environment=environment)]
    return [
        Step("environment", (*make, "setup")),
        Step("shim", (*make, "shim")),
        Step("jars", (*make, "jars"), after=["environment"]),
        Step("lint", (*make, "lint"), after=["environment"]),
        Step("shim-tests", (*make, "test-shim"), after=["shim", "environment"]),
        *tests,
    ]


def run(steps: Sequence[Step]) -> list[Ended]:
    """Runs the steps, each once those that it comes after and behind have ended; returns those that have run."""
    LOGS.mkdir(parents=True, exist_ok=True)
    waiting, running, ended = list(steps), dict[str, threading.Thread](), dict[str, Ended]()
    results: SimpleQueue[Ended] = SimpleQueue()
    live: set[int] = set()
    try:
        while True:
            well = {name for name, one in ended.items() if one.status == 0}
            due = [step for step in waiting if well >= {*step.after} and ended.keys() >= {*step.behind}]
            for step in due:
                waiting.remove(step)
                running[step.name] = threading.Thread(
                    target=lambda step=step: results.put(_run(step, live)), daemon=True
                )
                running[step.name].start()
            if not running:
                return list(ended.values())
            _say(running, waiting, len(ended), len(steps))
            result = results.get()
            del running[result.step.name]
            ended[result.step.name] = result
            _say_end(result)
    finally:
        # Only where this process is asked to end: nothing that it has started may go on without it.
        for pid in list(live):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        for thread in running.values():
            thread.join(_GRACE_SECONDS)


def _run(step: Step, live: set[int]) -> Ended:
    """Runs one step; `live` has its process for as long as it runs."""
    began = time.monotonic()
    with (LOGS / f"{step.name}.log").open("wb", buffering=0) as log:
        process = subprocess.Popen(
            step.command,
            cwd=ROOT,
            env={**os.environ, **step.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        live.add(process.pid)
        assert process.stdout is not None
        with process.stdout as output:
            while chunk := os.read(output.fileno(), 65536):
                log.write(chunk)
                if step.name in (UNITS, BROKERS):
                    sys.stdout.buffer.write(chunk)
                    sys.stdout.flush()
        _, status, used = os.wait4(process.pid, 0)
        live.discard(process.pid)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Ended(step, process.returncode, time.monotonic() - began, used.ru_utime + used.ru_stime)


def _say(running: Iterable[str], waiting: Sequence[Step], ended: int, steps: int) -> None:
    left = f"; then {', '.join(step.name for step in waiting)}" if waiting else ""
    print(f"== {ended} of {steps} steps done; now {', '.join(sorted(running))}{left}", flush=True)


def _say_end(result: Ended) -> None:
    how = "done" if result.status == 0 else f"FAILED (exit status {result.status})"
    print(f"== {_row(result)}  {how}", flush=True)
    if result.status != 0 and result.step.name not in (UNITS, BROKERS):
        lines = (LOGS / f"{result.step.name}.log").read_text("utf-8", "replace").splitlines()
        print("\n".join(lines[-_SHOWN_LINES:]), flush=True)


def _row(result: Ended) -> str:
    return (
        f"{result.step.name:12} {result.seconds:6.0f} s, {result.processor_seconds:6.0f} s of processor time"
    )


def summary(
    form: str, steps: Sequence[Step], ended: Sequence[Ended], seconds: float, loops: Sequence[float]
) -> str:
    """Returns the slowest ten tests, what each step took and how it ended, in all, beside the budget, and where the
    logs are. `loops`: what the loop took before the steps and after them."""
    slowest = sorted(_durations(result.step.name for result in ended), reverse=True)[:10]
    lines = ["", *(f"  {taken:6.1f} s  {test}" for taken, test in slowest)]
    lines += ["", f"make {'test' if form == 'short' else 'test-all'}:"]
    for result in ended:
        lines.append(f"  {_row(result)}  {'' if result.status == 0 else 'FAILED'}".rstrip())
    names = {result.step.name for result in ended}
    lines += [f"  {step.name:12} not run" for step in steps if step.name not in names]
    used = sum(result.processor_seconds for result in ended)
    budget = ""
    if form in _BUDGET_MINUTES:
        there, empty = _BUDGET_MINUTES[form]
        budget = f"; the budget is {there} min, {empty} from an empty clone"
    lines.append(f"  {'all':12} {seconds:6.0f} s, {used:6.0f} s of processor time{budget}")
    slower = max(sum(loops) / len(loops) / _NORMAL_SECONDS, 0.01)
    lines.append(
        f"  this machine  {slower:.2f} times the normal {_NORMAL_SECONDS} s for a fixed loop"
        f" ({', '.join(f'{loop:.2f}' for loop in loops)} s): {seconds / slower:.0f} s at normal speed"
    )
    lines.append(f"  logs: {os.path.relpath(LOGS, ROOT)}/")
    return "\n".join(lines)


def _durations(steps: Iterable[str]) -> Iterator[tuple[float, str]]:
    """Yields the slowest tests of each step, by what pytest says at its end, in seconds."""
    for step in steps:
        for line in (LOGS / f"{step}.log").read_text("utf-8", "replace").splitlines():
            if duration := _DURATION.match(line):
                yield float(duration[1]), f"{duration[3]} ({duration[2]})"


def time_loop(clock: Callable[[], float] = time.process_time) -> float:
    """Returns the seconds that a fixed loop takes at present, the least of three: of processor time, or by `clock`."""
    taken = []
    for _ in range(3):
        began = clock()
        sum(number * number for number in range(_LOOP))
        taken.append(clock() - began)
    return min(taken)


def time_loops() -> float:
    """Returns the seconds that the loop takes by a clock on the wall where all cores run it at once: what else runs on
    this machine makes waits longer too, and one loop alone may find a core that is free."""
    cores = os.cpu_count() or 1
    with ProcessPoolExecutor(cores) as pool:
        return max(pool.map(time_loop, [time.perf_counter] * cores))


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    form, *rooms = arguments
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    before = time_loop()
    began = time.monotonic()
    slower = time_loops() / _NORMAL_SECONDS
    steps = plan(form, rooms, environment.get("PYTEST_ARGS", ""), slower)
    ended = run(steps)
    seconds = time.monotonic() - began
    print(summary(form, steps, ended, seconds, [before, time_loop()]), flush=True)
    return 0 if len(ended) == len(steps) and all(result.status == 0 for result in ended) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
