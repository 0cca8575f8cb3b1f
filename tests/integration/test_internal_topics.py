"""Internal topics on real brokers: made as stock makes them, read and followed, and every way they can be cut back."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import re
import shutil
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, TypeVar

import pytest
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.cluster import KafkaCluster
from bridge.kafka.config.settings import client_settings
from bridge.kafka.consumer.topic_tail import TopicTail
from bridge.kafka.protocol import log_requests
from bridge.kafka.protocol.wire import Call
from bridge.local import Broker, Cluster, LocalStack
from bridge.model.values import LogRecord, Side, TopicPartition
from connectors.internal_topics import make
from tests.support import (
    Record,
    admin,
    allow,
    bounds,
    compact,
    create_topic,
    delete_records,
    delete_topic,
    eventually,
    numbered,
    produce,
    produce_transaction,
    set_topic_config,
    unique,
)
from tests.support.brokers import RESTARTED, USERS, Secured
from tests.support.forms import mostly_long
from tests.support.messages import message, message_pattern
from tests.support.records import producer
from tests.support.waits import WAIT

# aiokafka forgets to close the transport of a connection that was refused.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

T = TypeVar("T")
NOW = 1_700_000_000_000
HASTY = {"source.admin.request.timeout.ms": "3000", "source.consumer.request.timeout.ms": "3000"}


def using(
    bootstrap: str, work: Callable[[KafkaCluster], Awaitable[T]], props: Mapping[str, str] | None = None
) -> T:
    """Runs `work` with a cluster of its own."""
    given = {"source.cluster.bootstrap.servers": bootstrap, **(props or {})}

    async def go() -> T:
        cluster = KafkaCluster(client_settings(Side.SOURCE, given))
        try:
            return await work(cluster)
        finally:
            await cluster.close()

    try:
        return asyncio.run(go())
    finally:
        gc.collect()


async def read_on(tail: TopicTail) -> tuple[list[LogRecord], bool]:
    """To the end; whether any part said `restarted`, and then what came since."""
    records: list[LogRecord] = []
    restarted = False
    while True:
        part = await tail.read()
        assert part.unreadable == 0
        if part.restarted:
            records, restarted = [], True
        records += part.records
        if part.at_end:
            return records, restarted


def offsets(records: list[LogRecord]) -> list[int]:
    return [record.offset for record in records]


def read_topic(bootstrap: str, topic: str) -> list[LogRecord]:
    async def work(cluster: KafkaCluster) -> list[LogRecord]:
        records, restarted = await read_on(cluster.tail(topic))
        assert not restarted
        return records

    return using(bootstrap, work)


def under_a_tail(
    bootstrap: str, topic: str, *changes: Callable[[], object], props: Mapping[str, str] | None = None
) -> list[tuple[list[int], bool]]:
    """What a tail reads at first and after each change: offsets and `restarted`."""

    async def work(cluster: KafkaCluster) -> list[tuple[list[int], bool]]:
        tail = cluster.tail(topic)
        collected = []
        for change in (lambda: None, *changes):
            await asyncio.to_thread(change)
            records, restarted = await read_on(tail)
            collected.append((offsets(records), restarted))
        return collected

    return using(bootstrap, work, props)


# -- reading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", mostly_long(["none", "gzip", "snappy", "lz4", "zstd"], short=2))
def test_records_of_every_codec(source: Cluster, codec: str) -> None:
    topic = create_topic(source.bootstrap, unique("codec"))
    sent = [
        Record(None, b"tombstone", NOW),
        Record(b"", None, NOW + 1, (("h", b"1"),)),
        Record(b"x" * 5000, "schlüssel".encode(), NOW + 2),
    ]
    produce(source.bootstrap, topic, sent, compression=codec)
    assert read_topic(source.bootstrap, topic) == [
        (at, each.timestamp, each.key, each.value) for at, each in enumerate(sent)
    ]


def test_what_is_open_or_aborted_is_read_and_control_records_are_not(source: Cluster) -> None:
    topic = create_topic(source.bootstrap, unique("tx"))
    produce_transaction(source.bootstrap, topic, numbered(2))
    produce_transaction(source.bootstrap, topic, numbered(2, start=2), commit=False)
    # Brokers answer the end of a transaction before its control record is in each partition.
    eventually(
        lambda: bounds(source.bootstrap, topic)[0] == (0, 6), WAIT, what="both transactions have ended"
    )
    with producer(source.bootstrap, transactional_id=unique("tx")) as sink:
        sink.init_transactions(30)
        sink.begin_transaction()
        sink.produce(topic, b"open")
        sink.flush(30)
        assert offsets(read_topic(source.bootstrap, topic)) == [0, 1, 3, 4, 6]
        sink.abort_transaction(30)


def test_batches_larger_than_what_is_asked_for_come_whole(source: Cluster) -> None:
    large = {"max.message.bytes": str(16 << 20)}
    topic = create_topic(source.bootstrap, unique("large"), 1, large)
    sizes = [10, 5 << 20, 10, 3 << 20, 10]
    records = [Record(os.urandom(size), key=b"k") for size in sizes]
    produce(source.bootstrap, topic, records, message_max_bytes=16 << 20)
    assert [record.value for record in read_topic(source.bootstrap, topic)] == [
        each.value for each in records
    ]


def test_reading_goes_on_in_parts_without_loss(source: Cluster) -> None:
    topic = create_topic(source.bootstrap, unique("parts"))
    produce(source.bootstrap, topic, numbered(100_000))

    async def work(cluster: KafkaCluster) -> None:
        tail = cluster.tail(topic)
        parts = [await tail.read()]
        while not parts[-1].at_end:
            parts.append(await tail.read())
        assert len(parts) > 2
        records = [record for part in parts for record in part.records]
        assert offsets(records) == list(range(100_000))
        assert records[-1].value == b"value-99999"
        assert not any(part.restarted for part in parts)

    using(source.bootstrap, work)


def test_an_empty_topic_and_what_comes_after(source: Cluster) -> None:
    topic = create_topic(source.bootstrap, unique("empty"))

    def write() -> None:
        produce(source.bootstrap, topic, numbered(2))

    result = under_a_tail(source.bootstrap, topic, write, lambda: None, write)
    assert result == [([], False), ([0, 1], False), ([], False), ([2, 3], False)]


def test_append_time(source: Cluster) -> None:
    topic = create_topic(source.bootstrap, unique("append"), 1, {"message.timestamp.type": "LogAppendTime"})
    produce(source.bootstrap, topic, numbered(2, timestamp=7))
    assert all(record.timestamp > NOW for record in read_topic(source.bootstrap, topic))


def test_a_record_that_means_nothing_is_a_record_like_any(source: Cluster) -> None:
    """What a value holds is for its reader to judge; the log goes on."""
    topic = create_topic(source.bootstrap, unique("poison"))
    produce(source.bootstrap, topic, [Record(b"\xff", key=b"\0"), Record(b"fine", key=b"k")])
    assert [record.value for record in read_topic(source.bootstrap, topic)] == [b"\xff", b"fine"]


# -- topics that change under the tail -------------------------------------------------------------------------------


def by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with brokers before Fetch v13."""
    fetch = log_requests.fetch

    def without_ids(parts: Mapping[TopicPartition, log_requests.FetchPartition], **how: Any) -> Call:
        return fetch({place: part._replace(topic_id="") for place, part in parts.items()}, **how)

    monkeypatch.setattr(log_requests, "fetch", without_ids)


@pytest.mark.parametrize("ids", [True, False], ids=["by id", "by name"])
@pytest.mark.parametrize("count", [2, 5, 9], ids=["shorter", "as long", "longer"])
def test_a_topic_deleted_and_made_again(
    source: Cluster, monkeypatch: pytest.MonkeyPatch, ids: bool, count: int
) -> None:
    if not ids:
        by_name(monkeypatch)
    topic = create_topic(source.bootstrap, unique("again"))
    produce(source.bootstrap, topic, numbered(5))

    def again() -> None:
        delete_topic(source.bootstrap, topic)
        create_topic(source.bootstrap, topic)
        produce(source.bootstrap, topic, numbered(count, start=100))

    result = under_a_tail(source.bootstrap, topic, again, lambda: None)
    assert result == [(list(range(5)), False), (list(range(count)), True), ([], False)]


def test_a_topic_that_is_missing_and_comes_back(source: Cluster) -> None:
    topic = unique("missing")

    async def work(cluster: KafkaCluster) -> None:
        tail = cluster.tail(topic)

        async def missing() -> None:
            with pytest.raises(KafkaFailure, match=topic) as caught:
                await tail.read()
            assert (caught.value.fault, caught.value.retriable) == (KafkaFault.UNKNOWN_TOPIC, True)

        await missing()
        await asyncio.to_thread(create_topic, source.bootstrap, topic)
        await asyncio.to_thread(produce, source.bootstrap, topic, numbered(3))
        records, restarted = await read_on(tail)
        assert (offsets(records), restarted) == ([0, 1, 2], False)
        await asyncio.to_thread(delete_topic, source.bootstrap, topic)
        await missing()
        await missing()
        await asyncio.to_thread(create_topic, source.bootstrap, topic)
        records, restarted = await read_on(tail)
        assert (records, restarted) == ([], True)

    using(source.bootstrap, work)


@pytest.mark.parametrize(
    ("start", "restarted"),
    mostly_long([(3, False), (5, True), (7, True), (8, True)], short=2),
    ids=["a part of what was read", "all that was read", "some unread", "all"],
)
def test_records_deleted_under_the_tail(source: Cluster, start: int, restarted: bool) -> None:
    topic = create_topic(source.bootstrap, unique("deleted"), 1, {"cleanup.policy": "compact,delete"})
    produce(source.bootstrap, topic, numbered(5))

    def cut() -> None:
        produce(source.bootstrap, topic, numbered(3, start=5))
        delete_records(source.bootstrap, topic, {0: start})

    result = under_a_tail(source.bootstrap, topic, cut, lambda: None)
    assert result == [(list(range(5)), False), (list(range(max(5, start), 8)), restarted), ([], False)]


def test_a_log_that_does_not_begin_at_0_is_no_restart(source: Cluster) -> None:
    topic = create_topic(source.bootstrap, unique("later"), 1, {"cleanup.policy": "compact,delete"})
    produce(source.bootstrap, topic, numbered(5))
    delete_records(source.bootstrap, topic, {0: 3})
    assert offsets(read_topic(source.bootstrap, topic)) == [3, 4]


def test_compaction_under_the_tail_is_no_restart(source: Cluster) -> None:
    topic = create_topic(source.bootstrap, unique("compacted"), 1, {"cleanup.policy": "compact"})
    produce(source.bootstrap, topic, [Record(b"%d" % at, key=b"k%d" % (at % 2)) for at in range(20)])
    left: list[int] = []

    def compacted() -> None:
        left.extend(compact(source.bootstrap, topic))

    first, second = under_a_tail(source.bootstrap, topic, compacted)
    assert first == (list(range(20)), False)
    # What was compacted away between two reads may be among the fillers; what is left above 19 came.
    assert not second[1]
    assert set(second[0]) >= {offset for offset in left if offset > 19}
    assert offsets(read_topic(source.bootstrap, topic)) == left


# -- trouble ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def lone(stack: LocalStack) -> Iterator[Broker]:
    """A broker that may be stopped and robbed of its data."""
    broker = stack.broker(unique("lone"), properties=RESTARTED)
    yield broker
    broker.close()


def test_a_disk_that_was_lost_and_filled_beyond_the_position_is_a_restart(lone: Broker) -> None:
    """The topic has its id and more records than before: only the leader epochs tell."""
    topic = create_topic(lone.bootstrap, unique("lost"))
    produce(lone.bootstrap, topic, numbered(5))

    def lose() -> None:
        lone.stop()
        shutil.rmtree(lone.data / f"{topic}-0")
        lone.start()
        eventually(lambda: produce(lone.bootstrap, topic, numbered(9, start=100)), WAIT, what="it is written")

    result = under_a_tail(lone.bootstrap, topic, lone.restart, lose, lambda: None, props=HASTY)
    assert result == [(list(range(5)), False), ([], False), (list(range(9)), True), ([], False)]


@pytest.mark.long
def test_a_broker_that_is_away_costs_no_record(lone: Broker) -> None:
    topic = create_topic(lone.bootstrap, unique("away"))
    produce(lone.bootstrap, topic, numbered(5))

    async def work(cluster: KafkaCluster) -> None:
        tail = cluster.tail(topic)
        await read_on(tail)
        await asyncio.to_thread(lone.stop)
        for _ in range(2):
            with pytest.raises(KafkaFailure) as caught:
                await tail.read()
            assert caught.value.fault in (KafkaFault.UNREACHABLE, KafkaFault.TIMEOUT)
        failed = await cluster.create_compacted_topic("t", 1)
        assert failed is not None
        assert str(failed).startswith(message("topics.timed_out", topic="t"))
        assert failed.retriable
        await asyncio.to_thread(lone.start)
        await asyncio.to_thread(produce, lone.bootstrap, topic, numbered(3, start=5))
        records, restarted = await read_on(tail)
        assert (offsets(records), restarted) == ([5, 6, 7], False)

    using(lone.bootstrap, work, HASTY)


USER = "tail"


def test_acls(secured: Secured, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    open_, closed, made = (unique(name) for name in ("open", "closed", "made"))
    for topic in (open_, closed):
        create_topic(secured.bootstrap, topic)
        produce(secured.bootstrap, topic, numbered(2))
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    login = {
        "source.cluster.security.protocol": "SASL_PLAINTEXT",
        "source.cluster.sasl.mechanism": "PLAIN",
        "source.cluster.sasl.jaas.config": f'{module} required username="{USER}" password="{USERS[USER]}";',
    }

    async def work(cluster: KafkaCluster) -> None:
        assert await cluster.topic_names() == []
        tail = cluster.tail(open_)
        for operation in ("DESCRIBE", "READ"):
            with pytest.raises(KafkaFailure, match=open_) as caught:
                await tail.read()
            assert (caught.value.fault, caught.value.retriable) == (KafkaFault.NOT_AUTHORIZED, True)
            await asyncio.to_thread(allow, secured.bootstrap, f"User:{USER}", open_, operation)
        records, restarted = await read_on(tail)
        assert (offsets(records), restarted) == ([0, 1], False)
        assert await cluster.topic_names() == [open_]
        with pytest.raises(KafkaFailure) as caught:
            await cluster.tail(closed).read()
        assert caught.value.fault is KafkaFault.NOT_AUTHORIZED
        # Not ours to make: stock goes on without it too.
        assert await cluster.create_compacted_topic(made, 1) is None
        # Its configs are not ours to see: as Connect, we go on and say so.
        assert await make(cluster, open_, 1, 30_000, holds="checkpoints", key="replication.factor") is None
        assert "DESCRIBE_CONFIGS" in caplog.text
        await asyncio.to_thread(allow, secured.bootstrap, f"User:{USER}", open_, "DESCRIBE_CONFIGS")
        refused = await make(cluster, open_, 1, 30_000, holds="checkpoints", key="replication.factor")
        assert refused is not None
        assert refused.fault is KafkaFault.TOPIC_CONFIG

    using(secured.address("SASL_PLAINTEXT"), work, login)
    assert made not in admin(secured.bootstrap).list_topics(timeout=60).topics


# -- making and listing ----------------------------------------------------------------------------------------------


def own_configs(bootstrap: str, topic: str) -> dict[str, str]:
    """Configs that the topic itself carries."""
    client = admin(bootstrap)
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entries = client.describe_configs([resource])[resource].result(60)
    return {name: entry.value for name, entry in entries.items() if entry.source == 1}


@pytest.mark.parametrize("replication_factor", [1, -1])
def test_a_compacted_topic(target: Cluster, replication_factor: int) -> None:
    name = unique("A.checkpoints.internal")

    async def work(cluster: KafkaCluster) -> None:
        assert await cluster.create_compacted_topic(name, replication_factor) is None
        assert await cluster.create_compacted_topic(name, replication_factor) is None

    using(target.bootstrap, work)

    def replicas() -> list[int]:
        metadata = admin(target.bootstrap).list_topics(name, timeout=60).topics[name]
        return [len(partition.replicas) for partition in metadata.partitions.values()]

    # The list of a broker lags behind the controller's answer that the topic is made.
    eventually(lambda: replicas() == [1], WAIT, what=f"{name} is listed, one partition of one replica")
    assert own_configs(target.bootstrap, name) == {"cleanup.policy": "compact"}


def test_a_topic_that_exists_is_left_as_it_is(target: Cluster) -> None:
    name = create_topic(target.bootstrap, unique("mine"), 3)
    set_topic_config(target.bootstrap, name, {"retention.ms": "1000"})

    async def work(cluster: KafkaCluster) -> None:
        assert await cluster.create_compacted_topic(name, 1) is None

    using(target.bootstrap, work)
    assert own_configs(target.bootstrap, name) == {"retention.ms": "1000"}
    assert len(admin(target.bootstrap).list_topics(name, timeout=60).topics[name].partitions) == 3


@pytest.mark.parametrize(
    ("configs", "policy"),
    mostly_long(
        [
            ({}, "delete"),
            ({"cleanup.policy": "delete"}, "delete"),
            ({"cleanup.policy": "compact,delete"}, "compact,delete"),
            ({"cleanup.policy": "compact"}, None),
        ],
        short=2,
    ),
)
def test_what_must_be_compacted_and_is_not_is_refused_by_name(
    target: Cluster, configs: dict[str, str], policy: str | None
) -> None:
    name = create_topic(target.bootstrap, unique("mm2-offset-runs"), 1, configs)

    async def work(cluster: KafkaCluster) -> None:
        failed = await make(cluster, name, 1, 30_000, holds="offset runs", key="replication.factor")
        if policy is None:
            assert failed is None
        else:
            named = message_pattern("topics.not_compact", topic=name, policy=policy)
            assert re.search(named, str(failed))
            await asyncio.to_thread(set_topic_config, target.bootstrap, name, {"cleanup.policy": "compact"})
            assert await make(cluster, name, 1, 30_000, holds="offset runs", key="replication.factor") is None

    using(target.bootstrap, work)


@pytest.mark.parametrize(
    ("name", "replication_factor", "why"),
    mostly_long(
        [("plain", 3, "3"), ("plain", 0, "0"), ("not a name", 1, "not a name"), ("x" * 300, 1, "249")],
        short=2,
    ),
)
def test_a_topic_that_the_broker_refuses(
    target: Cluster, name: str, replication_factor: int, why: str
) -> None:
    name = unique(name) if name == "plain" else name

    async def work(cluster: KafkaCluster) -> None:
        failed = await cluster.create_compacted_topic(name, replication_factor)
        assert failed is not None
        text = str(failed)
        start = f"Error while attempting to create/find topic '{name}': "
        assert text.startswith(start)
        assert why in text.removeprefix(start)
        assert "\n" not in text

    using(target.bootstrap, work)


def test_all_topics_are_named(source: Cluster) -> None:
    names = {create_topic(source.bootstrap, unique(name)) for name in ("plain", "__hidden", "a.b_c-d")}

    async def work(cluster: KafkaCluster) -> None:
        result = await cluster.topic_names()
        assert names <= set(result)
        assert len(result) == len(set(result))

    using(source.bootstrap, work)


def test_a_replication_factor_that_one_broker_can_not_keep_is_named_by_its_key(target: Cluster) -> None:
    key = "offset-syncs.topic.replication.factor"

    async def work(cluster: KafkaCluster) -> None:
        failed = await make(cluster, unique("mm2-layout"), 3, 30_000, holds="layouts", key=key)
        assert failed is not None
        assert f"{key} is 3" in str(failed)

    using(target.bootstrap, work)
