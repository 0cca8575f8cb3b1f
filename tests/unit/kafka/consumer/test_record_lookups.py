"""Look-ups and clients with brokers in memory: what shared clients must stand, and what no one broker can show."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple

import pytest
from aiokafka.client import AIOKafkaClient, ConnectionGroup
from aiokafka.cluster import ClusterMetadata
from aiokafka.errors import NodeNotReadyError, RequestTimedOutError

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.config.settings import client_settings
from bridge.kafka.consumer.record_lookups import Lookups
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol import log_requests
from bridge.kafka.protocol.wire import Call, Reader, Writer
from bridge.model.copying import MOST_BYTES
from bridge.model.lookups import Need, Read, Window
from bridge.model.values import Side, TopicPartition
from tests.unit.kafka.record.raw_batches import batch

TPS = [TopicPartition("orders", number) for number in range(3)]


class FakeNetworkClient:
    """A node that leads all partitions and answers fetches by `serve`: (partition, offset, bytes, first) → records."""

    def __init__(self, serve: Callable[[TopicPartition, int, int, bool], bytes], end: int = 1000) -> None:
        self.serve, self.end = serve, end
        self.id, self.most_decompressed = "", MOST_BYTES
        self.before: Callable[[], None] = lambda: None

    def by_leader(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, KafkaFailure]]:
        return {1: list(partitions)}, {}

    def topic_id(self, topic: str) -> str:
        return self.id

    async def send(self, node: int, call: Call, doing: str) -> Reader:
        request = Reader(call.prepare({1: (11, 11)}).encode(), flexible=False)
        await asyncio.sleep(0)
        self.before()
        request.skip(4 + 4 + 4 + 4 + 1 + 4 + 4)
        writer = Writer(flexible=False)
        writer.int32(0)
        writer.int16(0)
        writer.int32(0)
        topics = request.array()
        writer.array(len(topics))
        for _ in topics:
            topic = request.string()
            writer.string(topic)
            partitions = request.array()
            writer.array(len(partitions))
            for at, _ in enumerate(partitions):
                index = request.int32()
                request.skip(4)
                offset = request.int64()
                request.skip(8)
                records = self.serve(TopicPartition(topic, index), offset, request.int32(), at == 0)
                writer.int32(index)
                writer.int16(0)
                for value in (self.end, self.end, 0):
                    writer.int64(value)
                writer.array(None)
                writer.int32(-1)
                writer.int32(len(records))
                writer = _raw(writer, records)
        return Reader(writer.encode(), flexible=False)


def _raw(writer: Writer, data: bytes) -> Writer:
    for byte in data:
        writer.int8(byte - 256 if byte > 127 else byte)
    return writer


def ask(lookups: Lookups, *needs: tuple[TopicPartition, Need]) -> dict[TopicPartition, dict[Need, object]]:
    expected: dict[TopicPartition, list[Need]] = {}
    for tp, need in needs:
        expected.setdefault(tp, []).append(need)
    return asyncio.run(lookups.answer(expected))  # type: ignore[arg-type]


def read(offset: int) -> Read:
    return Read(Side.SOURCE, offset, 100)


def offsets(window: object) -> list[int]:
    assert isinstance(window, Window), window
    return [record.offset for record in window.records]


def test_a_large_batch_is_no_hole_although_others_are_read_at_the_same_offset() -> None:
    """A broker leaves out a batch that is too large, except for the first partition of a request."""

    def serve(_tp: TopicPartition, _offset: int, size: int, first: bool) -> bytes:
        data = batch(0, 20)
        return data if first or len(data) <= size else b""

    lookups = Lookups(FakeNetworkClient(serve), committed_only=False)  # type: ignore[arg-type]
    result = ask(lookups, *((tp, read(5)) for tp in TPS))
    for tp in TPS:
        assert offsets(result[tp][read(5)]) == list(range(20))


def test_a_fetch_reads_64_partitions_at_most() -> None:
    """Each may take as many bytes as its largest batch: more would be more than a fetch may have together."""
    sizes: list[int] = []

    def serve(_tp: TopicPartition, offset: int, _size: int, first: bool) -> bytes:
        sizes.extend([0] if first else [])
        sizes[-1] += 1
        return batch(offset, 3)

    lookups = Lookups(FakeNetworkClient(serve), committed_only=False)  # type: ignore[arg-type]
    ask(lookups, *((TopicPartition("orders", number), read(5)) for number in range(130)))
    assert sorted(sizes, reverse=True) == [64, 64, 2]


def test_a_round_of_another_connector_that_ends_meanwhile_takes_nothing_away() -> None:
    client = FakeNetworkClient(lambda _tp, offset, _size, _first: batch(offset, 3))
    lookups = Lookups(client, committed_only=False)  # type: ignore[arg-type]
    client.before = lookups.forget
    result = ask(lookups, *((TPS[0], read(at)) for at in range(0, 60, 3)))
    assert all(offsets(result[TPS[0]][read(at)]) == [at, at + 1, at + 2] for at in range(0, 60, 3))


def test_what_was_read_of_a_topic_is_not_believed_of_the_next_of_that_name() -> None:
    content = {"": batch(0, 3), "new": batch(0, 9)}
    client = FakeNetworkClient(lambda _tp, _offset, _size, _first: content[client.id])
    lookups = Lookups(client, committed_only=False)  # type: ignore[arg-type]
    assert offsets(ask(lookups, (TPS[0], read(1)))[TPS[0]][read(1)]) == [0, 1, 2]
    client.id = "new"
    # By name, since this node speaks nothing newer; the answer is that of the new topic all the same.
    real = log_requests.fetch

    def by_name(parts, *, committed_only):  # type: ignore[no-untyped-def]
        return real(
            {p: part._replace(topic_id="") for p, part in parts.items()}, committed_only=committed_only
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_requests, "fetch", by_name)
        assert offsets(ask(lookups, (TPS[0], read(1)))[TPS[0]][read(1)]) == list(range(9))


def test_a_batch_that_cannot_be_decoded_is_trouble_of_its_partition_only() -> None:
    broken = bytearray(batch(0, 50, codec=1))
    broken[70:110] = bytes(40)

    def serve(tp: TopicPartition, _offset: int, _size: int, _first: bool) -> bytes:
        return bytes(broken) if tp == TPS[1] else batch(0, 3)

    lookups = Lookups(FakeNetworkClient(serve), committed_only=False)  # type: ignore[arg-type]
    result = ask(lookups, *((tp, read(1)) for tp in TPS))
    failed = result[TPS[1]][read(1)]
    assert isinstance(failed, KafkaFailure)
    assert str(failed).startswith("Unreadable batch: ")
    assert failed.fault is KafkaFault.UNREADABLE_BATCH
    assert "orders-1 at 1" in str(failed)
    assert offsets(result[TPS[0]][read(1)]) == offsets(result[TPS[2]][read(1)]) == [0, 1, 2]


# -- clients -----------------------------------------------------------------------------------------------------------


class Broker(NamedTuple):
    nodeId: int
    host: str
    port: int


class ThreeBrokers(ClusterMetadata):
    def __init__(self) -> None:
        """Takes no settings, and no answer of a broker."""

    def brokers(self) -> set[Broker]:
        return {Broker(node, "127.0.0.1", 1) for node in (1, 2, 3)}

    def broker_metadata(self, broker_id: int) -> Broker:
        return Broker(broker_id, "127.0.0.1", 1)


class FakeClient(AIOKafkaClient):
    """A client of three brokers, some of them down."""

    def __init__(self, down: set[int], error: Exception | None = None) -> None:
        self.down, self.error = down, error or NodeNotReadyError()
        self.tried: list[int] = []
        self.cluster = ThreeBrokers()

    async def ready(self, node: int, *, group: int = ConnectionGroup.DEFAULT) -> bool:
        return True

    async def send(self, node: int, call: Call, *, group: int = ConnectionGroup.DEFAULT) -> Reader:
        self.tried.append(node)
        if node in self.down:
            raise self.error
        return Reader(str(node).encode(), flexible=False)

    def __del__(self, **_: object) -> None:
        """Nothing was opened."""


def send(library: FakeClient, node: int | None) -> Reader:
    raw = client_settings(Side.SOURCE, {"source.cluster.bootstrap.servers": "127.0.0.1:1"}).raw

    async def go() -> Reader:
        return await NetworkClient(raw, library).send(node, log_requests.metadata([]), "describe topics")

    return asyncio.run(go())


@pytest.mark.parametrize("error", [NodeNotReadyError(), RequestTimedOutError()])
def test_any_broker_will_do_where_any_will(error: Exception) -> None:
    for up in (1, 2, 3):
        assert send(FakeClient({1, 2, 3} - {up}, error), None).data == str(up).encode()


def test_all_brokers_down_is_told_by_its_cause() -> None:
    library = FakeClient({1, 2, 3})
    with pytest.raises(KafkaFailure, match="while trying to describe topics") as caught:
        send(library, None)
    assert caught.value.fault is KafkaFault.UNREACHABLE
    assert sorted(library.tried) == [1, 2, 3]


def test_a_node_that_is_asked_for_is_not_replaced() -> None:
    with pytest.raises(KafkaFailure, match="Connect call failed"):
        send(FakeClient({2}), 2)


def test_records_show_that_a_topic_has_its_timestamps_overwritten() -> None:
    client = FakeNetworkClient(
        lambda tp, offset, _size, _first: batch(offset, 2, append_time=77 if tp == TPS[1] else None)
    )
    client.id = "an id"
    lookups = Lookups(client, committed_only=False)  # type: ignore[arg-type]
    ask(lookups, (TPS[0], read(2)))
    assert not lookups.append_time("an id")
    ask(lookups, (TPS[1], read(2)))
    lookups.forget()
    assert lookups.append_time("an id")
    assert lookups.append_time("another id") is None
    ask(lookups, (TPS[0], read(2)))
    assert lookups.append_time("an id") is False, "what is written now has its own again"
