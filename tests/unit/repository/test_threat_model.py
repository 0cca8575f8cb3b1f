"""The threat model claims nothing without a test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below a heading of the page, without its head."""
    (section,) = (
        part
        for part in (DOCS / "threat-model.md").read_text("utf-8").split("\n## ")
        if part.startswith(f"{heading}\n")
    )
    table = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[2:]]


def missing(tests: str) -> Iterator[str]:
    """What of a cell names no test that there is."""
    named = re.findall(r"`([^`]+)`", tests)
    if not named:
        yield "no test"
    for name in named:
        file, _, test = name.partition("::")
        path = ROOT / file
        definition = rf"^ *(?:async )?(?:def|void) {re.escape(test)}\("
        if not path.is_file() or re.search(definition, path.read_text("utf-8"), re.MULTILINE) is None:
            yield name


def test_what_stops_an_attacker_has_a_test() -> None:
    stopped = [
        clause
        for _, _, stops, _ in rows("Who, from where, what for, what stops them")
        for clause in stops.split("; ")
    ]
    assert stopped
    named = rows("The tests")
    assert [what for what, _ in named] == stopped
    assert {what: found for what, tests in named if (found := [*missing(tests)])} == {}


def test_a_test_that_is_not_there_is_missing() -> None:
    here = "tests/unit/repository/test_threat_model.py"
    fine = f"{here}::test_what_stops_an_attacker_has_a_test"
    assert [*missing(f"`{fine}`")] == []
    for wrong in (f"{here}::test_of_nothing", f"{here}::rows[", "no/such/file.py::test", here):
        assert [*missing(f"`{fine}`, `{wrong}`")] == [wrong]
    assert [*missing("")] == ["no test"]
