"""A connector that copies writes so to the readiness topic, for other services."""

from __future__ import annotations

import time

import pytest

from bridge.model.copying import PipelineState, PipelineStatus
from bridge.model.state_records.readiness_records import TaskRecord, decode
from bridge.model.values import TopicPartition
from connectors.source import task
from connectors.source.task import SourceInstance
from tests.support.waiting import until
from tests.unit.connectors.run_instance import NOBODY
from tests.unit.connectors.source.source_harness import SourceHarness

TOPIC = "mm2-group-readiness.A.internal"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "EVERY", 0.02)
    monkeypatch.setattr(task, "AGAIN", 0.02)


def written(harness: SourceHarness) -> list[TaskRecord]:
    """The records, oldest first."""
    decoded = [decode(row.key, row.value) for row in harness.target.logs[TopicPartition(TOPIC, 0)].rows]
    assert {(key.connector, key.kind, key.name) for key, _ in decoded} <= {("mirror", "task", "0")}
    return [value for _, value in decoded if isinstance(value, TaskRecord)]


def test_it_is_written_while_the_connector_copies() -> None:
    harness = SourceHarness()
    harness.target.compacted(TOPIC)

    async def script(instance: SourceInstance) -> None:
        began_ms = int(time.time() * 1000)
        await harness.begin(instance)
        await until(lambda: len(written(harness)) > 1)
        assert began_ms <= written(harness)[0].as_of_ms <= time.time() * 1000
        harness.pipeline.status = PipelineStatus(PipelineState.FAILED)
        await until_quiet(harness)
        harness.pipeline.status = PipelineStatus(PipelineState.COPYING)
        count = len(written(harness))
        await until(lambda: len(written(harness)) > count)
        instance.assign(NOBODY)
        await until_quiet(harness)

    harness.play(script)


def test_it_never_makes_the_topic_and_begins_once_there_is_one() -> None:
    harness = SourceHarness()

    async def script(instance: SourceInstance) -> None:
        await harness.begin(instance)
        asked = harness.target.calls["topics"]
        await until(lambda: harness.target.calls["topics"] > asked + 2)
        assert not harness.target.calls["append"]
        harness.target.compacted(TOPIC)
        await until(lambda: bool(written(harness)))

    harness.play(script)


async def until_quiet(harness: SourceHarness) -> None:
    """Waits until no record comes for ten times as long as one takes."""
    count, since = len(written(harness)), time.monotonic()

    def quiet() -> bool:
        nonlocal count, since
        if len(written(harness)) != count:
            count, since = len(written(harness)), time.monotonic()
        return time.monotonic() - since > 0.2

    await until(quiet)
