"""What `make test-power` says of what it has seen; that it sees takes hours."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import power
from tests.support.power import FIXES, Red, Result, in_turn, kept, main, summary

RED = Red("tests/unit/a.py::test_one", "AssertionError")
FOUND = Result("aaaaaaaa", "Mend one", "kafka", short=RED)
MISSED = Result("bbbbbbbb", "Mend two", "spark", long=RED)
GREEN = Result("cccccccc", "Mend three", "mm2", timeouts=("long",))
OVER = Result("dddddddd", "Mend four", "mm2", passed_over="does not apply")


def test_the_share_is_of_what_the_whole_finds() -> None:
    text, percent = summary([FOUND, MISSED, GREEN, OVER])
    assert percent == 50
    assert text.endswith("finds 1 of the 2 that the whole finds (50 %)")
    for words in ("red   red", "GREEN red", "green, long not ended in time", "passed over: does not apply"):
        assert words in text


def test_fixes_come_from_each_room_in_turn() -> None:
    turn = list(in_turn(0))
    assert len({room for _, room in turn[: len(FIXES)]}) == len(FIXES)
    assert sorted(fix for fix, _ in turn) == sorted(fix for fixes in FIXES.values() for fix in fixes.split())
    assert turn == list(in_turn(0)) != list(in_turn(1))


def test_a_run_goes_on_behind_the_results_that_are_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    measured = {result.fix: result for result in (FOUND, OVER, MISSED)}
    monkeypatch.setattr(power, "HOME", tmp_path)
    monkeypatch.setattr(power, "measure", lambda fix, *_: measured.pop(fix))
    assert main(["--fixes", "aaaaaaaa", "dddddddd"]) == 0
    assert main(["--fixes", "aaaaaaaa", "dddddddd", "bbbbbbbb"]) == 1
    assert kept() == [FOUND, OVER, MISSED]
