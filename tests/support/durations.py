"""How long each test file takes: tests/durations.json, measured by `make durations`.

Lanes begin with the files that take longest, so that at the end none is left alone with one of them; but one lane at a
time has a long one: it starts most processes, and three such files at once overload a slow machine.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "tests" / "durations.json"
LANES = 3
"""How many files `make test` runs side by side, each on clusters of its own. On two processors two lanes leave a third
of the time idle (tests wait for clusters), three 6 %."""
BUDGET_MINUTES = 30
"""What all files may take together: 20 were for what there was when it was first set, and 5 each came for access and
rights, for dedicated mode with the sink connector, and for Spark's sources, audits and translations; 5 went with cases
that are variants of others (marked `soak`). A new test that goes over it takes the place of another one, or goes to
`make soak`; raising the budget is a choice that its commit explains."""
_NEW_SECONDS = 60
"""Of a file that was not measured yet: it may take long, so it comes early."""
_LONG_SECONDS = 100
"""From here on a file is a long one: together they keep about one lane busy."""
_LEFT_OUT = ("perf", "soak")
"""Folders that `make test` does not run."""


def files() -> set[str]:
    """Returns the files that `make test` runs, as `tests/unit/translation/test_plan.py`."""
    result = (path.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py"))
    return {path.as_posix() for path in result if path.parts[1] not in _LEFT_OUT}


def kept() -> dict[str, int]:
    """Seconds by file."""
    return dict(json.loads(KEPT.read_text("utf-8"))) if KEPT.exists() else {}


def minutes(known: Mapping[str, int]) -> float:
    """Returns the minutes that the files take together, side by side."""
    return sum(known.values()) / LANES / 60


def keep(measured: Mapping[str, float]) -> None:
    """Writes what was measured beside what is known of the other files."""
    known = kept() | {name: round(seconds) for name, seconds in measured.items()}
    there = {name: known[name] for name in sorted(known.keys() & files())}
    KEPT.write_text(json.dumps(there, indent=2) + "\n", "utf-8")


def in_turn(known: Mapping[str, int], tests: Iterable[str]) -> Callable[[str], int]:
    """Sorts ids of tests by their files: the longest first, but long ones one after the other, in one lane at a time.
    The tests of a file keep their order."""
    seconds = {file: known.get(file, _NEW_SECONDS) for file in map(_file, tests)}
    left = sorted(seconds, key=lambda file: (-seconds[file], file))
    lanes, long_until = [0.0] * LANES, 0.0
    order: list[str] = []
    while left:
        now = heappop(lanes)
        one_runs = now < long_until
        file = next((each for each in left if not one_runs or seconds[each] < _LONG_SECONDS), left[0])
        if seconds[file] >= _LONG_SECONDS:
            long_until = now + seconds[file]
        left.remove(file)
        order.append(file)
        heappush(lanes, now + seconds[file])
    places = {file: place for place, file in enumerate(order)}
    return lambda test: places[_file(test)]


def _file(test: str) -> str:
    return test.partition("::")[0]


class Clock:
    """A pytest plugin: seconds of each file without those of fixtures that the whole run shares. Lanes report theirs to
    the process that began them."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._failed: set[str] = set()
        self._shared = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        began, shared = time.monotonic(), self._shared
        try:
            return (yield)
        finally:
            self._seconds[_file(item.nodeid)] += time.monotonic() - began - (self._shared - shared)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        began = time.monotonic()
        try:
            return (yield)
        finally:
            if fixturedef.scope == "session":
                self._shared += time.monotonic() - began

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        began = time.monotonic()
        try:
            return (yield)
        finally:
            if nextitem is None:  # the last test of all ends what the run shares
                self._shared += time.monotonic() - began

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.add(_file(report.nodeid))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        lane: Mapping[str, float] = getattr(node, "workeroutput", {}).get("durations", {})
        for name, spent in lane.items():
            self._seconds[name] += spent

    def pytest_sessionfinish(self) -> None:
        lane: dict[str, object] | None = getattr(self._config, "workeroutput", None)
        if lane is not None:
            lane["durations"] = dict(self._seconds)
        else:
            keep({name: spent for name, spent in self._seconds.items() if name not in self._failed})


def measure(chosen: Sequence[str]) -> None:
    """Becomes the pytest that measures these files, or those that were not measured yet."""
    missing = sorted(files() - kept().keys())
    if not chosen and not missing:
        keep({})
        print(
            f"{KEPT.relative_to(ROOT)} has all files; FILES=tests/e2e measures these again, FILES=tests all."
        )
        return
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--keep-durations",
        "-m",
        "not perf and not soak",
        *(chosen or missing),
    ]
    os.execv(sys.executable, command)


if __name__ == "__main__":
    measure(sys.argv[1:])
