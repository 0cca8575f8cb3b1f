"""Tables of columns in docs/spark.md and docs/audit.md, held against the code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql.types import DataType

from bridge.audit.report import DIFFERENCES, SUMMARY
from bridge.spark.schema import COLUMNS
from bridge.spark.tables import TABLES, Table

DOCS = Path(__file__).parents[3] / "docs"
ROW = re.compile(r"^\| `(\w+)` \| `([^`]+)` \|", re.MULTILINE)
TYPED = re.compile(r"`(\w+) ([^`]+)`")


def section(page: str, after: str, before: str) -> str:
    return (DOCS / page).read_text("utf-8").partition(after)[2].partition(before)[0]


def types(columns: Mapping[str, DataType]) -> dict[str, str]:
    return {name: kind.simpleString() for name, kind in columns.items()}


def test_records() -> None:
    stated = {
        name: kind.replace(": ", ":").replace(", ", ",")
        for names, kind in re.findall(
            r"^\| ((?:`\w+`(?:, )?)+) \| `([^`]+)` \|",
            section("spark.md", "### `mirror-records`", "### Writing").partition("| Option")[0],
            re.MULTILINE,
        )
        for name in re.findall(r"\w+", names)
    }
    assert stated == types(COLUMNS)
    assert list(stated) == list(COLUMNS), "in the order of the schema"


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_internal_topics(table: Table) -> None:
    rows = section("spark.md", "### Internal topics", "The last three are read")
    (own,) = [line for line in rows.splitlines() if line.startswith(f"| `{table.name}` |")]
    (all_of_them,) = [line for line in rows.splitlines() if line.startswith("| each of them |")]
    stated = TYPED.findall(own) + TYPED.findall(all_of_them)
    assert stated == list(types(table.columns).items())


def test_groups_have_the_columns_that_are_explained() -> None:
    rows = section("spark.md", "### Groups", "### Positions")
    explained = [
        name
        for names in re.findall(r"^\| (`[^|]+`) \|", rows, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", names)
    ]
    assert set(explained) <= TABLES["mirror-groups"].fields.keys()
    assert len(explained) > 8


@pytest.mark.parametrize(
    ("name", "columns", "end"),
    [("summary", SUMMARY, "`differences`, a row"), ("differences", DIFFERENCES, "## What is found")],
)
def test_audits(name: str, columns: Mapping[str, str], end: str) -> None:
    assert ROW.findall(section("audit.md", f"`{name}`, a row for each", end)) == list(columns.items())
