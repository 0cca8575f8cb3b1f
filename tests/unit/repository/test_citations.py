"""What code, tests and documents refer to is there: sections, promises, decisions, documents and modules."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"


@cache
def texts() -> dict[str, str]:
    """What is kept in the repository, by path; without the CHANGELOG, which speaks of what was."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    paths = [
        path
        for path in listed.stdout.splitlines()
        if path.endswith((".py", ".java", ".md", ".toml", ".yaml", "Makefile"))
    ]
    return {
        path: (ROOT / path).read_text("utf-8")
        for path in paths
        if path not in ("CHANGELOG.md", "tests/unit/repository/test_citations.py") and (ROOT / path).is_file()
    }


def sections() -> set[str]:
    page = (DOCS / "stock-behaviour.md").read_text("utf-8")
    return set(re.findall(r"^##+ (\d(?:\.\d+)?)\.? ", page, re.MULTILINE))


def promises() -> set[str]:
    return set(re.findall(r"^- \*\*(R\d)\*\*", (DOCS / "architecture.md").read_text("utf-8"), re.MULTILINE))


def decisions() -> set[str]:
    return {path.name[:4] for path in (DOCS / "decisions").glob("*.md")}


def defects() -> set[str]:
    """Ids of known defects of stock, as B41."""
    return set(re.findall(r"^\| (B\d+) \|", (DOCS / "known-defects.md").read_text("utf-8"), re.MULTILINE))


def dangling(text: str) -> Iterator[str]:
    """Each reference that leads nowhere."""
    for group in re.findall(r"\bstock ((?:§[\d.]*\d(?:, )?)+)", text):
        yield from (f"stock {each}" for each in group.split(", ") if each and each[1:] not in sections())
    yield from (each for each in re.findall(r"\bR\d\b", text) if each not in promises())
    yield from (
        f"decision {each}" for each in re.findall(r"\bdecision (\d{4})\b", text) if each not in decisions()
    )
    yield from (each for each in re.findall(r"\((00\d\d)\)", text) if each not in decisions())
    yield from (each for each in re.findall(r"\bB\d{1,2}\b(?!/)", text) if each not in defects())
    yield from re.findall(r"\b(?:mm2|design) \d+(?:\.\d+)?\b", text)
    for path in re.findall(r"(?<![\w/.-])docs/[\w./-]+\.md\b", text):
        if not (ROOT / path).is_file():
            yield path


def test_the_pages_have_what_can_be_cited() -> None:
    assert {"1.1", "1.8", "2", "3.4", "4.5"} <= sections()
    assert promises() == {f"R{number}" for number in range(1, 8)}
    assert len(decisions()) > 30


def test_every_reference_leads_somewhere() -> None:
    result = {path: lost for path, text in texts().items() if (lost := sorted(set(dangling(text))))}
    assert result == {}


def test_every_file_that_is_named_is_there() -> None:
    """Modules and tests by path, wherever one is named in full."""
    pattern = re.compile(r"(?<![\w/.-])(?:bridge|connectors|tests)/[\w/]+\.(?:py|json)\b")
    result = {
        path: lost
        for path, text in texts().items()
        if not path.startswith(("docs/decisions/0039", "tests/unit/repository/"))
        and (lost := sorted({each for each in pattern.findall(text) if not (ROOT / each).is_file()}))
    }
    assert result == {}


@pytest.mark.parametrize(
    "text",
    [
        "as stock §9.9 has it",
        "(stock §1.1, §7.7)",
        "promise R8",
        "decision 9999",
        "own requests (0099)",
        "as B49 has it",
        "mm2 1.8",
        "design 5.1",
        "see docs/nowhere.md",
    ],
)
def test_what_leads_nowhere_is_seen(text: str) -> None:
    assert list(dangling(text))


@pytest.mark.parametrize(
    "text",
    [
        "stock §1.8, §2",
        "stock 4.3.1 does",
        "R1 and R7",
        "decision 0002",
        "own requests (0008)",
        "B41",
        "docs/offset-runs.md",
    ],
)
def test_what_leads_somewhere_is_left_alone(text: str) -> None:
    assert list(dangling(text)) == []
