"""Transactions of our own against a real broker: fencing, aborts, and what others can read meanwhile."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TypeVar

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.cluster import KafkaClusters
from bridge.kafka.consumer.topic_tail import TopicTail
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.producer.producer import (
    SyncProducer,
    TransactionalProducer,
    fence,
    producer_settings,
    record_batches,
)
from bridge.kafka.producer.sender import BatchSender
from bridge.kafka.protocol import produce_requests
from bridge.kafka.protocol.produce_requests import ProducerIdAndEpoch
from bridge.kafka.record.batch import CODEC
from bridge.kafka.record.compression import LZ4
from bridge.kafka.state_topics import read_committed
from bridge.local import DEFAULT_KAFKA, Cluster, LocalStack, kafka_jars
from bridge.model.values import Side, TopicPartition
from tests.support import bounds, create_topic, delete_topic, eventually, read, unique
from tests.support.forms import mostly_long
from tests.support.messages import message_pattern
from tests.support.waits import WAIT
from tests.unit.kafka.record.raw_batches import NOW, Plain, batch_of

T = TypeVar("T")


def batch(*values: bytes, timestamp: int = NOW) -> bytearray:
    return bytearray(batch_of([Plain(timestamp, b"key", value) for value in values]))


class ProducerHarness:
    """Makes producers and clients, and closes them."""

    def __init__(self, bootstrap: str, closing: AsyncExitStack) -> None:
        self.settings = producer_settings(Side.TARGET, {"target.cluster.bootstrap.servers": bootstrap})
        self._closing = closing

    def client(self) -> NetworkClient:
        client = NetworkClient(self.settings)
        self._closing.push_async_callback(client.close)
        return client

    async def producer(self, transactional_id: str, timeout_ms: int = 15_000) -> TransactionalProducer:
        producer = TransactionalProducer(self.settings, transactional_id, timeout_ms)
        self._closing.push_async_callback(producer.close)
        await producer.start()
        return producer

    def syncs(self) -> SyncProducer:
        producer = SyncProducer(self.settings)
        self._closing.push_async_callback(producer.close)
        return producer


def run_producers(target: Cluster, work: Callable[[ProducerHarness], Awaitable[T]]) -> T:
    async def go() -> T:
        async with AsyncExitStack() as closing:
            result = await work(ProducerHarness(target.bootstrap, closing))
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return result

    return asyncio.run(go())


def values(target: Cluster, topic: str, partition: int = 0) -> list[bytes | None]:
    """All that is committed, once nothing is open: brokers say that a transaction is ended before its markers stand in
    the log."""

    def ended() -> None:
        assert bounds(target.bootstrap, topic, committed_only=True) == bounds(target.bootstrap, topic)

    eventually(ended, WAIT, what=f"no transaction in {topic} is open")
    return [record.value for record in read(target.bootstrap, topic, partition, committed_only=True)]


async def fault_of(work: Awaitable[object]) -> KafkaFault | None:
    try:
        await work
    except KafkaFailure as error:
        return error.fault
    return None


def test_batches_and_records_commit_together(target: Cluster) -> None:
    data, state = (create_topic(target.bootstrap, unique("produced"), 2) for _ in range(2))

    async def work(harness: ProducerHarness) -> None:
        producer = await harness.producer(unique("tx"))
        ends = [0, 0]
        for number in range(3):
            await producer.begin()
            answers = [
                producer.send(TopicPartition(data, partition), batch(b"a%d" % number, b"b"), 2)
                for partition in range(2)
            ]
            await producer.send_records(state, [(b"k", b"%d" % number), (b"gone", None)])
            # A transaction's marker takes an offset.
            assert [await each for each in answers] == ends
            await producer.commit()
            ends = [3 * (number + 1)] * 2

    run_producers(target, work)
    expected = [each for number in range(3) for each in (b"a%d" % number, b"b")]
    assert values(target, data, 0) == values(target, data, 1) == expected
    assert [(record.key, record.value) for record in read(target.bootstrap, state)] == [
        pair for number in range(3) for pair in ((b"k", b"%d" % number), (b"gone", None))
    ]


def test_an_aborted_transaction_leaves_nothing_and_the_next_one_goes_on(target: Cluster) -> None:
    topic = create_topic(target.bootstrap, unique("produced"))
    place = TopicPartition(topic, 0)

    async def work(harness: ProducerHarness) -> None:
        producer = await harness.producer(unique("tx"))
        for number in range(3):
            await producer.begin()
            await producer.send(place, batch(b"aborted"), 1)
            unsent = producer.send(place, batch(b"aborted, perhaps before it was sent"), 1)
            await producer.abort()
            await fault_of(unsent)
            await producer.begin()
            await producer.commit()  # an empty one
            await producer.begin()
            producer.send(place, batch(b"%d" % number), 1)
            await producer.commit()
        assert producer.bytes_in_flight == 0

    run_producers(target, work)
    assert values(target, topic) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("when", mostly_long(["sending", "committing"]))
def test_of_two_with_one_id_the_older_is_fenced(target: Cluster, when: str) -> None:
    topic = create_topic(target.bootstrap, unique("produced"))
    place = TopicPartition(topic, 0)
    transactional_id = unique("tx")

    async def work(harness: ProducerHarness) -> None:
        older = await harness.producer(transactional_id)
        await older.begin()
        await older.send(place, batch(b"older"), 1)
        newer = await harness.producer(transactional_id)
        if when == "sending":
            assert await fault_of(older.send(place, batch(b"older"), 1)) is KafkaFault.FENCED
        assert await fault_of(older.commit()) is KafkaFault.FENCED
        # Nor does it get the id back by what follows an error.
        assert await fault_of(older.abort()) is KafkaFault.FENCED
        await newer.begin()
        newer.send(place, batch(b"newer"), 1)
        await newer.commit()

    run_producers(target, work)
    assert values(target, topic) == [b"newer"]


def test_a_fence_ends_every_id_it_names(target: Cluster) -> None:
    topic = create_topic(target.bootstrap, unique("produced"))
    ids = [unique("tx") for _ in range(8)]

    async def work(harness: ProducerHarness) -> None:
        producers = [await harness.producer(each) for each in ids]
        for producer in producers:
            await producer.begin()
            await producer.send(TopicPartition(topic, 0), batch(b"open"), 1)
        await fence(harness.settings, [*ids, unique("never-used")])
        # All is aborted when it returns: nothing hides what comes next.
        assert await read_committed(harness.client(), topic, within=10.0) == []
        assert {await fault_of(each.commit()) for each in producers} == {KafkaFault.FENCED}

    run_producers(target, work)


@pytest.mark.long
def test_an_id_that_has_expired_is_taken_up_again(stack: LocalStack) -> None:
    expiring = {
        "transactional.id.expiration.ms": "1000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
    }
    broker = stack.broker(unique("forgetful"), properties=expiring)
    topic, transactional_id = create_topic(broker.bootstrap, unique("produced")), unique("tx")
    listing = kafka_jars(DEFAULT_KAFKA).command(
        "org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", broker.bootstrap, "list"
    )

    def forgotten() -> bool:
        done = subprocess.run(listing, capture_output=True, text=True, check=True)
        return "TransactionalId" in done.stdout and transactional_id not in done.stdout

    async def work(harness: ProducerHarness) -> None:
        producer = await harness.producer(transactional_id)
        await producer.write(topic, [(b"key", b"before")])
        await asyncio.to_thread(eventually, forgotten, WAIT, what="the broker has forgotten the id")
        await producer.abort()
        await producer.write(topic, [(b"key", b"after")])

    run_producers(broker, work)
    assert values(broker, topic) == [b"before", b"after"]
    broker.close()


def test_an_open_transaction_hides_nothing_that_others_have_committed(target: Cluster) -> None:
    topic = create_topic(target.bootstrap, unique("produced"))

    async def work(harness: ProducerHarness) -> None:
        ours, other = await harness.producer(unique("tx")), await harness.producer(unique("tx"))
        client = harness.client()
        tail = TopicTail(client, topic, committed_only=True)
        await ours.begin()
        await ours.send_records(topic, [(b"k", b"before")])
        await ours.commit()
        await other.begin()
        await other.send(TopicPartition(topic, 0), batch(b"other's"), 1)
        await ours.begin()
        await ours.send_records(topic, [(b"k", b"ours")])
        await ours.commit()
        told = list[bytes | None]()
        while b"ours" not in told:  # which a plain read_committed reader does not see
            told += [each.value for each in (await tail.read()).records]
        assert told == [b"before", b"ours"]
        assert [each.offset for each in tail.undecided] == [2]
        records = await read_committed(client, topic, counts=lambda key: key == b"k")
        assert [each.value for each in records] == [b"before", b"ours"]
        # Where it may count reading says what it waits for, and goes on once that has ended.
        said = message_pattern("kafka.open_transaction", offset=2)
        with pytest.raises(KafkaFailure, match=f"{said}.*{topic}") as caught:
            await read_committed(client, topic, within=0.1)
        assert caught.value.fault is KafkaFault.TIMEOUT
        reading = asyncio.create_task(read_committed(client, topic))
        await other.abort()
        assert [each.value for each in await reading] == [b"before", b"ours"]
        while tail.undecided:
            assert list((await tail.read()).records) == []

    run_producers(target, work)


def test_sequences_wrap_as_the_broker_counts(target: Cluster) -> None:
    topic = create_topic(target.bootstrap, unique("produced"))
    place = TopicPartition(topic, 0)

    async def work(harness: ProducerHarness) -> None:
        client = harness.client()
        answer = await client.send(
            None, produce_requests.init_producer_id(None, -1, ProducerIdAndEpoch()), "ask for a producer id"
        )
        error, id_and_epoch = produce_requests.read_producer_id(answer)
        assert error == 0
        sender = BatchSender(client, None, 5.0)
        sender.restart(id_and_epoch)
        sender.sequences[place] = (1 << 31) - 4
        answers = [sender.send(place, batch(b"%d" % number, b"-", b"-"), 3) for number in range(4)]
        assert [await each for each in answers] == [0, 3, 6, 9]
        assert sender.sequences[place] == 8
        # The check that this is no accident: one that goes on at a negative number is refused.
        sender.sequences[place] = -(1 << 31) + 8
        assert await fault_of(sender.send(place, batch(b"x"), 1)) is KafkaFault.RECORD_REFUSED
        await sender.close()

    run_producers(target, work)


def test_a_refused_record_is_told_with_its_place_and_ends_its_transaction_only(target: Cluster) -> None:
    compacted = create_topic(target.bootstrap, unique("produced"), configs={"cleanup.policy": "compact"})
    small = create_topic(target.bootstrap, unique("produced"), configs={"max.message.bytes": "1000"})
    place = TopicPartition(compacted, 0)

    async def work(harness: ProducerHarness) -> None:
        producer = await harness.producer(unique("tx"))
        await producer.begin()
        no_key = bytearray(batch_of([Plain(NOW, b"k", b"1"), Plain(NOW, None, b"2")]))
        refused = producer.send(place, no_key, 2)
        with pytest.raises(KafkaFailure, match=rf"{compacted}-0.*record 1 of the batch") as caught:
            await refused
        assert (caught.value.fault, caught.value.retriable) == (KafkaFault.RECORD_REFUSED, False)
        assert await fault_of(producer.commit()) is KafkaFault.RECORD_REFUSED
        await producer.abort()
        await producer.begin()
        large = producer.send(TopicPartition(small, 0), batch(b"v" * 2000), 1)
        assert await fault_of(large) is KafkaFault.RECORD_TOO_LARGE
        await producer.abort()
        await producer.begin()
        producer.send(place, batch(b"good"), 1)
        await producer.commit()

    run_producers(target, work)
    assert values(target, compacted) == [b"good"]


def test_a_topic_that_is_gone_ends_the_transaction_in_time(target: Cluster) -> None:
    topic = create_topic(target.bootstrap, unique("produced"))

    async def work(harness: ProducerHarness) -> None:
        producer = await harness.producer(unique("tx"))
        await producer.begin()
        await producer.send(TopicPartition(topic, 0), batch(b"1"), 1)
        await asyncio.to_thread(delete_topic, target.bootstrap, topic)
        assert await fault_of(producer.send(TopicPartition(topic, 0), batch(b"2"), 1)) in (
            KafkaFault.UNKNOWN_TOPIC,
            KafkaFault.LEADER_MOVED,
        )
        await producer.abort()

    run_producers(target, work)


def test_syncs_never_block_and_are_tried_until_they_are_written(target: Cluster) -> None:
    topic = unique("produced")

    async def work(harness: ProducerHarness) -> None:
        producer = harness.syncs()
        producer.send(topic, [(b"a", b"1"), (b"a", b"2"), (b"b", b"1")])
        failed = "writing has failed"
        await asyncio.to_thread(eventually, lambda: producer.failed is not None, 10.0, what=failed)
        assert await fault_of(producer.write(topic, [(b"c", b"1")])) is KafkaFault.UNKNOWN_TOPIC
        await asyncio.to_thread(create_topic, target.bootstrap, topic)
        producer.send(topic, [(b"b", b"2")])
        written = "what was sent is written"
        await asyncio.to_thread(eventually, lambda: producer.failed is None, 10.0, what=written)
        await producer.write(topic, [(b"d", b"1")])
        producer.send(topic, [(b"d", b"2"), (b"d", b"3")])

    run_producers(target, work)
    pairs = [(record.key, record.value) for record in read(target.bootstrap, topic)]
    # Of what could not be written at once the newest of each key; all of the rest, in order.
    assert [value for key, value in pairs if key == b"a"] == [b"2"]
    assert [value for key, value in pairs if key == b"b"][-1] == b"2"
    assert [value for key, value in pairs if key == b"d"] == [b"1", b"2", b"3"]


def test_nobody_there_costs_the_time_given() -> None:
    async def go() -> KafkaFault | None:
        settings = producer_settings(
            Side.TARGET,
            {
                "target.cluster.bootstrap.servers": "127.0.0.1:1",
                "producer.request.timeout.ms": "1000",
            },
        )
        return await fault_of(fence(settings, [unique("tx")], within=0.5))

    assert asyncio.run(go()) is KafkaFault.UNREACHABLE


def test_records_of_a_state_topic_are_appended_in_order_and_compressed(target: Cluster) -> None:
    topic = create_topic(target.bootstrap, unique("state"), configs={"cleanup.policy": "compact"})
    records = [(b"%d" % number, None if number % 7 == 0 else b"value " * 700) for number in range(700)]
    assert all(data[22] & CODEC == LZ4 for data, _ in record_batches(records, LZ4))

    async def go() -> None:
        clusters = KafkaClusters()
        cluster = clusters.open(Side.TARGET, {"target.cluster.bootstrap.servers": target.bootstrap})
        try:
            await cluster.append(topic, records)
            missing = unique("missing")
            with pytest.raises(KafkaFailure) as caught:
                await cluster.append(f"{missing}/", [(b"k", b"v")])
            assert caught.value.fault is not KafkaFault.TIMEOUT
            await cluster.append(topic, [(b"last", b"after a failure")])
        finally:
            await clusters.close()

    asyncio.run(go())
    result = [(each.key, each.value) for each in read(target.bootstrap, topic)]
    assert result == [*records, (b"last", b"after a failure")]
