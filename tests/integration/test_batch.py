"""What a real broker makes of batches that are sent to it: why some are passed, some rebuilt and some left out.

Each rule stands beside what the broker does with the batch as it was fetched.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

import pytest

from bridge.kafka.config.settings import client_settings
from bridge.kafka.consumer.log_bounds import bounds
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol import log_requests, produce_requests
from bridge.kafka.protocol.log_requests import FetchPartition
from bridge.kafka.protocol.produce_requests import Produced, ProducerIdAndEpoch
from bridge.kafka.protocol.wire import BytesLike
from bridge.kafka.record.batch import Chunk, RawBatch, parse, passed, stamp
from bridge.kafka.record.coalescing import DataBatches
from bridge.kafka.record.rebuilding import BatchPolicy, CodecSizes, RecordTooLarge, chunks, refused
from bridge.local import Cluster
from bridge.model.values import Bounds, Side, TopicPartition
from tests.support import (
    Record,
    compact,
    create_topic,
    eventually,
    produce,
    produce_transaction,
    read,
    unique,
)
from tests.support.forms import mostly_long
from tests.support.waits import WAIT
from tests.unit.kafka.record.raw_batches import (
    GZIP,
    LZ4,
    NONE,
    NOW,
    SNAPPY,
    ZSTD,
    Plain,
    batch_of,
    legacy,
    plain_records,
    sealed,
)

T = TypeVar("T")
CODECS = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
WIDE = BatchPolicy(1_048_588, 16_384)
BACKLOG = replace(WIDE, coalesced=CodecSizes.all(4096))
CORRUPT, TOO_LARGE, INVALID_TIMESTAMP, OUT_OF_ORDER, INVALID_RECORD = 2, 10, 32, 45, 87
NOBODY = ProducerIdAndEpoch(-1, -1)
ODD = [
    Record(b"value", key=b"key", timestamp=NOW, headers=(("h", b"1"), ("h", b"2"), ("h", None), ("", b""))),
    Record(None, key=b"tombstone", timestamp=NOW - 5),
    Record(b"no key", timestamp=NOW + 3),
    Record(None, timestamp=1),
    Record(b"", key=b"", timestamp=NOW),
]


class Wire:
    """One broker, asked without a client in between."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._runner = asyncio.Runner()
        self._client = NetworkClient(
            client_settings(Side.SOURCE, {"source.cluster.bootstrap.servers": bootstrap}).raw
        )

    def close(self) -> None:
        self._runner.run(self._client.close())
        self._runner.close()

    def run(self, work: Awaitable[T]) -> T:
        async def go() -> T:
            return await work

        return self._runner.run(go())

    def topic(self, configs: Mapping[str, str] | None = None) -> str:
        name = unique("raw")
        place = TopicPartition(name, 0)

        async def created() -> bool:
            await self._client.metadata([name])
            return isinstance((await bounds(self._client, [place], committed_only=False))[place], Bounds)

        create_topic(self.bootstrap, name, 1, dict(configs or {}))
        eventually(lambda: self.run(created()), WAIT, what=f"topic {name} is served")
        return name

    def send(self, topic: str, data: BytesLike) -> Produced:
        place = TopicPartition(topic, 0)

        async def go() -> Produced:
            nodes, _ = self._client.by_leader([place])
            (node,) = nodes
            answer = await self._client.send(
                node, produce_requests.produce(None, {place: data}, 10_000), "send"
            )
            return produce_requests.read_produced(answer)[0][place]

        return self.run(go())

    def send_chunks(self, topic: str, made: Iterator[Chunk] | list[Chunk]) -> list[int]:
        """Sends as a producer without an identity; answers the base offsets."""
        offsets = []
        for chunk in made:
            stamp(chunk.data, -1, -1, -1, False)
            answer = self.send(topic, chunk.data)
            assert (answer.error, answer.message) == (0, "")
            offsets.append(answer.offset)
        return offsets

    def fetch(self, topic: str, *, committed: bool = True) -> list[RawBatch]:
        """All that is to be copied up to the end, which a transaction's marker may be late for."""
        place = TopicPartition(topic, 0)
        batches: list[RawBatch] = []
        at = 0

        async def once() -> tuple[DataBatches, int]:
            await self._client.metadata([topic])
            nodes, _ = self._client.by_leader([place])
            (node,) = nodes
            topic_id = self._client.topic_id(topic)
            call = log_requests.fetch(
                {place: FetchPartition(topic_id, at, 1 << 25)}, committed_only=committed
            )
            answer = await self._client.send(node, call, "fetch")
            got = log_requests.read_fetched(answer, call.API_VERSION, {topic_id: topic})[place]
            batches = DataBatches.committed(got.records, at, got.aborted if committed else None)
            return batches, got.high_watermark

        def all_there() -> bool:
            nonlocal at
            result, end = self.run(once())
            batches.extend(result.batches)
            at = result.next_offset
            return at >= end

        eventually(all_there, WAIT, what=f"{topic} is read to its end")
        return batches

    def id_and_epoch(self) -> ProducerIdAndEpoch:
        call = produce_requests.init_producer_id(None, 60_000, NOBODY)
        error, id_and_epoch = produce_requests.read_producer_id(
            self.run(self._client.send(None, call, "ask"))
        )
        assert error == 0
        return id_and_epoch

    def copy(self, topic: str, policy: BatchPolicy = WIDE, *, committed: bool = True, to: str = "") -> str:
        to = to or self.topic()
        self.send_chunks(to, chunks(self.fetch(topic, committed=committed), policy, 0))
        return to

    def records(self, topic: str) -> list[Plain]:
        return [record for each in self.fetch(topic) for record in plain_records(bytes(each.data))]

    def contents(self, topic: str, *, committed: bool = True) -> list[tuple[object, ...]]:
        """As librdkafka reads them."""
        return [each.content for each in read(self.bootstrap, topic, committed_only=committed)]


@pytest.fixture(scope="module")
def wire(target: Cluster) -> Iterator[Wire]:
    opened = Wire(target.bootstrap)
    yield opened
    opened.close()


def only(batches: list[RawBatch]) -> RawBatch:
    (one,) = batches
    return one


def payload(batch: RawBatch) -> bytes:
    return bytes(batch.data[61:])


@pytest.mark.parametrize("codec", mostly_long(CODECS, short=2))
def test_records_arrive_bit_for_bit_passed_or_put_together(wire: Wire, codec: str) -> None:
    topic = wire.topic()
    for record in ODD * 2:
        single = batch_of(
            [Plain(record.timestamp or 0, record.key, record.value, record.headers)], codec=CODECS[codec]
        )
        assert wire.send(topic, unowned(single)).error == 0
    produce(wire.bootstrap, topic, ODD * 20, compression=codec)
    originals = wire.fetch(topic)
    assert {each.attributes & 7 for each in originals[-1:]} == {CODECS[codec]}

    passed_on, together = wire.copy(topic), wire.copy(topic, BACKLOG)
    assert wire.contents(passed_on) == wire.contents(together) == [each.content for each in ODD * 22]
    assert [payload(each) for each in wire.fetch(passed_on)] == [payload(each) for each in originals]
    assert {each.attributes for each in wire.fetch(together)} <= {each.attributes for each in originals}
    assert len(wire.fetch(together)) < len(originals)


def test_timestamps_that_no_clock_shows(wire: Wire) -> None:
    """-1 says none; a broker takes it, and lower ones as well."""
    records = [Plain(time, b"k", b"v") for time in (-1, -5, 0, NOW)]
    source, copy = wire.topic(), wire.topic()
    for single in records:
        assert wire.send(source, unowned(batch_of([single]))).error == 0
    assert wire.send(source, unowned(batch_of(records))).error == 0
    wire.copy(source, BACKLOG, to=copy)
    assert wire.records(copy) == records * 2


def test_control_and_aborted_batches_are_not_copied(wire: Wire) -> None:
    topic = wire.topic()
    produce_transaction(wire.bootstrap, topic, ODD)
    produce_transaction(wire.bootstrap, topic, ODD * 2, commit=False)
    produce(wire.bootstrap, topic, ODD)
    produce_transaction(wire.bootstrap, topic, ODD[:1])
    copy = wire.copy(topic)
    assert (
        wire.contents(copy, committed=False)
        == wire.contents(topic)
        == [each.content for each in [*ODD, *ODD, ODD[0]]]
    )
    assert {each.attributes for each in wire.fetch(copy)} == {0}
    everything = wire.copy(topic, committed=False)
    assert wire.contents(everything) == wire.contents(topic, committed=False)
    assert len(wire.contents(everything)) == len(ODD) * 4 + 1


def test_a_hole_is_rejected_and_hidden_it_corrupts_the_log_so_it_is_rebuilt(wire: Wire) -> None:
    topic = wire.topic({"cleanup.policy": "compact", "delete.retention.ms": "0"})
    records = [Record(b"%d" % at, key=b"key-%d" % (at % 7), timestamp=NOW + at) for at in range(20)]
    produce(wire.bootstrap, topic, records, compression="lz4", linger_ms=500)
    compact(wire.bootstrap, topic)
    holed = wire.fetch(topic)[0]
    assert holed.last_offset - holed.base_offset + 1 > holed.count

    bare = passed(holed)
    stamp(bare.data, -1, -1, -1, False)
    assert wire.send(wire.topic(), bare.data).error == INVALID_RECORD

    hidden = bytearray(unowned(batch_of([Plain(NOW, b"k", b"0"), None, Plain(NOW, b"k", b"2")])))
    struct.pack_into(">i", hidden, 23, 1)
    corrupted = wire.topic()
    assert wire.send(corrupted, sealed(hidden)).error == 0
    assert wire.send(corrupted, unowned(batch_of([Plain(NOW, b"k", b"next")]))).error == 0
    # Two records at one offset: the batch ends at 1 by its header, and holds a record at 2.
    assert [each.offset for each in read(wire.bootstrap, corrupted)] == [0, 2, 2]

    assert wire.contents(wire.copy(topic)) == wire.contents(topic)


def test_append_time_is_written_into_each_record(wire: Wire) -> None:
    topic = wire.topic({"message.timestamp.type": "LogAppendTime"})
    produce(
        wire.bootstrap, topic, [Record(b"v", key=b"k", timestamp=NOW + at) for at in range(5)], linger_ms=100
    )
    stamped = wire.contents(topic)
    assert {each[2] for each in stamped}.isdisjoint(range(NOW, NOW + 5))

    naive = wire.topic()
    for each in wire.fetch(topic):
        bare = bytearray(unowned(bytes(each.data)))
        bare[22] |= 0x08
        assert wire.send(naive, sealed(bare)).error == 0
    assert [each[2] for each in wire.contents(naive)] == list(range(NOW, NOW + 5))

    assert wire.contents(wire.copy(topic)) == stamped


def test_a_delete_horizon_would_be_kept_so_it_is_cleared(wire: Wire) -> None:
    horizon = unowned(
        batch_of([Plain(NOW, b"k", None), Plain(NOW + 1, b"k", b"v")], delete_horizon=NOW + 9000)
    )
    topic = wire.topic()
    assert wire.send(topic, horizon).error == 0
    assert only(wire.fetch(topic)).attributes == 0x40
    copy = only(wire.fetch(wire.copy(topic)))
    assert copy.attributes == 0
    assert plain_records(bytes(copy.data)) == [Plain(NOW, b"k", None), Plain(NOW + 1, b"k", b"v")]


@pytest.mark.parametrize("codec", mostly_long(CODECS, short=2))
def test_a_batch_larger_than_the_target_takes_is_split(wire: Wire, codec: str) -> None:
    values = [bytes((at * at + step * step * 7) % 253 for step in range(at, at + 700)) for at in range(40)]
    whole = unowned(
        batch_of([Plain(NOW + at, b"k", value) for at, value in enumerate(values)], codec=CODECS[codec])
    )
    topic = wire.topic()
    assert wire.send(topic, whole).error == 0
    limit = len(whole) // 3
    small = wire.topic({"max.message.bytes": str(limit)})
    assert wire.send(small, whole).error == TOO_LARGE
    wire.copy(topic, replace(WIDE, max_message_bytes=limit), to=small)
    assert wire.records(small) == wire.records(topic)
    assert {each.attributes for each in wire.fetch(small)} == {CODECS[codec]}


def test_a_batch_as_large_as_the_limit_is_taken_and_a_larger_record_is_an_error(wire: Wire) -> None:
    record = unowned(batch_of([Plain(NOW, b"k", bytes(500))]))
    topic = wire.topic()
    wire.send(topic, record)
    tight, tighter = (wire.topic({"max.message.bytes": str(len(record) - less)}) for less in (0, 1))
    wire.copy(topic, replace(WIDE, max_message_bytes=len(record)), to=tight)
    assert wire.records(tight) == wire.records(topic)
    assert wire.send(tighter, record).error == TOO_LARGE
    with pytest.raises(RecordTooLarge, match="offset 0 "):
        wire.copy(topic, replace(WIDE, max_message_bytes=len(record) - 1), to=tighter)


def test_a_batch_of_ten_megabytes_is_passed(wire: Wire) -> None:
    wide = {"max.message.bytes": str(12 << 20)}
    records = [Plain(NOW, b"%d" % at, bytes(1 << 20)) for at in range(10)]
    data = unowned(batch_of(records))
    topic, copy = wire.topic(wide), wire.topic(wide)
    assert wire.send(topic, data).error == 0
    wire.copy(topic, replace(WIDE, max_message_bytes=12 << 20), to=copy)
    assert payload(only(wire.fetch(copy))) == data[61:]


@pytest.mark.parametrize(
    ("configs", "poison", "error"),
    [
        ({"message.timestamp.after.max.ms": "1000"}, Plain(NOW * 3, b"k", b"late"), INVALID_TIMESTAMP),
        ({"message.timestamp.before.max.ms": "1000000000000"}, Plain(5, b"k", b"early"), INVALID_TIMESTAMP),
        ({"cleanup.policy": "compact"}, Plain(NOW, None, b"no key"), INVALID_RECORD),
    ],
    ids=["after", "before", "key"],
)
def test_a_refused_batch_is_cut_down_to_the_record(
    wire: Wire, configs: dict[str, str], poison: Plain, error: int
) -> None:
    good = [Plain(NOW + at, b"key-%d" % at, b"v") for at in range(9)]
    data = batch_of([*good[:6], poison, *good[6:]], 100)
    topic = wire.topic(configs)
    (waiting,) = [[each] for each in chunks(list(parse(data)), WIDE, 0)]
    blamed = []
    while waiting:
        chunk = waiting.pop(0)
        stamp(chunk.data, -1, -1, -1, False)
        answer = wire.send(topic, chunk.data)
        if answer.error:
            assert answer.error == error
            halves = refused(chunk)
            waiting[:0] = halves
            if not halves:
                blamed.append(chunk.segments)
    assert blamed == [((106, 1),)]
    assert wire.records(topic) == good


def test_a_target_with_a_compression_of_its_own_recompresses(wire: Wire) -> None:
    topic, copy = wire.topic(), wire.topic({"compression.type": "zstd"})
    produce(wire.bootstrap, topic, ODD * 20, compression="lz4")
    wire.copy(topic, to=copy)
    assert {each.attributes for each in wire.fetch(copy)} == {ZSTD}
    assert wire.records(copy) == wire.records(topic)


def test_two_batches_of_a_partition_in_one_request_are_rejected(wire: Wire) -> None:
    one = unowned(batch_of([Plain(NOW, b"k", b"v")]))
    topic = wire.topic()
    assert wire.send(topic, one + one).error == INVALID_RECORD
    assert wire.send(topic, one).error == 0


def test_a_request_over_100_mib_closes_the_connection(wire: Wire) -> None:
    host, port = wire.bootstrap.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(struct.pack(">i", 100 * 1024 * 1024 + 1))
        assert connection.recv(1) == b""


def test_sequences_wrap_to_zero(wire: Wire) -> None:
    """The batch that crosses 2^31-1 as well as the one behind it."""
    topic, id_and_epoch = wire.topic(), wire.id_and_epoch()
    chunk = passed(next(parse(batch_of([Plain(NOW, b"k", b"v")] * 5))))

    def sent(sequence: int) -> int:
        stamp(chunk.data, *id_and_epoch, sequence, False)
        return wire.send(topic, chunk.data).error

    assert sent(2**31 - 7) == 0
    assert sent(2**31 - 2) == 0
    assert sent(2) == OUT_OF_ORDER
    assert sent(3) == 0
    assert len(wire.records(topic)) == 15


def test_a_wrong_checksum_is_rejected(wire: Wire) -> None:
    chunk = passed(next(parse(batch_of([Plain(NOW, b"k", b"v")]))))
    assert wire.send(wire.topic(), chunk.data).error == CORRUPT


@pytest.mark.parametrize("codec", mostly_long(["none", "gzip", "snappy"]))
def test_messages_from_before_0_11_arrive(wire: Wire, codec: str) -> None:
    topic, data = wire.topic(), legacy(0, CODECS[codec], 10) + legacy(1, CODECS[codec], 13)
    wire.send_chunks(topic, chunks(DataBatches.committed(data, 10, ()).batches, BACKLOG, 10))
    assert wire.records(topic) == [
        Plain(time, b"key", b"value") for time in (-1, -1, -1, NOW, NOW + 1, NOW + 2)
    ]


def unowned(data: bytes) -> bytes:
    """As a producer without an identity sends it, flags kept."""
    sent = bytearray(data)
    struct.pack_into(">qii", sent, 0, 0, len(sent) - 12, -1)
    struct.pack_into(">qhi", sent, 43, -1, -1, -1)
    return sealed(sent)
