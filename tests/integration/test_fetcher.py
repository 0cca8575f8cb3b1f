"""Fetching from a real broker: what it is told, what it sends, and what must never pass for records of ours."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import pytest
from aiokafka.record.default_records import DefaultRecordBatch

from bridge.kafka.config.settings import client_settings
from bridge.kafka.consumer.fetcher import CompletedFetch, Fetcher, FetchError, FetchErrorKind, FetchPosition
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol import log_requests
from bridge.kafka.protocol.wire import Call
from bridge.kafka.record.coalescing import DataBatches
from bridge.local import Cluster
from bridge.model.values import Side, TopicPartition
from tests.support import (
    create_topic,
    delete_records,
    delete_topic,
    numbered,
    produce,
    produce_transaction,
    unique,
)
from tests.support.waits import WAIT

T = TypeVar("T")


class Reading:
    """A fetcher, and what it has handed out: values by partition, troubles, log ends."""

    def __init__(self, client: NetworkClient, **limits: Any) -> None:
        self.client = client
        self.fetcher = Fetcher(client, **{"committed_only": True, **limits})
        self.values: dict[int, list[bytes | None]] = {}
        self.troubles: dict[int, FetchError] = {}
        self.ends: dict[int, tuple[int, int, int]] = {}

    async def begin(self, topic: str, partitions: int, *, by_name: bool = False) -> str:
        topic_id = (await self.client.metadata([topic]))[topic].topic_id
        starts = {
            TopicPartition(topic, number): FetchPosition("" if by_name else topic_id, 0)
            for number in range(partitions)
        }
        await self.fetcher.start()
        self.fetcher.assign(starts)
        return topic_id

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT):
            while not true():
                for part in await self.fetcher.poll(0.5):
                    self.take(part)

    def take(self, part: CompletedFetch) -> None:
        number = part.tp.partition
        if part.error is not None:
            self.troubles[number] = part.error
            return
        self.ends[number] = (part.log_start, part.last_stable, part.high_watermark)
        if part.records:
            batches = DataBatches.committed(part.records, part.offset, part.aborted)
            values = self.values.setdefault(number, [])
            values += (value for batch in batches.batches for value in _values(batch.data, part.offset))
            self.fetcher.done(part, batches.next_offset, batches.leader_epoch)

    async def first(self) -> CompletedFetch:
        """The first part with records; it is in hand until it is taken."""
        async with asyncio.timeout(WAIT):
            while True:
                for part in await self.fetcher.poll(0.5):
                    if part.records:
                        return part

    def count(self, partition: int = 0) -> int:
        return len(self.values.get(partition, ()))


def make_anew(bootstrap: str, topic: str, records: int) -> None:
    delete_topic(bootstrap, topic)
    create_topic(bootstrap, topic)
    produce(bootstrap, topic, numbered(records, start=1000))


def _values(data: memoryview, offset: int) -> list[bytes | None]:
    return [record.value for record in DefaultRecordBatch(bytes(data)) if record.offset >= offset]


def reading(bootstrap: str, work: Callable[[Reading], Awaitable[T]], **limits: Any) -> T:
    async def go() -> T:
        client = NetworkClient(
            client_settings(Side.SOURCE, {"source.cluster.bootstrap.servers": bootstrap}).raw
        )
        reader = Reading(client, **limits)
        try:
            return await work(reader)
        finally:
            await reader.fetcher.close()
            await client.close()
            assert asyncio.all_tasks() == {asyncio.current_task()}

    return asyncio.run(go())


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    """Of each fetch: session epoch, partitions that it names, partitions that it forgets."""
    fetches: list[tuple[int, int, int]] = []
    fetch = log_requests.fetch

    def spy(parts: Mapping[TopicPartition, log_requests.FetchPartition], **how: Any) -> Call:
        params = how["params"]
        fetches.append((params.epoch, len(parts), len(params.forgotten)))
        return fetch(parts, **how)

    monkeypatch.setattr(log_requests, "fetch", spy)
    return fetches


def test_a_session_carries_only_changes(source: Cluster, requests: list[tuple[int, int, int]]) -> None:
    topic = create_topic(source.bootstrap, unique("fetched"), 30)

    async def work(reader: Reading) -> None:
        await reader.begin(topic, 30)
        await reader.until(lambda: len(reader.ends) == 30 and requests[-1][1:] == (0, 0))
        assert requests[0][0] == 0
        assert sum(named for _, named, _ in requests) >= 30
        requests.clear()
        records = [each for number in range(3) for each in numbered(20, partition=number)]
        await asyncio.to_thread(produce, source.bootstrap, topic, records)
        await reader.until(lambda: all(reader.count(number) == 20 for number in range(3)))
        assert reader.values[1] == [each.value for each in numbered(20)]
        # All three go on behind what was read, and are named again for that, and no others are.
        await reader.until(lambda: sum(named for _, named, _ in requests) >= 3)

    reading(source.bootstrap, work)
    assert all(epoch > 0 and named <= 3 and forgotten <= 3 for epoch, named, forgotten in requests)


def test_an_idle_fetch_waits_at_the_broker(source: Cluster, requests: list[tuple[int, int, int]]) -> None:
    topic = create_topic(source.bootstrap, unique("fetched"), 2)

    async def work(reader: Reading) -> None:
        await reader.begin(topic, 2)
        await reader.until(lambda: len(requests) >= 4)
        asyncio.get_running_loop().run_in_executor(None, produce, source.bootstrap, topic, numbered(1))
        await reader.until(lambda: reader.count() == 1)

    began = time.monotonic()
    reading(source.bootstrap, work, max_wait_ms=300)
    assert len(requests) < 20 + (time.monotonic() - began) / 0.3


def test_aborted_records_are_listed_and_open_ones_held_back(source: Cluster) -> None:
    topic = create_topic(source.bootstrap, unique("fetched"))
    produce(source.bootstrap, topic, numbered(3))
    produce_transaction(source.bootstrap, topic, numbered(4, start=100), commit=False)
    produce_transaction(source.bootstrap, topic, numbered(5, start=3))

    async def work(reader: Reading) -> None:
        await reader.begin(topic, 1)
        await reader.until(lambda: reader.count() == 8)
        assert reader.values[0] == [each.value for each in numbered(8)]

    reading(source.bootstrap, work)


def test_a_topic_made_anew_is_never_taken_for_the_old_one(source: Cluster) -> None:
    """Deleted, made again and overtaken between two fetches."""
    topic = create_topic(source.bootstrap, unique("fetched"))
    produce(source.bootstrap, topic, numbered(100))

    async def work(reader: Reading) -> None:
        await reader.begin(topic, 1)
        part = await reader.first()
        await asyncio.to_thread(make_anew, source.bootstrap, topic, 300)
        reader.take(part)
        await reader.until(lambda: bool(reader.troubles))
        assert reader.troubles == {0: FetchError(FetchErrorKind.UNKNOWN_TOPIC_ID)}
        assert reader.count() == 100
        # Set anew, it goes on with what is there now.
        topic_id = (await reader.client.metadata([topic]))[topic].topic_id
        reader.fetcher.assign({TopicPartition(topic, 0): FetchPosition(topic_id, 0)})
        await reader.until(lambda: reader.count() == 100 + 300)

    reading(source.bootstrap, work)


def test_by_name_the_check_sees_what_the_fetch_does_not(source: Cluster) -> None:
    topic = create_topic(source.bootstrap, unique("fetched"))
    other = create_topic(source.bootstrap, unique("fetched"))
    produce(source.bootstrap, topic, numbered(100))
    place = TopicPartition(topic, 0)

    async def work(reader: Reading) -> None:
        topic_id = await reader.begin(topic, 1)
        # A topic of unknown id makes all be fetched by name.
        reader.fetcher.assign(
            {place: FetchPosition(topic_id, 0), TopicPartition(other, 0): FetchPosition("", 0)}
        )
        part = await reader.first()
        await asyncio.to_thread(make_anew, source.bootstrap, topic, 300)
        reader.take(part)
        await reader.until(lambda: reader.count() == 300)
        assert reader.values[0][100] == b"value-1100"  # the other topic's, and 100 before it are skipped
        assert await reader.fetcher.check() == {place: FetchError(FetchErrorKind.UNKNOWN_TOPIC_ID)}

    reading(source.bootstrap, work)


def test_without_ids_a_log_that_ends_below_is_seen(source: Cluster) -> None:
    topic = create_topic(source.bootstrap, unique("fetched"))
    produce(source.bootstrap, topic, numbered(100))
    place = TopicPartition(topic, 0)

    async def work(reader: Reading) -> None:
        await reader.begin(topic, 1, by_name=True)
        part = await reader.first()
        await asyncio.to_thread(make_anew, source.bootstrap, topic, 30)
        reader.take(part)
        assert await reader.fetcher.check() == {
            place: FetchError(FetchErrorKind.DIVERGED, epoch=0, end_offset=30)
        }
        await reader.until(lambda: bool(reader.troubles))
        assert reader.troubles == {0: FetchError(FetchErrorKind.OUT_OF_RANGE, log_start=0, log_end=30)}

    reading(source.bootstrap, work)


def test_a_log_that_begins_above_the_position(source: Cluster) -> None:
    topic = create_topic(source.bootstrap, unique("fetched"), 2)
    produce(source.bootstrap, topic, numbered(100))
    delete_records(source.bootstrap, topic, {0: 60})

    async def work(reader: Reading) -> None:
        await reader.begin(topic, 2)
        await reader.until(lambda: bool(reader.troubles))
        assert reader.troubles == {0: FetchError(FetchErrorKind.OUT_OF_RANGE, log_start=60, log_end=100)}
        # The other partition goes on.
        await asyncio.to_thread(produce, source.bootstrap, topic, numbered(5, partition=1))
        await reader.until(lambda: reader.count(1) == 5)

    reading(source.bootstrap, work)


def test_what_is_not_done_is_bounded(source: Cluster) -> None:
    topic = create_topic(source.bootstrap, unique("fetched"), 4)
    for number in range(4):
        produce(source.bootstrap, topic, numbered(4000, partition=number), batch_size=2000, linger_ms=5)

    async def work(reader: Reading) -> None:
        await reader.begin(topic, 4)
        held: list[CompletedFetch] = []
        async with asyncio.timeout(WAIT):
            while sum(len(part.records) for part in held) < 24_000:
                held += await reader.fetcher.poll(0.5)
        held += await reader.fetcher.poll(0.5)
        assert sum(len(part.records) for part in held) < 24_000 + 16_000
        assert len([part for part in held if part.records]) == len({part.tp for part in held if part.records})
        for part in held:
            reader.take(part)
        await reader.until(lambda: all(reader.count(number) == 4000 for number in range(4)))
        assert all(reader.values[number] == [each.value for each in numbered(4000)] for number in range(4))

    reading(source.bootstrap, work, max_bytes=32_000, partition_bytes=16_000)


def test_a_partition_in_hand_does_not_hold_up_the_others(source: Cluster) -> None:
    topic = create_topic(source.bootstrap, unique("fetched"), 2)
    produce(source.bootstrap, topic, numbered(10))

    async def work(reader: Reading) -> None:
        await reader.begin(topic, 2)
        part = await reader.first()
        await asyncio.to_thread(produce, source.bootstrap, topic, numbered(10, partition=1))
        await reader.until(lambda: reader.count(1) == 10)
        assert reader.count(0) == 0
        reader.take(part)
        assert reader.count(0) == 10

    reading(source.bootstrap, work)


def test_a_missing_topic_is_told_and_costs_no_other(source: Cluster) -> None:
    topic = create_topic(source.bootstrap, unique("fetched"))
    produce(source.bootstrap, topic, numbered(10))
    missing = TopicPartition(unique("missing"), 7)

    async def work(reader: Reading) -> None:
        topic_id = await reader.begin(topic, 1)
        places = {
            TopicPartition(topic, 0): FetchPosition(topic_id, 0),
            missing: FetchPosition(str(uuid.uuid4()), 0),
        }
        reader.fetcher.assign(places)
        await reader.until(lambda: reader.count() == 10)
        assert list(reader.fetcher.errors) == [missing]
        await reader.until(lambda: bool(reader.troubles))
        assert reader.troubles == {7: FetchError(FetchErrorKind.UNKNOWN_TOPIC_ID)}
        assert not reader.fetcher.errors

    reading(source.bootstrap, work)
