"""Making internal topics of the target: what is true of them after it."""

from __future__ import annotations

import asyncio

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from connectors import internal_topics
from connectors.groups.trouble import ClusterAway
from connectors.internal_topics import make
from tests.unit.fake_clusters import FakeCluster

FORBIDDEN = KafkaFailure(KafkaFault.NOT_AUTHORIZED, "Topic authorization failed")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(internal_topics, "_APPEARS", (0.0, 0.001, 0.001))


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


def made(target: FakeCluster) -> KafkaFailure | None:
    return asyncio.run(make(target, "heartbeats", 3, 1000))


def test_a_topic_that_is_there_is_made() -> None:
    target = FakeCluster()
    assert made(target) is None
    assert made(target) is None
    assert target.created == 2 * [("heartbeats", 3)]


def test_a_topic_that_may_not_be_created_and_is_not_there_is_a_failure() -> None:
    failed = made(MayNotCreate())
    assert failed is not None
    assert failed.fault is KafkaFault.UNKNOWN_TOPIC
    for words in ("heartbeats", "not allowed to create", "CREATE", "cleanup.policy=compact"):
        assert words in str(failed)


def test_a_broker_may_learn_late_of_what_was_made() -> None:
    assert made(MayNotCreate(appears_at=3)) is None


def test_of_a_topic_that_may_not_be_described_nobody_can_tell() -> None:
    target = MayNotCreate()
    target.topic_trouble["heartbeats"] = FORBIDDEN
    assert made(target) is None


def test_what_stock_raises_is_answered() -> None:
    target = FakeCluster()
    target.create_trouble["heartbeats"] = FORBIDDEN
    assert made(target) is FORBIDDEN
    target.away = KafkaFailure(KafkaFault.UNREACHABLE, "nobody there")
    with pytest.raises(ClusterAway):
        made(target)
