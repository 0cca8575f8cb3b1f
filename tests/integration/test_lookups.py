"""Look-ups and commits on real brokers: KafkaCluster against what brokers really send."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

import pytest
from confluent_kafka import Consumer

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.cluster import KafkaCluster
from bridge.kafka.config.settings import client_settings
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol.wire import Call, Reader
from bridge.local import Broker, Cluster, LocalStack, eventually
from bridge.model.lookups import FindTime, Need, Read, Scanned, Window
from bridge.model.values import (
    Bounds,
    Committed,
    GroupListing,
    GroupState,
    Side,
    TopicInfo,
    TopicPartition,
)
from tests.support import (
    Record,
    active_member,
    bounds,
    commit,
    compact,
    create_topic,
    delete_records,
    delete_topic,
    numbered,
    produce,
    produce_transaction,
    unique,
)
from tests.support.brokers import RESTARTED
from tests.support.forms import mostly_long
from tests.support.waits import WAIT

# aiokafka forgets to close the transport of a connection that was refused.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

T = TypeVar("T")
NOW = 1_700_000_000_000
NONE = "00000000-0000-0000-0000-000000000000"


HASTY = {
    f"source.{client}.{name}.timeout.ms": "3000"
    for client in ("admin", "consumer")
    for name in ("request", "default.api")
}


def using(bootstrap: str, work: Callable[[KafkaCluster], Awaitable[T]], *, hasty: bool = False) -> T:
    """Runs `work` with a cluster of its own."""
    props = {"source.cluster.bootstrap.servers": bootstrap, **(HASTY if hasty else {})}

    async def go() -> T:
        cluster = KafkaCluster(client_settings(Side.SOURCE, props))
        try:
            return await work(cluster)
        finally:
            await cluster.close()

    try:
        return asyncio.run(go())
    finally:
        gc.collect()


def read(offset: int, size: int = 32 * 1024) -> Read:
    return Read(Side.SOURCE, offset, size)


async def known(cluster: KafkaCluster, *topics: str) -> dict[str, TopicInfo]:
    result = await cluster.topics(topics)
    return {name: info for name, info in result.items() if isinstance(info, TopicInfo)}


async def ask(
    cluster: KafkaCluster, topic: str, *needs: Need, committed_only: bool = False
) -> list[Window | Scanned | int | KafkaFailure | None]:
    place = TopicPartition(topic, 0)
    result = (await cluster.answer({place: needs}, committed_only=committed_only))[place]
    return [result[need] for need in needs]


def windows(
    bootstrap: str, topic: str, *offsets: int, committed_only: bool = False, size: int = 32 * 1024
) -> list[Window]:
    async def work(cluster: KafkaCluster) -> list[Window]:
        await known(cluster, topic)
        needs = [read(offset, size) for offset in offsets]
        result = await ask(cluster, topic, *needs, committed_only=committed_only)
        assert all(isinstance(each, Window) for each in result), result
        return [each for each in result if isinstance(each, Window)]

    return using(bootstrap, work)


def offsets_of(window: Window) -> list[int]:
    return [record.offset for record in window.records]


def batches(bootstrap: str, topic: str, sizes: Sequence[int], **settings: object) -> int:
    """One batch of each size (the producer is closed in between); answers the log's end."""
    at = 0
    for size in sizes:
        produce(bootstrap, topic, numbered(size, start=at, timestamp=NOW + at), **settings)  # type: ignore[arg-type]
        at += size
    return at


# -- reads -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", mostly_long(["none", "gzip", "snappy", "lz4", "zstd"], short=2))
def test_records_of_every_codec_with_all_they_carry(source: Cluster, codec: str) -> None:
    topic = create_topic(source.bootstrap, unique("codec"))
    odd = [
        Record(None, None, NOW, (("h", b"\0\xff"), ("h", None), ("", b""))),
        Record(b"", b"", NOW + 1),
        Record(b"x" * 5000, "schlüssel".encode(), NOW + 2),
    ]
    produce(source.bootstrap, topic, odd, compression=codec)
    (result,) = windows(source.bootstrap, topic, 1)
    assert result.end == 3
    seen = {record.offset: record for record in result.records}
    for offset in range(result.start, 3):
        record, sent = seen[offset], odd[offset]
        assert (record.key, record.value, record.timestamp) == (sent.key, sent.value, sent.timestamp)
        assert list(record.headers) == list(sent.headers)  # type: ignore[call-overload]


def test_in_and_out_of_range(source: Cluster) -> None:
    topic = create_topic(source.bootstrap, unique("range"))
    batches(source.bootstrap, topic, [5, 5, 5])
    delete_records(source.bootstrap, topic, {0: 7})

    async def work(cluster: KafkaCluster) -> None:
        await known(cluster, topic)
        first, end, below, beyond = await ask(cluster, topic, read(7), read(15), read(6), read(16))
        assert isinstance(first, Window)
        # The batch that holds the log start comes whole, with what lies before it.
        assert (first.start, first.end) in {(5, 15), (5, 10)}
        assert isinstance(end, Window)
        assert (end.start, end.end, list(end.records)) == (15, 15, [])
        for failed in (below, beyond):
            assert isinstance(failed, KafkaFailure)
            assert failed.fault is KafkaFault.OUT_OF_RANGE
            assert f"{topic}-0" in str(failed)

    using(source.bootstrap, work)


def test_offsets_in_one_batch_share_one_fetch_until_forgotten(source: Cluster) -> None:
    topic = create_topic(source.bootstrap, unique("shared"))
    batches(source.bootstrap, topic, [2000])

    async def work(cluster: KafkaCluster) -> None:
        await known(cluster, topic)
        await ask(cluster, topic, *(read(at, 1) for at in range(500)))
        assert cluster.fetches <= 4  # one for each lane at most, and not 500
        before = cluster.fetches
        await ask(cluster, topic, *(read(at, 1) for at in range(500, 2000)))
        assert cluster.fetches == before
        cluster.forget_windows()
        await ask(cluster, topic, read(1999, 1))
        assert cluster.fetches == before + 1

    using(source.bootstrap, work)


def test_many_partitions_share_one_fetch(source: Cluster) -> None:
    topic = create_topic(source.bootstrap, unique("wide"), 40)
    records = [each for number in range(40) for each in numbered(10, timestamp=NOW, partition=number)]
    produce(source.bootstrap, topic, records)

    async def work(cluster: KafkaCluster) -> None:
        await known(cluster, topic)
        needs = {TopicPartition(topic, number): [read(5)] for number in range(40)}
        result = await cluster.answer(needs, committed_only=False)
        assert cluster.fetches == 1
        for number in range(40):
            opened = result[TopicPartition(topic, number)][read(5)]
            assert isinstance(opened, Window)
            assert opened.records[-1].offset == 9

    using(source.bootstrap, work)


def test_batches_larger_than_was_asked_for(source: Cluster) -> None:
    topic = create_topic(source.bootstrap, unique("large"), 4, {"max.message.bytes": "3000000"})
    large = [
        Record(bytes(1000), b"k%d" % at, NOW + at, partition=part) for part in range(4) for at in range(900)
    ]
    big = {"batch_size": 2_000_000, "linger_ms": 500, "message_max_bytes": 3_000_000}
    produce(source.bootstrap, topic, large, **big)  # type: ignore[arg-type]

    async def work(cluster: KafkaCluster) -> None:
        await known(cluster, topic)
        needs = {TopicPartition(topic, part): [read(at, 100) for at in (1, 450, 899)] for part in range(4)}
        result = await cluster.answer(needs, committed_only=False)
        for part in range(4):
            for at in (1, 450, 899):
                opened = result[TopicPartition(topic, part)][read(at, 100)]
                assert isinstance(opened, Window)
                assert opened.start <= at < opened.end
                assert at in offsets_of(opened)

    using(source.bootstrap, work)


@pytest.mark.long
def test_a_hole_of_compaction_at_the_offset(source: Cluster) -> None:
    topic = create_topic(source.bootstrap, unique("holes"))
    records = [
        Record(b"v%d" % at, key=b"same" if 3 <= at < 8 else b"k%d" % at, timestamp=NOW) for at in range(10)
    ]
    for record in records:
        produce(source.bootstrap, topic, [record])
    left = compact(source.bootstrap, topic)
    assert left[:6] == [0, 1, 2, 7, 8, 9]
    for each in windows(source.bootstrap, topic, 3, 5, 6):
        inside = [offset for offset in offsets_of(each) if offset < 10]
        assert inside == [offset for offset in (0, 1, 2, 7, 8, 9) if offset >= each.start]
        assert each.end >= 3
    whole = windows(source.bootstrap, topic, 0)[0]
    assert [offset for offset in offsets_of(whole) if offset < whole.end] == [
        o for o in left if o < whole.end
    ]


def test_aborted_data_and_control_records(source: Cluster) -> None:
    topic = create_topic(source.bootstrap, unique("tx"))
    produce(source.bootstrap, topic, numbered(2))  # 0 1
    produce_transaction(source.bootstrap, topic, numbered(3), commit=False)  # 2 3 4, marker 5
    produce_transaction(source.bootstrap, topic, numbered(2))  # 6 7, marker 8
    produce(source.bootstrap, topic, numbered(1))  # 9
    for asked in (0, 3, 5, 6):
        (all_data,) = windows(source.bootstrap, topic, asked)
        assert [o for o in offsets_of(all_data) if o >= asked] == [
            o for o in (0, 1, 2, 3, 4, 6, 7, 9) if o >= asked
        ]
        (committed,) = windows(source.bootstrap, topic, asked, committed_only=True)
        assert [o for o in offsets_of(committed) if o >= asked] == [o for o in (0, 1, 6, 7, 9) if o >= asked]
        assert all_data.end == committed.end == 10


def test_an_open_transaction_hides_what_follows_from_committed_reads_only(source: Cluster) -> None:
    from tests.support.records import producer

    topic = create_topic(source.bootstrap, unique("open"))
    produce(source.bootstrap, topic, numbered(2))
    with producer(source.bootstrap, transactional_id=unique("tx")) as sink:
        sink.init_transactions(30)
        sink.begin_transaction()
        sink.produce(topic, b"open", partition=0)
        sink.flush(30)
        produce(source.bootstrap, topic, numbered(1, start=9))
        (result,) = windows(source.bootstrap, topic, 0, committed_only=True)
        assert (offsets_of(result), result.end) == ([0, 1], 2)
        (result,) = windows(source.bootstrap, topic, 0)
        assert (offsets_of(result), result.end) == ([0, 1, 2, 3], 4)

        async def ends(cluster: KafkaCluster) -> list[int]:
            await known(cluster, topic)
            place = TopicPartition(topic, 0)
            result = [(await cluster.bounds([place], committed_only=flag))[place] for flag in (True, False)]
            return [each.end for each in result if isinstance(each, Bounds)]

        assert using(source.bootstrap, ends) == [2, 4]
        sink.abort_transaction(30)


def test_offsets_by_time(source: Cluster) -> None:
    topic = create_topic(source.bootstrap, unique("times"))
    stamps = [NOW, NOW + 10, NOW + 10, NOW + 5, NOW + 20]
    for stamp in stamps:
        produce(source.bootstrap, topic, [Record(b"v", timestamp=stamp)])

    async def work(cluster: KafkaCluster) -> list[object]:
        await known(cluster, topic)
        times = [FindTime(Side.SOURCE, NOW + at) for at in (-5, 0, 1, 10, 11, 20, 21)]
        return list(await ask(cluster, topic, *times))

    assert using(source.bootstrap, work) == [0, 0, 1, 1, 4, 4, None]


# -- topics and bounds ---------------------------------------------------------------------------------------------


def test_topics_and_bounds(source: Cluster) -> None:
    plain = create_topic(source.bootstrap, unique("plain"), 2)
    late = create_topic(source.bootstrap, unique("late"), 1, {"message.timestamp.type": "LogAppendTime"})
    missing, bad = unique("missing"), "no spaces allowed"
    batches(source.bootstrap, plain, [10])
    delete_records(source.bootstrap, plain, {0: 4})

    async def work(cluster: KafkaCluster) -> None:
        result = await cluster.topics([plain, late, missing, bad])
        first, second = result[plain], result[late]
        assert isinstance(first, TopicInfo)
        assert isinstance(second, TopicInfo)
        assert (first.partitions, first.log_append_time) == (2, False)
        assert (second.partitions, second.log_append_time) == (1, True)
        assert NONE != first.topic_id != second.topic_id
        for name in (missing, bad):
            failed = result[name]
            assert isinstance(failed, KafkaFailure)
            assert (failed.fault, name in str(failed)) == (KafkaFault.UNKNOWN_TOPIC, True)
        places = [TopicPartition(plain, 0), TopicPartition(plain, 1), TopicPartition(missing, 0)]
        there = await cluster.bounds(places, committed_only=True)
        log, empty, absent = (there[place] for place in places)
        assert isinstance(log, Bounds)
        assert (log.start, log.end) == (4, 10)
        assert log.leader_epoch >= 0
        assert isinstance(empty, Bounds)
        assert (empty.start, empty.end) == (0, 0)
        assert isinstance(absent, KafkaFailure)
        assert absent.fault is KafkaFault.UNKNOWN_TOPIC

    using(source.bootstrap, work)


def test_a_topic_that_was_made_again_has_another_id_and_old_reads_are_refused(source: Cluster) -> None:
    topic = create_topic(source.bootstrap, unique("again"))
    batches(source.bootstrap, topic, [10])

    async def work(cluster: KafkaCluster) -> None:
        old = (await known(cluster, topic))[topic]
        (before,) = await ask(cluster, topic, read(3))
        assert isinstance(before, Window)
        await asyncio.to_thread(delete_topic, source.bootstrap, topic)
        await asyncio.to_thread(create_topic, source.bootstrap, topic)
        await asyncio.to_thread(produce, source.bootstrap, topic, numbered(20, start=500))
        # Beyond what is known, so it has to be fetched: by the old id, which is refused.
        (refused,) = await ask(cluster, topic, read(10))
        assert isinstance(refused, KafkaFailure)
        assert refused.fault is KafkaFault.UNKNOWN_TOPIC
        new = (await known(cluster, topic))[topic]
        assert new.topic_id != old.topic_id
        # What was read of the old topic is not believed of the new one, even within a round.
        (after,) = await ask(cluster, topic, read(3))
        assert isinstance(after, Window)
        assert after.records[-1].value == b"value-519"

    using(source.bootstrap, work)


# -- groups ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def coordinators(target: Cluster) -> None:
    """A new cluster makes them for its first groups, and refuses these meanwhile."""
    place = TopicPartition(create_topic(target.bootstrap, unique("first")), 0)

    async def work(cluster: KafkaCluster) -> None:
        tries = (cluster.alter(unique("first"), {place: Committed(0)}) for _ in range(100))
        assert all(result == {place: None} for result in await asyncio.gather(*tries))

    eventually(lambda: using(target.bootstrap, work), WAIT, what="all coordinators answer")


@pytest.mark.usefixtures("coordinators")
def test_committed_offsets_of_hundreds_of_groups_in_few_requests(
    target: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = create_topic(target.bootstrap, unique("committed"), 3)
    prefix = unique("g")
    groups = [f"{prefix}-{number}" for number in range(500)]
    place = TopicPartition(topic, 1)
    sent: list[int] = []
    original = NetworkClient.send

    async def counting(self: NetworkClient, node: int | None, call: Call, doing: str) -> Reader:
        sent.append(call.API_KEY)
        return await original(self, node, call, doing)

    async def work(cluster: KafkaCluster) -> None:
        for at in range(0, 500, 50):
            some = groups[at : at + 50]
            results = await asyncio.gather(
                *(cluster.alter(group, {place: Committed(int(group.rsplit("-", 1)[1]))}) for group in some)
            )
            assert results == [{place: None}] * len(some)
        monkeypatch.setattr(NetworkClient, "send", counting)
        result = await cluster.committed([*groups, "no-such-group"])
        assert result.pop("no-such-group") == {}
        assert result == {group: {place: Committed(at, "", -1)} for at, group in enumerate(groups)}
        assert len(sent) <= 5  # a coordinator look-up for the one that is new, and 200 groups a request
        listed = await cluster.list_groups()
        assert {listed[group] for group in groups} == {
            GroupListing(group, GroupState.EMPTY, "classic", "") for group in groups
        }

    using(target.bootstrap, work)


@pytest.mark.usefixtures("coordinators")
@pytest.mark.parametrize(
    "metadata", mostly_long(["", "plain", "möchte \N{SNOWMAN} 🦜", "a\0b", "x" * 4000], short=2)
)
def test_commits_carry_metadata_as_it_is(target: Cluster, metadata: str) -> None:
    topic, group = create_topic(target.bootstrap, unique("meta")), unique('g "," ü')
    place = TopicPartition(topic, 0)

    async def work(cluster: KafkaCluster) -> None:
        assert await cluster.alter(group, {place: Committed(7, metadata, 3)}) == {place: None}
        assert (await cluster.committed([group]))[group] == {place: Committed(7, metadata, 3)}

    using(target.bootstrap, work)


@pytest.mark.usefixtures("coordinators")
def test_commits_fail_partition_by_partition(target: Cluster) -> None:
    topic, group = create_topic(target.bootstrap, unique("part")), unique("g")
    good, long, absent = TopicPartition(topic, 0), TopicPartition(topic, 9), TopicPartition(unique("no"), 0)

    async def work(cluster: KafkaCluster) -> None:
        expected = {good: Committed(1), long: Committed(2), absent: Committed(3)}
        results = await cluster.alter(group, expected)
        assert results[good] is None
        for place in (long, absent):
            failed = results[place]
            assert isinstance(failed, KafkaFailure)
            assert failed.fault is KafkaFault.UNKNOWN_TOPIC
        assert (await cluster.committed([group]))[group] == {good: Committed(1)}

    using(target.bootstrap, work)


@pytest.mark.usefixtures("coordinators")
def test_an_offset_is_committed_without_metadata_that_the_brokers_refuse(
    target: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    topic, group = create_topic(target.bootstrap, unique("meta"), 2), unique("g")
    large, small = (TopicPartition(topic, number) for number in range(2))

    async def work(cluster: KafkaCluster) -> None:
        offsets = {large: Committed(5, "x" * 10_000, 3), small: Committed(6, "kept")}
        assert await cluster.alter(group, offsets) == {large: None, small: None}
        kept = {large: Committed(5, "", 3), small: Committed(6, "kept")}
        assert (await cluster.committed([group]))[group] == kept

    using(target.bootstrap, work)
    (line,) = [each for each in caplog.messages if group in each]
    assert f"{topic}-0" in line
    assert "10000 bytes" in line


def test_states_and_commits_of_groups_with_and_without_members(target: Cluster) -> None:
    topic = create_topic(target.bootstrap, unique("states"))
    produce(target.bootstrap, topic, numbered(3))
    empty, busy, absent = unique("empty"), unique("busy"), unique("absent")
    commit(target.bootstrap, empty, {(topic, 0): 1})
    commit(target.bootstrap, busy, {(topic, 0): 1})
    place = TopicPartition(topic, 0)

    async def work(cluster: KafkaCluster) -> None:
        states = await cluster.group_states([empty, busy, absent])
        assert states == {
            empty: GroupState.EMPTY,
            busy: GroupState.STABLE,
            absent: GroupState.NOT_FOUND,
        }
        listed = await cluster.list_groups()
        assert (listed[busy].state, listed[busy].type) == (GroupState.STABLE, "classic")
        assert absent not in listed
        failed = (await cluster.alter(busy, {place: Committed(2)}))[place]
        assert isinstance(failed, KafkaFailure)
        assert failed.fault is KafkaFault.GROUP_ACTIVE
        assert (await cluster.committed([busy]))[busy] == {place: Committed(1)}

    with active_member(target.bootstrap, busy, [topic]):
        using(target.bootstrap, work)


def test_groups_of_the_new_protocol(target: Cluster) -> None:
    """KIP-848: listed as `consumer`; refused while there are members, written when they are gone."""
    topic, group = create_topic(target.bootstrap, unique("kip848")), unique("g")
    produce(target.bootstrap, topic, numbered(3))
    place = TopicPartition(topic, 0)
    settings = {
        "bootstrap.servers": target.bootstrap,
        "group.id": group,
        "group.protocol": "consumer",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }

    async def listed(cluster: KafkaCluster) -> GroupListing | None:
        return (await cluster.list_groups()).get(group)

    async def write(cluster: KafkaCluster) -> KafkaFailure | None:
        return (await cluster.alter(group, {place: Committed(2, "m", -1)}))[place]

    async def states(cluster: KafkaCluster) -> GroupState:
        return (await cluster.group_states([group]))[group]

    consumer = Consumer(settings)
    try:
        consumer.subscribe([topic])
        eventually(lambda: consumer.poll(0.5) is not None, WAIT, what="the member reads")
        result = using(target.bootstrap, listed)
        assert result is not None
        assert (result.type, result.state) == ("consumer", GroupState.STABLE)
        refused = using(target.bootstrap, write)
        assert refused is not None
        assert refused.fault is KafkaFault.GROUP_ACTIVE
    finally:
        consumer.close()
    result = using(target.bootstrap, listed)
    assert result is not None
    assert (result.type, result.state) == ("consumer", GroupState.EMPTY)
    assert using(target.bootstrap, states) in (GroupState.EMPTY, GroupState.NOT_FOUND)
    assert using(target.bootstrap, write) is None

    async def committed(cluster: KafkaCluster) -> object:
        return (await cluster.committed([group]))[group]

    assert using(target.bootstrap, committed) == {place: Committed(2, "m", -1)}


# -- a broker that goes away -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lone(request: pytest.FixtureRequest, stack: LocalStack) -> Broker:
    """A broker that may be stopped."""
    return stack.broker("lone", properties=RESTARTED)


@pytest.mark.long
def test_a_broker_that_restarts_fails_and_recovers(lone: Broker) -> None:
    topic, group = create_topic(lone.bootstrap, unique("restart")), unique("g")
    batches(lone.bootstrap, topic, [10])
    place = TopicPartition(topic, 0)
    commit(lone.bootstrap, group, {(topic, 0): 5})

    async def whole(cluster: KafkaCluster) -> None:
        assert isinstance((await cluster.topics([topic]))[topic], TopicInfo)
        assert isinstance((await cluster.bounds([place], committed_only=True))[place], Bounds)
        (result,) = await ask(cluster, topic, read(3))
        assert isinstance(result, Window)
        assert (await cluster.committed([group]))[group] == {place: Committed(5, "", -1)}
        assert (await cluster.group_states([group]))[group] is GroupState.EMPTY

    async def work(cluster: KafkaCluster) -> None:
        await whole(cluster)
        epoch = (await cluster.bounds([place], committed_only=True))[place]
        assert isinstance(epoch, Bounds)
        cluster.forget_windows()
        await asyncio.to_thread(lone.stop)
        for call in (
            lambda: cluster.topics([topic]),
            lambda: cluster.committed([group]),
            cluster.list_groups,
        ):
            with pytest.raises(KafkaFailure) as caught:
                await call()
            assert caught.value.fault is KafkaFault.UNREACHABLE
            assert caught.value.retriable
            says_which(caught.value)
        (lost,) = await ask(cluster, topic, read(3))
        assert isinstance(lost, KafkaFailure)
        there = (await cluster.bounds([place], committed_only=True))[place]
        assert isinstance(there, KafkaFailure)
        failed = (await cluster.alter(group, {place: Committed(6)}))[place]
        assert isinstance(failed, KafkaFailure)
        assert (lost.fault, there.fault, failed.fault) == (KafkaFault.UNREACHABLE,) * 3
        states = await cluster.group_states([group])
        assert states == {group: GroupState.UNKNOWN}
        await asyncio.to_thread(lone.start)
        deadline = time.monotonic() + 30
        while True:
            with suppress(KafkaFailure, AssertionError):
                await whole(cluster)
                break
            assert time.monotonic() < deadline
            await asyncio.sleep(0.2)
        again = (await cluster.bounds([place], committed_only=True))[place]
        assert isinstance(again, Bounds)
        assert again.leader_epoch > epoch.leader_epoch
        assert await cluster.alter(group, {place: Committed(6)}) == {place: None}

    using(lone.bootstrap, work, hasty=True)


def says_which(failure: KafkaFailure) -> None:
    """One line that names what was tried; no traceback, no repr of an exception."""
    text = str(failure)
    assert "\n" not in text
    assert "Traceback" not in text
    assert "while trying to" in text
    assert "0x" not in text


def test_nobody_at_the_address() -> None:
    async def work(cluster: KafkaCluster) -> None:
        with pytest.raises(KafkaFailure) as caught:
            await cluster.topics(["x"])
        assert caught.value.fault is KafkaFault.UNREACHABLE
        says_which(caught.value)

    using("127.0.0.1:1", work, hasty=True)


def test_bounds_agree_with_the_admin_client(source: Cluster) -> None:
    topic = create_topic(source.bootstrap, unique("agree"), 3)
    batches(source.bootstrap, topic, [7])

    async def work(cluster: KafkaCluster) -> dict[int, tuple[int, int]]:
        await known(cluster, topic)
        result = await cluster.bounds([TopicPartition(topic, at) for at in range(3)], committed_only=False)
        return {p.partition: (each.start, each.end) for p, each in result.items() if isinstance(each, Bounds)}

    assert using(source.bootstrap, work) == bounds(source.bootstrap, topic)
