"""How many groups, topics or partitions one request names at most: what a broker answers of more takes too long, or too
much memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import cast

import pytest

from bridge.kafka.admin import cluster_description
from bridge.kafka.admin.inspection import Inspection
from bridge.kafka.cluster import KafkaCluster
from bridge.kafka.config.settings import client_settings
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.producer.producer import TransactionalProducer
from bridge.kafka.protocol import group_requests
from bridge.kafka.protocol.api_keys import ApiKeys
from bridge.kafka.protocol.group_requests import DescribedGroup
from bridge.kafka.protocol.log_requests import TopicMetadata
from bridge.kafka.protocol.wire import Call, Reader
from bridge.model.copying import Copied
from bridge.model.values import CopyId, GroupState, Side
from bridge.pipeline.driver import denied
from bridge.pipeline.layouts.dropping import Dropper
from bridge.pipeline.layouts.records import read_layouts
from tests.unit.pipeline.values import copied, spec

SETTINGS = client_settings(Side.SOURCE, {"source.cluster.bootstrap.servers": "127.0.0.1:1"})
UNKNOWN_TOPIC = 3


class Requests:
    """The names in each request so far, by its kind."""

    def __init__(self) -> None:
        self.sizes: dict[str, list[int]] = {}
        self.last: list[str] = []

    def of(self, kind: str) -> Callable[[Collection[str]], Call]:
        def make(names: Collection[str], **_: object) -> Call:
            self.sizes.setdefault(kind, []).append(len(names))
            self.last = list(names)
            call = Call(ApiKeys.METADATA, versions=range(10), flexible_from=9, write=lambda *_: None)
            call.API_VERSION = 9
            return call

        return make


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Requests:
    made = Requests()

    async def send(
        self: NetworkClient, node: int | None, call: Call, doing: str, *, apart: bool = False
    ) -> Reader:
        return Reader(b"", flexible=False)

    async def metadata(self: NetworkClient, topics: Collection[str]) -> Mapping[str, TopicMetadata]:
        made.of("metadata")(topics)
        return dict.fromkeys(topics, TopicMetadata(UNKNOWN_TOPIC, "", {}))

    monkeypatch.setattr(NetworkClient, "send", send)
    monkeypatch.setattr(NetworkClient, "metadata", metadata)
    for kind in ("find_coordinators", "fetch_offsets", "describe_groups"):
        monkeypatch.setattr(group_requests, kind, made.of(kind))
    monkeypatch.setattr(group_requests, "read_coordinators", lambda _: dict.fromkeys(made.last, (0, 1)))
    monkeypatch.setattr(group_requests, "read_fetched_offsets", lambda _: dict.fromkeys(made.last, (0, {})))
    described = DescribedGroup(0, GroupState.EMPTY, (), 0)
    monkeypatch.setattr(
        group_requests, "read_described_groups", lambda _: dict.fromkeys(made.last, described)
    )
    for module in (cluster_description, denied):
        monkeypatch.setattr(module, "describe_topics", made.of("describe_topics"))
        monkeypatch.setattr(module, "read_topics", lambda *_: {})
    return made


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


def test_coordinators_are_looked_for_500_groups_at_a_time(requests: Requests) -> None:
    async def go() -> None:
        client = NetworkClient(SETTINGS.raw)
        nodes, errors = await client.coordinators(names(1001))
        assert (sorted(nodes[1]), errors) == (sorted(names(1001)), {})

    asyncio.run(go())
    assert requests.sizes == {"find_coordinators": [500, 500, 1]}


def test_committed_offsets_are_read_200_groups_at_a_time(requests: Requests) -> None:
    with_cluster(lambda cluster: cluster.committed(names(401)))
    assert requests.sizes["fetch_offsets"] == [200, 200, 1]


def test_groups_are_described_200_at_a_time(requests: Requests) -> None:
    with_cluster(lambda cluster: cluster.group_states(names(401)))
    assert requests.sizes["describe_groups"] == [200, 200, 1]


def test_topics_are_described_500_at_a_time(requests: Requests) -> None:
    with_cluster(lambda cluster: cluster.topics(names(1001)))
    assert requests.sizes == {"metadata": [500, 500, 1]}


def test_doctor_describes_500_topics_at_a_time(requests: Requests) -> None:
    async def go() -> None:
        inspection = Inspection(SETTINGS.raw)
        try:
            await inspection.topics(names(1001))
        finally:
            await inspection.close()

    asyncio.run(go())
    assert requests.sizes == {"describe_topics": [500, 500, 1]}


def test_doctor_describes_500_groups_at_a_time(requests: Requests) -> None:
    async def go() -> None:
        inspection = Inspection(SETTINGS.raw)
        try:
            assert len(await inspection.groups(names(1001))) == 1001
        finally:
            await inspection.close()

    asyncio.run(go())
    assert requests.sizes["describe_groups"] == [500, 500, 1]


def copies() -> list[Copied]:
    return [copied(topic=name) for name in names(1001)]


def test_rights_are_asked_for_500_topics_at_a_time(requests: Requests) -> None:
    async def go() -> None:
        source = NetworkClient(SETTINGS.raw)
        rights = denied.Rights(spec({"target.cluster.bootstrap.servers": "127.0.0.1:1"}), source)
        try:
            assert await rights.allowed(copies()) == copies()
        finally:
            await rights.close()
            await source.close()

    asyncio.run(go())
    assert requests.sizes == {"describe_topics": [500, 500, 1] * 2}


def test_deleted_topics_are_looked_for_500_at_a_time(requests: Requests) -> None:
    """On the target, then on the source."""

    async def go() -> None:
        client = NetworkClient(SETTINGS.raw)
        keys = {CopyId(each.source, each.target_topic): [b""] for each in copies()}
        nobody = cast("TransactionalProducer", None)
        dropper = Dropper(spec(), client, client)
        assert await dropper.drop(nobody, read_layouts([], spec()), keys, ()) == set()
        await client.close()

    asyncio.run(go())
    assert requests.sizes == {"metadata": [500, 500, 1] * 2}
