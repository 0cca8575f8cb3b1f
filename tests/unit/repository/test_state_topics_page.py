"""docs/state-topics.md names every topic, field and kind of gap that the code writes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from bridge.mm2.replication_policy import DefaultReplicationPolicy
from bridge.model.copying import Gap, GapKind
from bridge.model.state_records.furthest import Furthest, FurthestRecord
from bridge.model.state_records.group_record import GroupRecord, GroupRow
from bridge.model.state_records.readiness_records import VALUES, MissingRecord, RecordKey, TaskRecord, encode
from bridge.model.values import TopicPartition
from bridge.pipeline.layouts.records import (
    MOST_SLOTS,
    Claim,
    LayoutRecord,
    SliceReport,
    layout_key,
    report_key,
)
from bridge.pipeline.slices.gaps import ledger_entry
from bridge.translation.runs.runs import OffsetRun
from tests.support.pipeline_spec import SPEC

DOCS = Path(__file__).parents[3] / "docs"
PAGE, RUNS = ((DOCS / name).read_text("utf-8") for name in ("state-topics.md", "offset-runs.md"))
NAMING = DefaultReplicationPolicy()
CLAIM = Claim("orders", "A.orders", "mirror")
GAP = Gap(TopicPartition("orders", 0), GapKind.SKIPPED, "id", 0, 1, 0)
ROW = GroupRow(
    "orders", 0, 1, "m", "A.orders", 1, "exact", 0, "run", "dry_run", 1, ("truncated",), {"run_from": 1}
)
GROUP = GroupRecord(1, 0, 1, "EMPTY", "dry_run", (ROW,))
FURTHEST = FurthestRecord(1, {TopicPartition("A.orders", 0): Furthest(5, 9, 9)})
JSON = [
    layout_key(SPEC),
    LayoutRecord(1, 1).value(),
    report_key(SPEC, 0),
    SliceReport(1, 0).value(),
    CLAIM.key(),
    CLAIM.value(),
    *ledger_entry(GAP, "mirror"),
    RecordKey("groups", "group", "g").encode(),
    *map(encode, (GROUP, TaskRecord(1, 1, 1, "one"), MissingRecord(1, ()))),
    json.dumps(ROW.fields()).encode(),
    encode(FURTHEST),
    json.dumps(FURTHEST.fields()["topics"][0]).encode(),
]
FLAGS = {"handed_back", "again", "transformed", "found"}


def camel(name: str) -> str:
    return re.sub(r"_(.)", lambda match: match[1].upper(), name)


@pytest.mark.parametrize("field", sorted({name for each in JSON for name in json.loads(each)}))
def test_each_field_of_a_json_record_is_explained(field: str) -> None:
    assert f"`{field}`" in PAGE


@pytest.mark.parametrize("field", sorted({*OffsetRun._fields} - FLAGS - {"source"}))
def test_each_field_of_a_run_is_explained_and_its_range_stated(field: str) -> None:
    assert f"| {camel(field)} |" in RUNS
    assert re.search(rf"\b{camel(field)}\b", PAGE.partition("## Offset runs")[2].partition("\n## ")[0])


@pytest.mark.parametrize("kind", GapKind)
def test_each_kind_of_gap_is_explained(kind: GapKind) -> None:
    assert f"`{kind}`" in PAGE.partition("## The gap ledger")[2].partition("\n## ")[0]


def test_topics_and_limits_are_those_of_the_code() -> None:
    for name in (NAMING.offset_runs_topic, NAMING.layout_topic, NAMING.gaps_topic, NAMING.readiness_topic):
        assert f"| `{name('<source alias>')}` |" in PAGE
    assert f"`slots` 0 to {MOST_SLOTS}" in PAGE


@pytest.mark.parametrize("kind", VALUES)
def test_each_kind_of_readiness_record_is_explained(kind: str) -> None:
    assert f"| `{kind}` |" in PAGE.partition("## Readiness records")[2].partition("\n## ")[0]
