"""Stock's cases of its checkpoint connector and task that take a whole round here: rows by the names of its tests."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from bridge.errors import ConfigRejected, KafkaFailure, KafkaFault
from bridge.mm2.records import OffsetSync
from bridge.model.values import Committed, TopicPartition
from connectors import cluster_away, internal_topics
from connectors.checkpoint.task import CheckpointInstance
from tests.unit.connectors.checkpoint.checkpoint_harness import (
    SYNCS,
    TOPIC,
    CheckpointHarness,
    put,
    put_checkpoint,
    put_sync,
)
from tests.unit.connectors.fake_clusters import JUNK, FakeCluster, Log, mirrored

UNREACHABLE = KafkaFailure(KafkaFault.UNREACHABLE, "nobody there")
FORBIDDEN = KafkaFailure(KafkaFault.NOT_AUTHORIZED, "Topic authorization failed")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_away, "FIRST_RETRY_SECONDS", 0.005)
    monkeypatch.setattr(cluster_away, "LONGEST_RETRY_SECONDS", 0.02)
    monkeypatch.setattr(internal_topics, "PAUSES", (0.0, 0.0, 0))


def at(offset: int) -> tuple[FakeCluster, FakeCluster]:
    source, target = mirrored()
    source.topic(SYNCS, Log())
    source.group("g", {("orders", 0): offset})
    return source, target


def harness(source: FakeCluster, target: FakeCluster, given: Mapping[str, str]) -> CheckpointHarness:
    return CheckpointHarness(source, target, given, emit_interval=0.02, sync_interval=0.02)


# -- which groups ------------------------------------------------------------------------------------------------------

GROUPS: dict[str, list[str]] = {"g1": ["t1", "t2"], "g2": ["t2", "t3"], "g3": ["t3"], "g4": ["t2"]}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({}, set(GROUPS), id="MirrorCheckpointConnectorTest.testFindConsumerGroups"),
        pytest.param(
            {"topics": ""}, set(), id="MirrorCheckpointConnectorTest.testFindConsumerGroups-no topic"
        ),
        pytest.param(
            {"topics": "t2", "groups_exclude": "g4"},
            {"g1", "g2"},
            id="MirrorCheckpointConnectorTest.testFindConsumerGroupsInCommonScenarios",
        ),
    ],
)
def test_find_consumer_groups(given: dict[str, str], expected: set[str]) -> None:
    source, target = mirrored(topics=("t1", "t2", "t3"))
    source.topic(SYNCS, Log())
    for group, topics in GROUPS.items():
        source.group(group, {(topic, 0): 5 for topic in topics})
    published = harness(source, target, given).play_rounds()
    assert {checkpoint.group for checkpoint in published.checkpoints} == expected
    assert set(published.reports) == expected


def test_no_consumer_group() -> None:
    """MirrorCheckpointConnectorTest.testNoConsumerGroup: stock makes no task then; ours waits for groups."""
    source, target = mirrored()
    source.topic(SYNCS, Log())
    running = CheckpointHarness(source, target)

    async def script(_: CheckpointInstance) -> None:
        assert (await running.rounds()).errors == []
        assert running.published.emitted == []
        source.group("late", {("orders", 0): 5})
        await running.summaries(5)
        assert running.published.offsets == [(5, 5 + JUNK)]

    running.play(script)


def test_consumer_group_initialize_timeout() -> None:
    """MirrorCheckpointConnectorTest.testConsumerGroupInitializeTimeout: stock makes no task, and Connect asks it again;
    ours says so, and asks itself."""
    source, target = at(5)
    running = CheckpointHarness(source, target)

    async def script(_: CheckpointInstance) -> None:
        source.away = KafkaFailure(KafkaFault.TIMEOUT, "no answer in time")
        summary = await running.summaries(3)
        assert summary.errors == ["source cluster: no answer in time"]
        assert running.published.emitted == []
        source.away = None
        await running.rounds()
        assert running.published.offsets == [(5, 5 + JUNK)]

    running.play(script)


# -- internal topics ---------------------------------------------------------------------------------------------------


def test_checkpoint_store_initialized() -> None:
    """MirrorCheckpointTaskTest.testCheckpointStoreInitialized: nothing is emitted before the checkpoints are read."""
    source, target = at(12)
    put_checkpoint(target, "g", 9, 9 + JUNK)
    target.topic_trouble[TOPIC] = UNREACHABLE
    running = CheckpointHarness(source, target)

    async def script(_: CheckpointInstance) -> None:
        await running.summaries(3)
        assert running.published.emitted == []
        target.topic_trouble.clear()
        await running.rounds()
        assert running.published.offsets == [(12, 12 + JUNK)]

    running.play(script)


@pytest.mark.parametrize(
    ("readable", "emitted"),
    [
        pytest.param(False, [], id="CheckpointStoreTest.testReadCheckpointsTopicError"),
        pytest.param(True, [(10, 6 + JUNK)], id="with checkpoints all syncs count"),
    ],
)
def test_syncs_where_checkpoints_can_not_be_read(readable: bool, emitted: list[tuple[int, int]]) -> None:
    """Stock's start goes on without checkpoints then; an older sync than the last may have given a higher answer
    before, so that the last ones only are used."""
    source, target = at(10)
    for upstream in (5, 15):
        put_sync(source, upstream, upstream + JUNK)
    put_checkpoint(target, "other", 0, 0)
    if not readable:
        target.topic_trouble[TOPIC] = FORBIDDEN
    published = harness(source, target, {"translation.evidence": "syncs"}).play_rounds()
    assert published.offsets == emitted
    assert [error for error in published.summaries[-1].errors if TOPIC in error and readable] == []
    if not readable:
        assert any(TOPIC in error and str(FORBIDDEN) in error for error in published.summaries[-1].errors)


@pytest.mark.parametrize(
    ("location", "topic", "on_target"),
    [
        ("source", "mm2-offset-syncs.B.internal", False),
        ("target", "mm2-offset-syncs.A.internal", True),
        (None, "mm2-offset-syncs.B.internal", False),
    ],
    ids="MirrorSourceConfigTest.testOffsetSyncsTopic-{}".format,
)
def test_offset_syncs_topic(location: str | None, topic: str, on_target: bool) -> None:
    """Read where the mirror writes it; there is one sync, which nothing else knows of."""
    source, target = at(10)
    sync = OffsetSync(TopicPartition("orders", 0), 10, 3)
    put(target if on_target else source, topic, sync.key(), sync.value())
    given = {"translation.evidence": "syncs"}
    if location is not None:
        given["offset-syncs.topic.location"] = location
    source.group("g", {("orders", 0): Committed(10)})
    published = harness(source, target, given).play_rounds()
    assert published.offsets == [(10, 3)]


def test_offset_syncs_topic_elsewhere() -> None:
    """MirrorSourceConfigTest.testOffsetSyncsTopic"""
    with pytest.raises(ConfigRejected, match="String must be one of: source, target"):
        harness(*mirrored(), {"offset-syncs.topic.location": "something"})
