"""A connector that copies reads which connectors follow the groups of its flow."""

from __future__ import annotations

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.model.state_records.readiness_records import RecordKey, TaskRecord, encode
from bridge.model.values import TopicPartition
from connectors.source import group_connectors
from connectors.source.task import SourceInstance
from tests.support.waiting import until
from tests.unit.connectors.fake_clusters import FakeCluster, Row
from tests.unit.connectors.source.source_harness import SourceHarness

TOPIC = "mm2-group-readiness.A.internal"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_connectors, "EVERY", 0.02)


def put(cluster: FakeCluster, connector: str, task: str, record: TaskRecord | None) -> None:
    log = cluster.logs[TopicPartition(TOPIC, 0)]
    key = RecordKey(connector, TaskRecord.kind, task).encode()
    log.rows.append(Row(log.end, 0, key, None if record is None else encode(record)))
    log.end += 1


def test_those_whose_tasks_have_all_told_are_known() -> None:
    harness = SourceHarness()

    def known() -> dict[str, tuple[int, int]] | None:
        told = harness.published.summaries[-1].group_connectors
        return None if told is None else {name: each[:2] for name, each in told.items()}

    async def script(instance: SourceInstance) -> None:
        await harness.begin(instance)
        await until(lambda: known() == {})
        harness.target.compacted(TOPIC)
        put(harness.target, "copy", "0", TaskRecord(9, 1, 5, "w"))
        put(harness.target, "groups", "0", TaskRecord(7, 2, 5, "w", groups=True))
        put(harness.target, "others", "0", TaskRecord(3, 1, 5, "w", groups=True))
        await until(lambda: known() == {"others": (3, 5)})
        put(harness.target, "groups", "1", TaskRecord(8, 2, 6, "w", groups=True))
        await until(lambda: known() == {"others": (3, 5), "groups": (7, 6)})
        put(harness.target, "others", "0", None)
        await until(lambda: known() == {"groups": (7, 6)})
        harness.target.topic_trouble[TOPIC] = KafkaFailure(KafkaFault.NOT_AUTHORIZED, "no READ")
        await until(lambda: known() == {})
        assert "no READ" in harness.published.summaries[-1].groups_unread

    harness.play(script)
