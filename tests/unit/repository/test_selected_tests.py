"""Every source file selects tests, and every test with brokers is selected by a change of some source."""

from __future__ import annotations

import pytest

from tests import ROOT
from tests.support.rooms import ROOMS, UnknownRoomError, main, selected

NAMED = {f"tests/{test}.py" for tests in ROOMS.values() for test in tests.split()}


def test_every_row_names_source_and_tests_that_exist() -> None:
    assert [name for name in sorted({*ROOMS, *NAMED}) if not (ROOT / name).exists()] == []


def test_every_source_package_selects_a_test_file() -> None:
    packages = [path.parent for top in ("bridge", "connectors") for path in (ROOT / top).rglob("__init__.py")]
    for path in sorted({*packages, *(ROOT / "bridge").glob("*.py")}):
        tests = [ROOT / test for test in selected([path.relative_to(ROOT).as_posix()])]
        assert all(test.is_file() or any(test.rglob("test_*.py")) for test in tests)


@pytest.mark.parametrize("folder", ["integration", "e2e", "contract"])
def test_every_test_through_several_rooms_is_selected(folder: str) -> None:
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests" / folder).glob("test_*.py")}
    assert sorted(files - NAMED) == []


def test_the_longest_beginning_of_a_path_chooses_the_row() -> None:
    assert selected(["bridge/translation/bulk/run_columns.py"]) == [
        "tests/integration/test_translate.py",
        "tests/unit/translation/bulk",
    ]
    assert selected(["bridge/spark/translating/job.py"]) == [
        "tests/integration/test_translate.py",
        "tests/unit/spark",
    ]


def test_a_folder_selects_what_the_rooms_in_it_do() -> None:
    rooms = ["bridge/dedicated", "bridge/dedicated/config"]
    assert selected(rooms[:1]) == selected(rooms)
    assert "tests/integration/test_stock_mirror_maker_config.py" in selected(rooms[:1])


def test_what_stands_right_in_the_package_has_its_tests_right_in_theirs() -> None:
    assert "tests/unit/test_patterns.py" in selected(["bridge/patterns.py"])
    assert "tests/unit" in selected(["bridge"])


@pytest.mark.parametrize("path", ["bridge/attic", "docs", "tests/unit"])
def test_a_path_that_selects_nothing_is_an_error_that_names_it(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UnknownRoomError, match=path):
        selected([path])
    assert main(["bridge/mm2", path]) == 2
    assert path in capsys.readouterr().err


def test_the_command_prints_a_path_on_each_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["java-shim", "bridge/logs"]) == 0
    assert capsys.readouterr().out.splitlines() == selected(["java-shim", "bridge/logs"])
