"""Readiness records that another version has written: what this one does not know of them is no yes, and hides no
group."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from bridge.model.state_records.fields import SchemaError, read_object
from bridge.model.state_records.readiness_records import RecordKey
from bridge.model.values import Committed, TopicPartition, task_of
from bridge.translation.runs.runs import Segment
from connectors import cluster_away
from connectors.base import Assignment
from connectors.group_offset.task import GroupOffsetInstance
from connectors.group_translation import readiness_topic
from tests.support.waiting import until
from tests.unit.connectors.copied_orders import gone, put_runs
from tests.unit.connectors.fake_clusters import JUNK, FakeCluster, Log, mirrored
from tests.unit.connectors.group_offset.group_offset_harness import GroupOffsetHarness

TOPIC = "mm2-group-readiness.A.internal"
PLACE = TopicPartition(TOPIC, 0)
KEY = RecordKey("c", "group", "g").encode()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_away, "FIRST_RETRY_SECONDS", 0.005)
    monkeypatch.setattr(cluster_away, "LONGEST_RETRY_SECONDS", 0.02)
    monkeypatch.setattr(readiness_topic, "TASKS_EVERY", 0.0)


def kept(target: FakeCluster) -> Mapping[str, Any]:
    """The newest record of the group."""
    if PLACE not in target.logs:
        return {}
    values = [row.value for row in target.logs[PLACE].rows if row.key == KEY]
    try:
        return read_object(values[-1] if values else None, "record")
    except SchemaError:
        return {}


def first_life() -> tuple[FakeCluster, FakeCluster]:
    """An instance that has looked at a group which is ready, and is gone, and then the source."""
    source, target = mirrored(10)
    source.group("g", {("orders", 0): 5})
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(2)
        await until(lambda: bool(kept(target)))
        assert harness.published.reports["g"].ready
        await gone(harness)

    harness.play(script)
    return source, target


def rewritten(target: FakeCluster, **more: object) -> None:
    """Has another version write the group's row with further values."""
    value = dict(kept(target))
    (row,) = value["partitions"]
    asyncio.run(target.append(TOPIC, [(KEY, json.dumps(value | {"partitions": [row | more]}).encode())]))


@pytest.mark.parametrize(
    ("more", "ready"),
    [({"flags": ["later"]}, False), ({"evidence": "later"}, True)],
    ids=["flag", "evidence"],
)
@pytest.mark.parametrize("empty", [False, True], ids=["alone", "beside an empty partition"])
def test_what_a_later_version_remarks_is_no_yes(more: Mapping[str, object], ready: bool, empty: bool) -> None:
    source, target = first_life()
    rewritten(target, **more)
    if empty:
        # A row that is translated anew, so that the others have their last verdicts.
        value = dict(kept(target))
        (row,) = value["partitions"]
        added = {**row, "partition": 1, "offset": 0, "targetOffset": 0, "committed": 0}
        for cluster, topic in ((source, "orders"), (target, "A.orders")):
            cluster.logs[TopicPartition(topic, 1)] = Log(epoch=1)
        target.offsets["g"][TopicPartition("A.orders", 1)] = Committed(0)
        value["partitions"] = [row, added]
        put_runs(target, Segment(0, 0, JUNK, 10))
        asyncio.run(target.append(TOPIC, [(KEY, json.dumps(value).encode())]))
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.summaries(4)
        report = harness.published.reports["g"]
        assert (report.ready, report.reason) == (ready, "source_unreachable")

    harness.play(script)


UNREADABLE = [b'{"version":1}', b'{"version":99}', b"?"]


@pytest.mark.parametrize("value", UNREADABLE)
def test_a_group_whose_record_can_not_be_read_is_named(value: bytes) -> None:
    source, target = first_life()
    asyncio.run(target.append(TOPIC, [(KEY, value)]))
    harness = GroupOffsetHarness(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.summaries(4)
        report = harness.published.reports["g"]
        assert (report.ready, report.reason, report.partitions) == (False, "source_unreachable", [])
        source.away = None
        await until(lambda: harness.published.reports["g"].ready)
        await until(lambda: "partitions" in kept(target))

    harness.play(script)


@pytest.mark.parametrize("value", UNREADABLE)
def test_what_another_service_has_written_and_nobody_can_read_is_not_known(value: bytes) -> None:
    source, target = mirrored(10)
    source.group("g", {("orders", 0): 5})
    harness = GroupOffsetHarness(source, target)
    missing = RecordKey("c", "missing", "payments").encode()

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(1)
        await target.append(TOPIC, [(KEY, value), (missing, value)])
        await until(lambda: "g" in harness.published.reports)
        report = harness.published.reports["g"]
        assert (report.ready, report.reason) == (False, "not_looked_at_yet")
        place = TopicPartition("payments", 0)
        await until(lambda: place in harness.published.missing)
        assert harness.published.missing[place].records == -1

    # Two tasks, of which the one without the group runs here.
    harness.play(script, Assignment(2, frozenset({1 - task_of("g", 2)})))
