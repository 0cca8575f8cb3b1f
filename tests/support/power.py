"""How much of what all tests find the short form finds: takes fixes back, one at a time, and runs the tests.

    python -m tests.support.power                        25 of `FIXES`, spread over their rooms
    python -m tests.support.power --fixes e77d1b3a ...   these

A fix is a commit of source and tests that mends what the product did. Its source half is taken back from today's
commit, in a worktree of its own: by the patch of tests/support/reversals where there is one, else by `git revert`,
which gives lines that others have changed since the form that they had before the fix. Where that no longer fits
together, mypy says so, and the fix is passed over. Then the tests run that a change of these files selects
(tests.support.rooms), those first that came with the fix: first the short form, and the whole only where that stays
green. A red test counts when it is red again, and green without the reversal.

Each result is kept in .local/power/results.jsonl; a run goes on behind what is there, `rm -r .local/power` begins anew.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, zip_longest
from pathlib import Path

import pytest

from tests import ROOT
from tests.support.rooms import UnknownRoomError, selected

FIXES = {
    "pipeline": """b6b05916 667a45ba eab5a656 76d36633 de1bc3a1 e22c8a42 14be767e a4b4d7e1 de4aba1f 7fc97192 253f76e0
        2b1c2764 ab4123a6 d72e49e4 607d5cee 06f9b32e cd9307e7 44c6ec93 a5485234 f0753afb 3bba6341""",
    "connectors": "e77d1b3a 41ac7c8b 5b1f12da a13814ff 8cd7f40f 75b43de0 a1dc3209 ec80f8cb 0bbae79d",
    "kafka": "72e80399 629b356f 8ee522d1 5211b162 b55a2f9b b42e444c 6576ca48 82c13dc5 58acaaae",
    "service": """06e1a91a d2065211 073cbcdb cfb88c6f cab53458 32d7c13e 86592ec5 0eba373a a9b0cc8e db3679c7
        b7f116c9""",
    "dedicated": "1517f393 40fa4979 f5f73cd3 408b946d",
    "commands": "10ae050e 49baa3a6",
    "mm2": "9ec5f5f9 8e0c9b73 4415a9c0 8ff758dd",
    "spark": "4c75c518 9f754a43",
    "doctor": "0ac49a32",
    "java-shim": "c88089e4 6625ac09 6623bf7d",
}
"""The last fixes by room, the newest first. A room is only for the spread: what runs is what the files select."""

FORMS = {"short": "not perf and not soak and not long", "long": "not perf and not soak"}
"""The short form; and the whole, which makes more random examples of what the short form has."""
NEEDED = 95
"""Percent of what the whole finds."""

HOME = ROOT / ".local" / "power"

_BY_HAND = Path(__file__).with_name("reversals")
_HALF = ("bridge", "connectors", "java-shim/src/main")
_SAID = "MIRROR_BRIDGE_POWER_FILE"
_NAMES = re.compile(
    r"ImportError|ModuleNotFoundError|NameError|AttributeError|TypeError: .*(argument|takes|missing)"
)
"""Errors of a test that names what the reversal has removed: red for sure, whatever the test is about."""
_TRIES = 3
"""So often a red test may turn out to be red by chance, which leaves it out."""


@dataclass(frozen=True)
class Red:
    test: str
    error: str


@dataclass(frozen=True)
class Result:
    fix: str
    subject: str
    room: str
    passed_over: str = ""
    """Why nothing was run."""
    short: Red | None = None
    long: Red | None = None
    timeouts: tuple[str, ...] = ()
    """Forms that did not end in time: what they would have found is not known, and counts as not found."""

    @property
    def whole(self) -> Red | None:
        return self.short or self.long


class TimeOutError(Exception):
    pass


def _tree() -> Path:
    return HOME / "tree"


def _results() -> Path:
    return HOME / "results.jsonl"


# In the pytest that runs the tests, which loads this module as a plugin.


class _Watch:
    """Stops a run at its first red test. One that only names what is gone is noted, and the run goes on."""

    def __init__(self, session: pytest.Session, file: Path) -> None:
        self._session, self._file = session, file

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._note(report.nodeid, report.longreprtext, names=True)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.failed:
            return
        lines = [line[1:].strip() for line in report.longreprtext.splitlines() if line.startswith("E ")]
        error = next(filter(None, lines), "")
        names = bool(_NAMES.match(error))
        self._note(report.nodeid, error, names=names)
        if not names:
            self._session.shouldstop = "a red test is found"

    def _note(self, test: str, error: str, *, names: bool) -> None:
        line = {"test": test, "error": error.strip().splitlines()[-1][:200] if error else "", "names": names}
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def pytest_sessionstart(session: pytest.Session) -> None:
    if _SAID in os.environ:
        session.config.pluginmanager.register(_Watch(session, Path(os.environ[_SAID])))


# The worktree


def _git(*arguments: str, cwd: Path = ROOT, check: bool = True) -> str:
    done = subprocess.run(["git", *arguments], cwd=cwd, check=check, capture_output=True, text=True)
    return done.stdout


def _python() -> Path:
    """Makes an interpreter whose every process finds the worktree before this checkout, with the packages of here:
    PYTHONPATH would not do, since some tests give it to their processes."""
    python = HOME / "venv" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", HOME / "venv"], check=True)
        (folder,) = (HOME / "venv" / "lib").glob("python*/site-packages")
        packages = Path(pytest.__file__).parents[1]
        lines = f"{_tree()}\nimport site; site.addsitedir({str(packages)!r})\n"
        (folder / "tree.pth").write_text(lines, "utf-8")
        command = python.with_name("mirror-bridge")
        command.write_text(f"#!{python}\nfrom bridge.cli import main\n\nmain()\n", "utf-8")
        command.chmod(0o755)
    return python


def _environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


def _fresh_tree() -> None:
    if not _tree().exists():
        _git("worktree", "prune")
        _git("worktree", "add", "--detach", str(_tree()), "HEAD")
    _git("revert", "--abort", cwd=_tree(), check=False)
    _git("reset", "--hard", _git("rev-parse", "HEAD").strip(), cwd=_tree())
    _git("clean", "-fdq", cwd=_tree())
    shutil.copytree(ROOT / "java-shim" / "target", _tree() / "java-shim" / "target", dirs_exist_ok=True)


def _reversal(fix: str) -> str:
    """Returns the patch that takes the source half back; empty if there is none. Follows files that were renamed."""
    if (by_hand := _BY_HAND / f"{fix}.patch").exists():
        return by_hand.read_text("utf-8")
    _git("revert", "--no-commit", "--strategy-option=theirs", fix, cwd=_tree(), check=False)
    broken = _git("diff", "--name-only", "--diff-filter=U", "--", *_HALF, cwd=_tree())
    patch = "" if broken else _git("diff", "--binary", "HEAD", "--", *_HALF, cwd=_tree())
    _fresh_tree()
    return patch


def _apply(patch: Path, *options: str) -> bool:
    done = subprocess.run(["git", "apply", *options, patch], cwd=_tree(), check=False, capture_output=True)
    return done.returncode == 0


def _maven(goal: str, *options: str) -> bool:
    command = ["mvn", "-B", "-q", "-f", "java-shim/pom.xml", goal, *options]
    return subprocess.run(command, cwd=_tree(), check=False).returncode == 0


def _files(fix: str, patch: str) -> tuple[list[str], list[str]]:
    """Returns the test files that the change selects, those of the fix first, and the source files that it touches."""
    source = re.findall(r"^diff --git a/(\S+)", patch, re.MULTILINE)
    there = [path if (ROOT / path).exists() else str(Path(path).parent) for path in source]
    chosen = chain.from_iterable(_test_files(path) for path in selected(there))
    came_with = [
        path
        for path in _git("show", "--format=", "--name-only", fix, "--", "tests").split()
        if Path(path).name.startswith("test_") and Path(path).parts[1] not in ("perf", "soak")
    ]
    kinds = ("unit", "contract", "integration", "e2e")
    order = sorted(chosen, key=lambda path: kinds.index(Path(path).parts[1]))
    return [path for path in dict.fromkeys([*came_with, *order]) if (ROOT / path).exists()], source


def _test_files(path: str) -> list[str]:
    if (ROOT / path).is_file():
        return [path]
    return sorted(file.relative_to(ROOT).as_posix() for file in (ROOT / path).rglob("test_*.py"))


# Runs of tests


def _pytest(
    tests: Sequence[str], form: str, seconds: float, without: Sequence[str] = ()
) -> list[dict[str, str]]:
    """Returns the red tests of a run, which ends at the first that does not only name what is gone."""
    said, log = HOME / "said.jsonl", HOME / "pytest.log"
    said.write_text("", "utf-8")
    options = ("-q", "-p", "tests.support.power", "-p", "no:cacheprovider", "--continue-on-collection-errors")
    deselected = (f"--deselect={test}" for test in without)
    command: list[str | Path] = [_python(), "-m", "pytest", *options, "-m", form, *deselected, *tests]
    with log.open("a") as output:
        process = subprocess.Popen(
            command,
            cwd=_tree(),
            env=_environment() | {_SAID: str(said)},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise TimeOutError from error
        finally:
            _end(process)
    found: list[dict[str, str]] = [json.loads(line) for line in said.read_text("utf-8").splitlines()]
    if not found and process.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise RuntimeError(f"pytest ended with exit status {process.returncode}: {log} says why")
    return found


def _end(process: subprocess.Popen[bytes]) -> None:
    """Lets pytest end what it has started, which is in sessions of its own."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        os.killpg(process.pid, number)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            continue


def _red(tests: Sequence[str], form: str, patch: Path, seconds: float) -> Red | None:
    """Returns a test of this form that is red twice, and green without the reversal."""
    by_chance: list[str] = []
    for _ in range(_TRIES):
        found = _pytest(tests, form, seconds, by_chance)
        real = [red for red in found if not red["names"]]
        if not found:
            return None
        red = Red((real or found)[0]["test"], (real or found)[0]["error"])
        if _pytest([red.test], form, seconds) and _green_without(red.test, form, patch, seconds):
            return red
        by_chance.append(red.test)
    return None


def _with_brokers(test: str) -> bool:
    return test.startswith(("tests/integration/", "tests/e2e/"))


def _green_without(test: str, form: str, patch: Path, seconds: float) -> bool:
    java = "java-shim/" in patch.read_text("utf-8")
    _apply(patch, "-R")
    if java:
        _maven("package", "-Dmaven.test.skip=true")
    try:
        return not _pytest([test], form, seconds)
    finally:
        _apply(patch)
        if java:
            _maven("package", "-Dmaven.test.skip=true")


def measure(fix: str, room: str, seconds: float) -> Result:
    """Takes one fix back and runs what it selects."""
    subject = _git("show", "--no-patch", "--format=%s", fix).strip()
    _fresh_tree()
    text = _reversal(fix)
    patch = HOME / f"{fix}.patch"
    patch.write_text(text, "utf-8")
    if not text or not _apply(patch):
        return Result(fix, subject, room, "does not apply")
    checked = chain.from_iterable(("-p", package) for package in ("bridge", "connectors"))
    mypy: list[str | Path] = [_python(), "-m", "mypy", f"--cache-dir={HOME / 'mypy'}", *checked]
    if subprocess.run(mypy, cwd=_tree(), env=_environment(), check=False, capture_output=True).returncode:
        return Result(fix, subject, room, "no longer fits together (mypy)")
    try:
        tests, source = _files(fix, text)
    except UnknownRoomError as error:
        return Result(fix, subject, room, str(error))
    if any(path.startswith("java-shim/") for path in source):
        if not _maven("package", "-Dmaven.test.skip=true"):
            return Result(fix, subject, room, "no longer compiles (Maven)")
        if not _maven("test"):
            _apply(patch, "-R")
            if _maven("test"):
                return Result(fix, subject, room, short=Red("java-shim/src/test", "mvn test"))
            _apply(patch)
    result = Result(fix, subject, room)
    for name, form in FORMS.items():
        for part in (False, True):
            some = [test for test in tests if _with_brokers(test) == part]
            try:
                red = _red(some, form, patch, seconds) if some else None
            except TimeOutError:
                result = replace(result, timeouts=(*result.timeouts, name))
                continue
            if red:
                return replace(result, short=red) if name == "short" else replace(result, long=red)
    return result


# Results


def summary(results: Sequence[Result]) -> tuple[str, int]:
    """Returns the table, and the percentage of what the whole finds that the short form finds."""
    lines = []
    for result in results:
        if result.passed_over:
            told = f"passed over: {result.passed_over}"
        elif result.whole is None:
            told = "green" + "".join(f", {form} not ended in time" for form in result.timeouts)
        else:
            told = f"{'red' if result.short else 'GREEN':5} red    {result.whole.test}: {result.whole.error}"
        lines.append(f"{result.fix}  {result.room:12} {told}\n          {result.subject}")
    whole = sum(result.whole is not None for result in results)
    short = sum(result.short is not None for result in results)
    percent = 100 * short // whole if whole else 100
    run = sum(not result.passed_over for result in results)
    lines.append(
        f"{run} fixes taken back: the short form finds {short} of the {whole} that the whole finds ({percent} %)"
    )
    return "\n".join(["fix       room         short whole  by", *lines]), percent


def in_turn(seed: int) -> Iterator[tuple[str, str]]:
    """Yields fixes and their rooms, one of each room after the other."""
    drawn = random.Random(seed)
    rooms = [[(fix, room) for fix in fixes.split()] for room, fixes in FIXES.items()]
    for fixes in rooms:
        drawn.shuffle(fixes)
    yield from (each for turn in zip_longest(*rooms) for each in turn if each)


def kept() -> list[Result]:
    if not _results().exists():
        return []
    lines = [json.loads(line) for line in _results().read_text("utf-8").splitlines()]
    for line in lines:
        line |= {form: Red(**line[form]) for form in FORMS if line[form]} | {
            "timeouts": tuple(line["timeouts"])
        }
    return [Result(**line) for line in lines]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fixes", nargs="+", metavar="COMMIT", help="these, in place of the table's")
    parser.add_argument("--count", type=int, default=25, help="so many that are not passed over (25)")
    parser.add_argument("--seed", type=int, default=0, help="of the choice among a room's fixes (0)")
    parser.add_argument("--minutes", type=float, default=15, help="for a run of a form (15)")
    options = parser.parse_args(arguments)
    rooms = {fix: room for room, fixes in FIXES.items() for fix in fixes.split()}
    turn = [(fix, rooms.get(fix, "?")) for fix in options.fixes] if options.fixes else in_turn(options.seed)
    known = {result.fix: result for result in kept()}
    HOME.mkdir(parents=True, exist_ok=True)
    results: list[Result] = []
    for fix, room in turn:
        if sum(not result.passed_over for result in results) == options.count:
            break
        if fix not in known:
            print(f"--- {fix} {room}", flush=True)
            known[fix] = measure(fix, room, options.minutes * 60)
            with _results().open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(known[fix])) + "\n")
        results.append(known[fix])
        print(summary(results[-1:])[0].splitlines()[1], flush=True)
    if _tree().exists():
        _git("worktree", "remove", "--force", str(_tree()))
    text, percent = summary(results)
    print(text)
    return 0 if percent >= NEEDED else 1


if __name__ == "__main__":
    sys.exit(main())
