"""What `make soak` runs is there, and what it ran is reported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT
from tests.support.soak import FORMS, Form, chosen, command, main, ran, summary

REPORT = """<testsuites><testsuite>
<testcase classname="tests.a" name="good">
<properties><property name="ran" value="7 cases of wire in 600 s"/><property name="other" value="1"/></properties>
</testcase>
<testcase classname="tests.a" name="bad"><failure/></testcase>
<testcase classname="tests.a" name="broken"><error/></testcase>
<testcase classname="tests.a" name="left"><skipped/></testcase>
</testsuite></testsuites>"""
FORM = Form("long", "tests/a.py", {"MIRROR_BRIDGE_HISTORIES": "4000"})


@pytest.mark.parametrize("form", [form for form in FORMS if form.settings], ids=lambda form: form.name)
def test_tests_of_a_long_form_read_what_makes_it_long(form: Form) -> None:
    text = (ROOT / form.tests.partition("::")[0]).read_text("utf-8")
    for key in form.settings:
        assert f'os.environ.get("{key}"' in text
    assert f"def {form.tests.partition('::')[2]}" in text


def test_a_form_runs_what_is_marked() -> None:
    (form,) = (each for each in FORMS if each.marked)
    assert command(form, Path("report.xml"))[-4:] == ["-m", "soak", "tests/e2e", "tests/integration"]


def test_words_choose() -> None:
    assert [form.name for form in chosen(["histories"])] == [
        form.name for form in FORMS if form.name.startswith("4,000 histories")
    ]
    assert {form.name for form in chosen([]) if form.settings} == {
        form.name for form in FORMS if form.settings
    }


def test_a_word_that_names_nothing_is_an_error_that_says_what_there_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["nonsense"]) == 2
    assert "faults at random" in capsys.readouterr().err


def test_cases_counts_and_failures_are_told() -> None:
    result = ran(FORM, REPORT, 1, 61.4)
    assert (result.passed, result.skipped, result.wrong) == (1, 1, ["tests.a::bad", "tests.a::broken"])
    text = summary([result])
    for words in (
        "long",
        "1 passed, 2 failed, 1 skipped",
        "1.0 min",
        "    7 cases of wire in 600 s",
        "MIRROR_BRIDGE_HISTORIES=4000",
        "FAILED tests.a::bad",
    ):
        assert words in text


def test_a_passing_tests_cases_come_through_pytest(tmp_path: Path) -> None:
    """With our settings of it: what a passing test prints does not come through."""
    file, report = tmp_path / "test_one.py", tmp_path / "report.xml"
    file.write_text('def test_one(record_property):\n    record_property("ran", "9 cases")\n')
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--config-file={ROOT / 'pyproject.toml'}",
        f"--rootdir={tmp_path}",
        f"--junit-xml={report}",
        str(file),
    ]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert list(ran(FORM, report.read_text("utf-8"), 0, 1.0).cases) == ["9 cases"]


@pytest.mark.parametrize(("report", "status", "wrong"), [("", 4, 1), ("", 0, 0), (REPORT, 1, 2)])
def test_a_run_that_ended_without_a_report_is_a_failure(report: str, status: int, wrong: int) -> None:
    assert len(ran(FORM, report, status, 1.0).wrong) == wrong
