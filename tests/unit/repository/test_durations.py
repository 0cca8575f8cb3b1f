"""tests/durations.json knows all test files, and lanes take long ones one after the other."""

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


def test_the_longest_files_come_first_and_tests_of_a_file_in_their_order() -> None:
    names = ["tests/a.py::z", "tests/a.py::y", "tests/b.py::one", "tests/new.py::two", "tests/b.py::three"]
    assert sorted(names, key=in_turn({"tests/a.py": 7, "tests/b.py": 500}, names)) == [
        *("tests/b.py::one", "tests/b.py::three", "tests/new.py::two", "tests/a.py::z", "tests/a.py::y")
    ]


def test_one_lane_at_a_time_has_a_long_file() -> None:
    """The other two begin five files of 90 s each before the first long one ends."""
    known = {"longest.py": 400, "long.py": 300, **{f"short{number:02}.py": 90 for number in range(14)}}
    order = sorted(known, key=in_turn(known, known))
    assert order == ["longest.py", *sorted(known)[2:12], "long.py", *sorted(known)[12:]]
