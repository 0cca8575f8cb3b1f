"""How many groups, topics or partitions one request names at most: what a broker answers of more takes too long, or too
much memory."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from bridge.kafka.admin.inspection import Inspection
from bridge.kafka.cluster import KafkaCluster
from bridge.kafka.config.settings import client_settings
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.producer.producer import TransactionalProducer
from bridge.kafka.protocol.log_requests import NO_OPERATIONS
from bridge.kafka.protocol.wire import ApiKeys, Call, Reader, Writer
from bridge.model.copying import Copied
from bridge.model.values import CopyId, Side
from bridge.pipeline.driver import denied
from bridge.pipeline.layouts.ownership import Dropper
from bridge.pipeline.layouts.records import read_layouts
from tests.unit.pipeline.values import copied, spec

SETTINGS = client_settings(Side.SOURCE, {"source.cluster.bootstrap.servers": "127.0.0.1:1"})
UNKNOWN_TOPIC = 3


def coordinator(answer: Writer, group: str) -> None:
    answer.string(group)
    answer.int32(1)
    answer.string("b")
    answer.int32(9092)
    answer.int16(0)
    answer.string("")


def no_offsets(answer: Writer, group: str) -> None:
    answer.string(group)
    answer.array(0)
    answer.int16(0)


def empty_group(answer: Writer, group: str) -> None:
    answer.int16(0)
    for text in (group, "Empty", "consumer", ""):
        answer.string(text)
    answer.array(0)
    answer.int32(0)


def unknown_topic(answer: Writer, topic: str) -> None:
    answer.int16(UNKNOWN_TOPIC)
    answer.string(topic)
    answer.uuid("00000000-0000-0000-0000-000000000000")
    answer.int8(0)
    answer.array(0)
    answer.int32(NO_OPERATIONS)


ANSWERS = {
    ApiKeys.FIND_COORDINATOR: coordinator,
    ApiKeys.OFFSET_FETCH: no_offsets,
    ApiKeys.DESCRIBE_GROUPS: empty_group,
    ApiKeys.METADATA: unknown_topic,
}


class Broker:
    """Keeps every group, and has no topic. `sizes`: how many names each request had, by API key."""

    def __init__(self) -> None:
        self.sizes: dict[ApiKeys, list[int]] = {}

    async def send(self, node: int | None, call: Call, doing: str, *, apart: bool = False) -> Reader:
        sent = bytes(call.prepare({call.API_KEY: (0, 99)}).encode())
        names = [name.decode() for name in re.findall(rb"[A-Za-z.]*n-\d+", sent)]
        self.sizes.setdefault(call.API_KEY, []).append(len(names))
        answer = Writer(flexible=True)
        answer.int32(0)
        if call.API_KEY is ApiKeys.METADATA:
            answer.array(0)
            answer.string("cluster")
            answer.int32(1)
        answer.array(len(names))
        for name in names:
            ANSWERS[call.API_KEY](answer, name)
            answer.tags()
        return Reader(bytes(answer.encode()), flexible=True)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    """Whoever sends a request sends it to this one."""
    there = Broker()
    monkeypatch.setattr(NetworkClient, "send", there.send)
    return there


def names(count: int) -> list[str]:
    return [f"n-{number}" for number in range(count)]


def with_cluster(work: Callable[[KafkaCluster], Awaitable[object]]) -> None:
    async def go() -> None:
        cluster = KafkaCluster(SETTINGS)
        try:
            await work(cluster)
        finally:
            await cluster.close()

    asyncio.run(go())


def test_coordinators_are_looked_for_500_groups_at_a_time(broker: Broker) -> None:
    async def go() -> None:
        client = NetworkClient(SETTINGS.raw)
        nodes, errors = await client.coordinators(names(1001))
        assert (sorted(nodes[1]), errors) == (sorted(names(1001)), {})

    asyncio.run(go())
    assert broker.sizes == {ApiKeys.FIND_COORDINATOR: [500, 500, 1]}


def test_committed_offsets_are_read_200_groups_at_a_time(broker: Broker) -> None:
    with_cluster(lambda cluster: cluster.committed(names(401)))
    assert broker.sizes[ApiKeys.OFFSET_FETCH] == [200, 200, 1]


def test_groups_are_described_200_at_a_time(broker: Broker) -> None:
    with_cluster(lambda cluster: cluster.group_states(names(401)))
    assert broker.sizes[ApiKeys.DESCRIBE_GROUPS] == [200, 200, 1]


def test_topics_are_described_500_at_a_time(broker: Broker) -> None:
    with_cluster(lambda cluster: cluster.topics(names(1001)))
    assert broker.sizes == {ApiKeys.METADATA: [500, 500, 1]}


def test_doctor_describes_500_topics_at_a_time(broker: Broker) -> None:
    async def go() -> None:
        inspection = Inspection(SETTINGS.raw)
        try:
            await inspection.topics(names(1001))
        finally:
            await inspection.close()

    asyncio.run(go())
    assert broker.sizes == {ApiKeys.METADATA: [500, 500, 1]}


def test_doctor_describes_500_groups_at_a_time(broker: Broker) -> None:
    async def go() -> None:
        inspection = Inspection(SETTINGS.raw)
        try:
            assert len(await inspection.groups(names(1001))) == 1001
        finally:
            await inspection.close()

    asyncio.run(go())
    assert broker.sizes[ApiKeys.DESCRIBE_GROUPS] == [500, 500, 1]


def copies() -> list[Copied]:
    return [copied(topic=name) for name in names(1001)]


def test_rights_are_asked_for_500_topics_at_a_time(broker: Broker) -> None:
    async def go() -> None:
        source = NetworkClient(SETTINGS.raw)
        rights = denied.Rights(spec({"target.cluster.bootstrap.servers": "127.0.0.1:1"}), source)
        try:
            assert await rights.allowed(copies()) == copies()
        finally:
            await rights.close()
            await source.close()

    asyncio.run(go())
    assert broker.sizes == {ApiKeys.METADATA: [500, 500, 1] * 2}


def test_deleted_topics_are_looked_for_500_at_a_time(broker: Broker) -> None:
    """On the target, then on the source."""

    async def go() -> None:
        client = NetworkClient(SETTINGS.raw)
        keys = {CopyId(each.source, each.target_topic): [b""] for each in copies()}
        nobody = cast("TransactionalProducer", None)
        dropper = Dropper(spec(), client, client)
        assert await dropper.drop(nobody, read_layouts([], spec()), keys, ()) == set()
        await client.close()

    asyncio.run(go())
    assert broker.sizes == {ApiKeys.METADATA: [500, 500, 1] * 2}
