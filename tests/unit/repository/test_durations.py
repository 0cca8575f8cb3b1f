"""tests/durations.json knows all test files, and lanes take long and short ones in turn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import durations
from tests.support.durations import BUDGET_MINUTES, LANES, files, in_turn, keep, kept, minutes


def test_every_file_was_measured() -> None:
    missing = sorted(files() - kept().keys())
    assert not missing, (
        f"`make durations` measures them and writes tests/durations.json: {', '.join(missing)}"
    )


def test_no_file_is_kept_that_is_gone() -> None:
    gone = sorted(kept().keys() - files())
    assert not gone, f"`make durations` leaves them out of tests/durations.json: {', '.join(gone)}"


def test_all_files_are_within_the_budget() -> None:
    assert minutes(kept()) <= BUDGET_MINUTES


def test_files_run_side_by_side() -> None:
    assert minutes({"tests/unit/test_a.py": 60 * LANES, "tests/e2e/test_b.py": 120 * LANES}) == 3


def test_make_uses_as_many_lanes() -> None:
    makefile = (durations.ROOT / "Makefile").read_text("utf-8")
    assert f"LANES := {LANES}\n" in makefile


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(durations, "KEPT", tmp_path / "durations.json")
    monkeypatch.setattr(durations, "files", lambda: {"tests/a.py", "tests/b.py", "tests/c.py"})
    return tmp_path / "durations.json"


def test_what_is_measured_takes_the_place_of_what_was_known(elsewhere: Path) -> None:
    elsewhere.write_text(json.dumps({"tests/a.py": 7, "tests/b.py": 5, "tests/gone.py": 3}))
    keep({"tests/b.py": 2.6, "tests/c.py": 0.2, "tests/perf/test_not_in_test.py": 900.0})
    assert kept() == {"tests/a.py": 7, "tests/b.py": 3, "tests/c.py": 0}


def test_a_long_file_and_short_ones_come_in_turn_and_tests_of_a_file_in_their_order() -> None:
    known = {"tests/a.py": 7, "tests/b.py": 500, "tests/c.py": 90, "tests/d.py": 1}
    names = ["tests/a.py::z", "tests/a.py::y", "tests/b.py::one", "tests/c.py::c", "tests/d.py::d"]
    names += ["tests/new.py::two", "tests/b.py::three"]
    assert LANES == 3
    assert sorted(names, key=in_turn(known, names)) == [
        *("tests/b.py::one", "tests/b.py::three", "tests/d.py::d", "tests/a.py::z", "tests/a.py::y"),
        *("tests/c.py::c", "tests/new.py::two"),
    ]
