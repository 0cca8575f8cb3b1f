"""docs/state-topics.md and docs/offset-runs.md name each field of the state topics, each kind of gap and of record."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from bridge.mm2.replication_policy import DefaultReplicationPolicy
from bridge.model.copying import Gap, GapKind
from bridge.model.state_records.claims import Claim
from bridge.model.state_records.group_record import Alone, Furthest, FurthestRecord, GroupRecord, GroupRow
from bridge.model.state_records.readiness_records import VALUES, MissingRecord, RecordKey, TaskRecord, encode
from bridge.model.values import TopicPartition
from bridge.pipeline.layouts.records import LayoutRecord, SliceReport, layout_key, report_key
from bridge.pipeline.slices.gaps import ledger_entry
from bridge.translation.runs.runs import OffsetRun
from tests.support.pipeline_spec import SPEC

DOCS = Path(__file__).parents[3] / "docs"
NAMING = DefaultReplicationPolicy()
CLAIM = Claim("orders", "A.orders", "mirror")
GAP = Gap(TopicPartition("orders", 0), GapKind.SKIPPED, "id", 0, 1, 0)
ROW = GroupRow(
    "orders", 0, 1, "m", "A.orders", 1, "exact", 0, "run", "dry_run", 1, ("truncated",), {"run_from": 1}
)
GROUP = GroupRecord(1, 0, 1, "EMPTY", "dry_run", (ROW,))
COPY = TopicPartition("A.orders", 0)
FURTHEST = FurthestRecord(1, {COPY: Furthest(5, 9, 9)}, {COPY: Alone(5, 9, 0)})
LAYOUTS = (
    layout_key(SPEC),
    LayoutRecord(1, 1).value(),
    report_key(SPEC, 0),
    SliceReport(1, 0).value(),
    CLAIM.key(),
    CLAIM.value(),
)
READINESS = (
    RecordKey("groups", "group", "g").encode(),
    *map(encode, (GROUP, TaskRecord(1, 1, 1, "one", groups=True), MissingRecord(1, ()), FURTHEST)),
    json.dumps(ROW.fields()).encode(),
    json.dumps(FURTHEST.fields()["topics"][0]).encode(),
)
NOT_FIELDS = {"handed_back", "again", "transformed", "found", "source"}
"""Of a run: flags, and the partition that its key has."""


def unnamed(page: str, section: str, names: Iterable[str]) -> set[str]:
    """Those of the names that this section of a page does not have as code."""
    text = (DOCS / page).read_text("utf-8").partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return set(names) - {name for code in re.findall(r"`([^`]+)`", text) for name in re.findall(r"\w+", code)}


@pytest.mark.parametrize(
    ("section", "records"),
    [
        ("Layouts, reports, claims", LAYOUTS),
        ("The gap ledger", tuple(ledger_entry(GAP, "mirror"))),
        ("Readiness records", READINESS),
    ],
)
def test_fields_of_json_are_named(section: str, records: tuple[bytes, ...]) -> None:
    assert (
        unnamed("state-topics.md", section, {name for each in records for name in json.loads(each)}) == set()
    )


def test_fields_of_runs_are_named() -> None:
    page = (DOCS / "offset-runs.md").read_text("utf-8")
    fields = {
        re.sub(r"_(.)", lambda match: match[1].upper(), name) for name in {*OffsetRun._fields} - NOT_FIELDS
    }
    assert fields - set(re.findall(r"^\| (\w+) \|", page, re.MULTILINE)) == set()


def test_kinds_are_named() -> None:
    assert unnamed("state-topics.md", "The gap ledger", GapKind) == set()
    assert unnamed("state-topics.md", "Readiness records", VALUES) == set()


def test_topics_are_those_of_the_code() -> None:
    page = (DOCS / "state-topics.md").read_text("utf-8")
    for name in (NAMING.offset_runs_topic, NAMING.layout_topic, NAMING.gaps_topic, NAMING.readiness_topic):
        assert f"`{name('<source alias>')}`" in page
