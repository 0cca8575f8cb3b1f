"""One version in four places."""

from __future__ import annotations

import re
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path

from bridge import VERSION

ROOT = Path(__file__).parents[3]


def test_the_distribution_has_the_version_of_the_package() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"] == VERSION


def test_the_shim_has_it_too() -> None:
    pom = ET.parse(ROOT / "java-shim" / "pom.xml").getroot()
    assert pom.findtext("{*}version") == VERSION


def test_the_changelog_begins_with_it() -> None:
    headings = re.findall(r"^## \[(.+?)\] - (.+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    version, date = headings[0]
    assert version == VERSION
    assert re.fullmatch(r"Unreleased|\d{4}-\d{2}-\d{2}", date)
