"""Making internal topics of the target: what is true of them after it."""

from __future__ import annotations

import asyncio
import logging

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from connectors import internal_topics
from connectors.checkpoint.task import CheckpointInstance
from connectors.cluster_away import ClusterAway
from connectors.internal_topics import make
from tests.support.messages import message
from tests.unit.connectors.checkpoint.checkpoint_harness import SYNCS, TOPIC, CheckpointHarness
from tests.unit.connectors.fake_clusters import FakeCluster, Log

KEY = "heartbeats.topic.replication.factor"
FORBIDDEN = KafkaFailure(KafkaFault.NOT_AUTHORIZED, "Topic authorization failed")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(internal_topics, "PAUSES", (0.001, 0.001, 2))


class MayNotCreate(FakeCluster):
    """Stock swallows that, and so does the adapter; `appears_at`: the look at which somebody has made the topic."""

    def __init__(self, appears_at: int = 0) -> None:
        super().__init__()
        self._appears_at = appears_at

    async def create_compacted_topic(self, name: str, replication_factor: int) -> KafkaFailure | None:
        def appear(call: str) -> None:
            if call == "topics" and self.calls["topics"] == self._appears_at:
                self.ids[name] = "id"

        self.before = appear
        return None


def made(target: FakeCluster, holds: str = "") -> KafkaFailure | None:
    return asyncio.run(make(target, "heartbeats", 3, 1000, holds=holds, key=KEY))


def test_a_replication_factor_above_the_number_of_brokers_is_named_by_its_key() -> None:
    class OneBroker(FakeCluster):
        async def create_compacted_topic(self, name: str, replication_factor: int) -> KafkaFailure | None:
            return KafkaFailure(KafkaFault.REPLICATION_FACTOR, "Error: 1 broker(s) are registered.")

    failure = made(OneBroker())
    assert failure is not None
    assert failure.retriable
    assert str(failure).startswith(f"Error: 1 broker(s) are registered. {KEY} is 3: ")
    assert "-1" in str(failure)


def test_a_topic_that_is_there_is_not_made_again() -> None:
    target = FakeCluster()
    assert made(target) is None
    assert made(target) is None
    assert target.created == [("heartbeats", 3)]


@pytest.mark.parametrize(
    ("policy", "shown"),
    [("delete", "delete"), ("compact,delete", "compact,delete"), (" Delete , compact", "compact,delete")],
)
def test_a_topic_that_is_not_only_compacted_is_refused_in_connects_words(policy: str, shown: str) -> None:
    target = FakeCluster()
    target.topic("heartbeats", Log())
    target.topic_admin.overrides["heartbeats"] = {"cleanup.policy": policy}
    failed = made(target, holds="offset runs")
    assert failed is not None
    assert (failed.fault, failed.retriable) == (KafkaFault.TOPIC_CONFIG, False)
    holds = "offset runs"
    assert str(failed) == message("topics.not_compact", topic="heartbeats", holds=holds, policy=shown)
    target.topic_admin.overrides["heartbeats"] = {"cleanup.policy": " Compact"}
    assert made(target, holds="offset runs") is None


def test_a_topic_that_holds_nothing_to_be_kept_may_be_as_it_likes() -> None:
    target = FakeCluster()
    target.topic("heartbeats", Log())
    assert made(target) is None


def test_who_may_not_describe_configs_goes_on_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    target = FakeCluster()
    target.topic("heartbeats", Log())
    target.topic_admin.trouble["heartbeats"] = FORBIDDEN
    assert made(target, holds="checkpoints") is None
    (line,) = [record.getMessage() for record in caplog.records]
    assert "cleanup.policy of topic heartbeats" in line
    assert "DESCRIBE_CONFIGS" in line


def test_a_broker_may_learn_late_of_the_configs_of_what_was_made() -> None:
    target = FakeCluster()
    target.topic("heartbeats", Log())
    target.topic_admin.overrides["heartbeats"] = {"cleanup.policy": "compact"}
    trouble = target.topic_admin.trouble
    trouble["heartbeats"] = KafkaFailure(KafkaFault.UNKNOWN_TOPIC, "not yet")
    target.before = lambda call: trouble.clear() if target.calls["configs"] == 2 else None
    assert made(target, holds="checkpoints") is None
    assert target.calls["configs"] == 2


def test_configs_that_are_not_told_are_a_failure() -> None:
    target = FakeCluster()
    target.topic("heartbeats", Log())
    target.topic_admin.trouble["heartbeats"] = KafkaFailure(KafkaFault.OTHER, "no answer")
    failed = made(target, holds="checkpoints")
    assert str(failed) == "no answer"


def test_a_topic_that_may_not_be_created_and_is_not_there_is_a_failure() -> None:
    failed = made(MayNotCreate())
    assert failed is not None
    assert failed.fault is KafkaFault.UNKNOWN_TOPIC
    for words in ("heartbeats", "not allowed to create", "CREATE", "cleanup.policy=compact"):
        assert words in str(failed)


def test_a_broker_may_learn_late_of_what_was_made() -> None:
    assert made(MayNotCreate(appears_at=3)) is None


def test_of_a_topic_that_may_not_be_described_nobody_can_tell(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    target = MayNotCreate()
    target.topic_trouble["heartbeats"] = FORBIDDEN
    assert made(target) is None
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == message("topics.not_verified", topic="heartbeats", why="Topic authorization failed")


def test_a_topic_that_may_be_created_and_not_described_is_created() -> None:
    target = FakeCluster()
    target.topic_trouble["heartbeats"] = FORBIDDEN
    assert made(target) is None
    assert target.created == [("heartbeats", 3)]


def test_what_stock_raises_is_answered() -> None:
    target = FakeCluster()
    target.create_trouble["heartbeats"] = FORBIDDEN
    assert made(target) is FORBIDDEN
    target.away = KafkaFailure(KafkaFault.UNREACHABLE, "nobody there")
    with pytest.raises(ClusterAway):
        made(target)


# -- what the checkpoint connector makes of it ---------------------------------------------------------------------


def committed(target: FakeCluster) -> CheckpointHarness:
    source = FakeCluster()
    source.topic("orders", Log())
    source.topic(SYNCS, Log())
    source.group("g", {("orders", 0): 0})
    target.topic("A.orders", Log())
    return CheckpointHarness(source, target)


def test_no_checkpoint_for_a_topic_that_is_missing() -> None:
    """Connect would have the broker make one that is not compacted, or wait for it for ever."""
    target = MayNotCreate()
    harness = committed(target)

    async def script(_: CheckpointInstance) -> None:
        shown = await harness.rounds()
        assert any(TOPIC in error and "not allowed to create" in error for error in shown.errors)
        assert harness.published.emitted == []
        target.compacted(TOPIC)
        target.compacted("mm2-group-readiness.A.internal")
        assert (await harness.rounds(4)).errors == []
        assert harness.published.offsets == [(0, 0)]

    harness.play(script)


def test_no_checkpoint_for_a_topic_that_loses_them() -> None:
    """With `delete` the checkpoint of a group that stands still is gone after the topic's retention."""
    harness = committed(FakeCluster())
    harness.target.topic(TOPIC, Log())
    harness.target.topic_admin.overrides[TOPIC] = {"cleanup.policy": "delete"}

    async def script(_: CheckpointInstance) -> None:
        shown = await harness.rounds()
        assert [error for error in shown.errors if TOPIC in error and "'cleanup.policy=delete'" in error]
        assert (shown.failure, harness.published.emitted) == (None, [])
        harness.target.topic_admin.overrides[TOPIC] = {"cleanup.policy": "compact"}
        assert (await harness.rounds(4)).errors == []
        assert harness.published.offsets == [(0, 0)]

    harness.play(script)


def test_what_arrived_in_a_topic_that_is_no_more_is_emitted_again() -> None:
    """Deleted and made again between two rounds, before the record was seen there."""
    harness = committed(FakeCluster())
    harness.published.held_up = True

    async def script(_: CheckpointInstance) -> None:
        await harness.rounds()
        assert harness.published.offsets == [(0, 0)]
        harness.published.go_on()
        harness.target.topic(TOPIC, Log(), topic_id="another")
        await harness.rounds()
        assert harness.published.offsets == [(0, 0)] * 2

    harness.play(script)
