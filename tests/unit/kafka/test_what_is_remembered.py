"""What clients and clusters remember of topics and groups ends with them: a service runs for years, topics for days."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka import expiring_cache
from bridge.kafka.cluster import KafkaCluster
from bridge.kafka.config.settings import client_settings
from bridge.kafka.consumer.record_lookups import Lookups
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol import group_requests, log_requests
from bridge.kafka.protocol.log_requests import PartitionMetadata, TopicMetadata
from bridge.kafka.protocol.wire import ApiKeys, Call, Reader
from bridge.model.topics import ConfigEntry, ConfigSource
from bridge.model.values import Side, TopicPartition

ROUNDS, A_ROUND = 200, 100
"""20,000 topics and groups, a hundred at a time."""
PROPS = {"target.cluster.bootstrap.servers": "127.0.0.1:1"}
UNKNOWN = 3


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Ten minutes to a round."""
    clock = Clock()
    monkeypatch.setattr(expiring_cache, "time", clock)
    monkeypatch.setattr("bridge.kafka.cluster.time", clock)
    return clock


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> dict[str, TopicMetadata]:
    """Topics of the cluster; what is asked for and not among them is unknown."""
    topics: dict[str, TopicMetadata] = {}
    asked: list[str] = []
    real = log_requests.metadata

    def metadata(names: object) -> Call:
        asked[:] = list(names or topics)  # type: ignore[call-overload]
        return real(asked)

    def read(answer: Reader, version: int) -> Mapping[str, TopicMetadata]:
        return {name: topics.get(name, TopicMetadata(UNKNOWN, "", {})) for name in asked}

    async def send(
        self: NetworkClient, node: int | None, call: Call, doing: str, *, apart: bool = False
    ) -> Reader:
        call.API_VERSION = 12
        return Reader(b"", flexible=False)

    monkeypatch.setattr(log_requests, "metadata", metadata)
    monkeypatch.setattr(log_requests, "read_metadata", read)
    monkeypatch.setattr(group_requests, "read_coordinators", lambda _: dict.fromkeys(requested, (0, 7)))
    monkeypatch.setattr(group_requests, "find_coordinators", find_coordinators)
    monkeypatch.setattr(NetworkClient, "send", send)
    return topics


requested: list[str] = []


def find_coordinators(groups: list[str]) -> Call:
    requested[:] = groups
    return Call(ApiKeys.FIND_COORDINATOR, versions=range(4, 5), flexible_from=3, write=lambda *_: None)


def meta(name: str) -> TopicMetadata:
    return TopicMetadata(0, f"id-of-{name}", {0: PartitionMetadata(0, 7, 1)})


def test_a_client_remembers_what_was_asked_for_lately(there: dict[str, TopicMetadata], clock: Clock) -> None:
    async def work() -> None:
        client = NetworkClient(client_settings(Side.TARGET, PROPS).raw)
        most = 0
        for number in range(ROUNDS):
            names = [f"t-{number}-{each}" for each in range(A_ROUND)]
            there.clear()
            there.update({name: meta(name) for name in [*names, "stays"]})
            await client.metadata([*names, "stays"])
            nodes, failed = client.by_leader([TopicPartition(name, 0) for name in [*names, "stays"]])
            assert (len(nodes[7]), failed) == (A_ROUND + 1, {})
            await client.coordinators([f"g-{number}-{each}" for each in range(A_ROUND)])
            most = max(most, client.remembered)
            clock.now += 600.0
        assert client.topic_id("stays") == "id-of-stays"
        assert most <= 2 * (3600 // 600 + 1) * 2 * A_ROUND + 2, most

    asyncio.run(work())


def test_a_topic_that_is_gone_is_forgotten_at_once(there: dict[str, TopicMetadata]) -> None:
    async def work() -> None:
        client = NetworkClient(client_settings(Side.TARGET, PROPS).raw)
        there.update({name: meta(name) for name in ("a", "b")})
        await client.metadata(["a", "b"])
        del there["a"]
        assert (await client.metadata(["a"]))["a"].error == UNKNOWN
        nodes, failed = client.by_leader([TopicPartition("a", 0), TopicPartition("b", 0)])
        assert nodes == {7: [TopicPartition("b", 0)]}
        assert failed[TopicPartition("a", 0)].fault is KafkaFault.UNKNOWN_TOPIC
        assert (client.topic_id("a"), client.remembered) == ("", 1)
        # One that has no leader for a moment is not gone.
        there["b"] = TopicMetadata(5, "", {})
        await client.metadata(["b"])
        assert client.topic_id("b") == "id-of-b"

    asyncio.run(work())


def test_a_slice_that_is_idle_for_its_whole_lease_still_knows_the_leaders(
    there: dict[str, TopicMetadata], clock: Clock
) -> None:
    async def work() -> None:
        client = NetworkClient(client_settings(Side.TARGET, PROPS).raw)
        there["a"] = meta("a")
        await client.metadata(["a"])
        clock.now += 3590.0
        assert client.by_leader([TopicPartition("a", 0)])[1] == {}

    asyncio.run(work())


def test_a_cluster_remembers_the_configs_of_topics_that_are_asked_for(
    there: dict[str, TopicMetadata], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def configs(_: object, topics: list[str]) -> AsyncIterator[dict[str, dict[str, ConfigEntry]]]:
        asked.extend(topics)
        yield {
            name: {
                "cleanup.policy": ConfigEntry("delete", ConfigSource.DEFAULT),
                "message.timestamp.type": ConfigEntry(
                    "LogAppendTime" if name == "stays" else "CreateTime", ConfigSource.DEFAULT
                ),
            }
            for name in topics
        }

    monkeypatch.setattr("bridge.kafka.cluster.configs_in_parts", configs)

    async def work() -> None:
        cluster = KafkaCluster(client_settings(Side.TARGET, PROPS))
        most = 0
        for number in range(ROUNDS):
            names = [f"t-{number}-{each}" for each in range(A_ROUND)]
            there.clear()
            there.update({name: meta(name) for name in [*names, "stays"]})
            infos = await cluster.topics([*names, "stays"])
            stays = infos["stays"]
            assert not isinstance(stays, KafkaFailure)
            assert stays.log_append_time
            most = max(most, cluster.remembered)
            clock.now += 60.0
        assert asked.count("stays") == pytest.approx(ROUNDS * 60 / 600, abs=2), (
            "asked again every ten minutes"
        )
        a_minute = A_ROUND + 1
        assert most <= a_minute * (2 * 61 + 2 * 11), most

    asyncio.run(work())


def test_records_show_a_timestamp_type_before_configs_are_described_again(
    there: dict[str, TopicMetadata], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        cluster = KafkaCluster(client_settings(Side.TARGET, PROPS))
        there["orders"] = meta("orders")
        for seen in (set[str](), {there["orders"].topic_id}):
            monkeypatch.setattr(Lookups, "append_time", lambda _, topic_id, seen=seen: topic_id in seen)
            infos = await cluster.topics(["orders"])
            assert not isinstance(infos["orders"], KafkaFailure)
            assert infos["orders"].log_append_time is bool(seen)
            assert not infos["orders"].sets_append_time, "records say nothing of the configuration"

    monkeypatch.setattr("bridge.kafka.cluster.configs_in_parts", no_configs)
    asyncio.run(work())


def test_configs_are_described_again_where_records_show_another_timestamp_type(
    there: dict[str, TopicMetadata], monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """Also where it was set back: what the topic had for a while is no lasting no."""
    now = "CreateTime"

    async def configs(_: object, topics: list[str]) -> AsyncIterator[dict[str, dict[str, ConfigEntry]]]:
        yield {
            name: {
                "cleanup.policy": ConfigEntry("delete", ConfigSource.DEFAULT),
                "message.timestamp.type": ConfigEntry(now, ConfigSource.DEFAULT),
            }
            for name in topics
        }

    monkeypatch.setattr("bridge.kafka.cluster.configs_in_parts", configs)
    seen: bool | None = None
    monkeypatch.setattr(Lookups, "append_time", lambda _, topic_id: seen)

    async def overwritten(cluster: KafkaCluster) -> bool:
        info = (await cluster.topics(["orders"]))["orders"]
        assert not isinstance(info, KafkaFailure)
        return info.log_append_time

    async def work() -> None:
        nonlocal now, seen
        cluster = KafkaCluster(client_settings(Side.TARGET, PROPS))
        there["orders"] = meta("orders")
        assert not await overwritten(cluster)
        now, seen = "LogAppendTime", True
        assert await overwritten(cluster), "at once"
        clock.now += 11
        await overwritten(cluster)
        seen = None
        assert await overwritten(cluster), "as it was described"
        now, seen = "CreateTime", False
        clock.now += 11
        assert not await overwritten(cluster)

    asyncio.run(work())


async def no_configs(_: object, topics: list[str]) -> AsyncIterator[dict[str, dict[str, ConfigEntry]]]:
    yield {}


def test_configs_that_come_too_late_are_left_out_and_asked_for_again(
    there: dict[str, TopicMetadata], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came in time counts."""
    monkeypatch.setattr("bridge.kafka.cluster._CONFIGS_PATIENCE", 0.05)
    asked: list[list[str]] = []

    async def configs(_: object, topics: list[str]) -> AsyncIterator[dict[str, dict[str, ConfigEntry]]]:
        asked.append(list(topics))
        yield {
            topics[0]: {
                "message.timestamp.type": ConfigEntry("LogAppendTime", ConfigSource.DEFAULT),
                "cleanup.policy": ConfigEntry("delete", ConfigSource.DEFAULT),
            }
        }
        await asyncio.Event().wait()

    monkeypatch.setattr("bridge.kafka.cluster.configs_in_parts", configs)

    async def work() -> None:
        cluster = KafkaCluster(client_settings(Side.TARGET, PROPS))
        names = ["first", "second"]
        there.update({name: meta(name) for name in names})
        for late in (["first", "second"], ["second"]):
            infos = await cluster.topics(names)
            assert asked[-1] == late
            assert not isinstance(infos["first"], KafkaFailure)
            assert infos["first"].log_append_time

    asyncio.run(work())
