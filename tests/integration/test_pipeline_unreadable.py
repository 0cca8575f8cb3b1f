"""The pipeline without Spark, between two real brokers: batches that nobody can decode, or may."""

from __future__ import annotations

import asyncio
import struct
import tracemalloc

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.config.settings import client_settings
from bridge.kafka.consumer.record_lookups import Lookups
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol import produce_requests
from bridge.kafka.record import columns
from bridge.kafka.record.batch import RawBatch
from bridge.kafka.record.loops import Bytes, Numbers
from bridge.local import Cluster
from bridge.model.copying import PipelineState
from bridge.model.lookups import Read, Window
from bridge.model.values import Side, TopicPartition
from tests.integration.copy_flow import CopyFlow, gaps_of
from tests.support import numbered, produce
from tests.support.forms import mostly_long
from tests.unit.kafka.record.raw_batches import NOW, ZSTD, Plain, batch_of

BROKEN = 20
MIB = 1 << 20


@pytest.mark.parametrize("policy", mostly_long(["fail", "report"]))
def test_a_batch_that_nobody_can_decode(
    policy: str, source: Cluster, target: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a topic with append time, whose batches can't pass as they are. No broker takes such a batch, so that it is
    the decoder that fails here."""
    flow = CopyFlow(source, target, settings={"fail_on_refused_record": policy == "fail"})
    topic = flow.topic(configs={"message.timestamp.type": "LogAppendTime"})
    for start in (0, BROKEN, BROKEN + 10):
        produce(source.bootstrap, topic, numbered(10 if start else BROKEN, start=start), compression="zstd")
    split = columns.split

    def failing(batch: RawBatch, most: int) -> tuple[Bytes, Numbers]:
        if batch.base_offset <= BROKEN <= batch.last_offset:  # also as one with its neighbours
            raise RuntimeError("Corrupted frame")
        return split(batch, most)

    monkeypatch.setattr(columns, "split", failing)
    status = flow.copy()
    here, there = ([each.content for each in one] for one in (flow.original(topic), flow.copies(topic)))
    if policy == "fail":
        assert status.state is PipelineState.FAILED
        assert status.failure is not None
        assert f"{topic}-0 at offsets {BROKEN} to {BROKEN + 9}" in status.failure
        assert "Corrupted frame" in status.failure
        assert gaps_of(status) == []
        assert there == here[: len(there)]
        assert len(there) <= BROKEN
        return
    assert status.state is PipelineState.CAUGHT_UP
    assert gaps_of(status) == [("record_refused", BROKEN, BROKEN + 10)]
    assert there == here[:BROKEN] + here[BROKEN + 10 :]
    # What is left out is a hole: nothing of it comes any more.
    assert flow.copy().state is PipelineState.CAUGHT_UP
    assert len(flow.copies(topic)) == 30


def send(source: Cluster, topic: str, data: bytes) -> None:
    """A batch as it is."""
    place = TopicPartition(topic, 0)

    async def go() -> int:
        client = NetworkClient(
            client_settings(Side.SOURCE, {"source.cluster.bootstrap.servers": source.bootstrap}).raw
        )
        try:
            await client.metadata([topic])
            (node,) = client.by_leader([place])[0]
            call = produce_requests.produce(None, {place: data}, 30_000)
            return produce_requests.read_produced(await client.send(node, call, "send"))[0][place].error
        finally:
            await client.close()

    assert asyncio.run(go()) == 0


def bomb() -> bytes:
    """200 MiB, in some 6 KB."""
    data = bytearray(batch_of([Plain(NOW, None, bytes(200 * MIB))], codec=ZSTD))
    struct.pack_into(">i", data, 12, -1)
    assert len(data) < 10_000
    return bytes(data)


@pytest.mark.long
@pytest.mark.parametrize("policy", ["fail", "report", "as it is"])
def test_a_batch_of_which_too_much_would_become(policy: str, source: Cluster, target: Cluster) -> None:
    """It passes where nobody has to decode it. Where somebody has to, it is an unreadable batch."""
    flow = CopyFlow(source, target, settings={"fail_on_refused_record": policy == "fail"})
    passes = policy == "as it is"
    topic = flow.topic(configs={} if passes else {"message.timestamp.type": "LogAppendTime"})
    produce(source.bootstrap, topic, numbered(BROKEN), compression="zstd")
    send(source, topic, bomb())
    produce(source.bootstrap, topic, numbered(10, start=BROKEN + 1), compression="zstd")
    tracemalloc.start()
    try:
        status = flow.copy()
        assert tracemalloc.get_traced_memory()[1] < 150 * MIB
    finally:
        tracemalloc.stop()
    if policy == "fail":
        assert status.state is PipelineState.FAILED
        assert status.failure is not None
        assert f"{topic}-0 at offsets {BROKEN} to {BROKEN}" in status.failure
        assert "bridge.batch.decompressed.max.bytes" in status.failure
        assert "source.record.policy" in status.failure
        return
    assert status.state is PipelineState.CAUGHT_UP
    left_out = [] if passes else [("record_refused", BROKEN, BROKEN + 1)]
    assert gaps_of(status) == left_out
    copied = look_up(target, flow.remote(topic), BROKEN - 1, BROKEN, BROKEN + 1)
    assert isinstance(copied[0], Window)
    assert isinstance(copied[2], Window)
    assert isinstance(copied[1], KafkaFailure) is passes
    here = look_up(source, topic, 0, BROKEN, BROKEN + 1)
    assert isinstance(here[0], Window)
    assert isinstance(here[2], Window)
    assert isinstance(here[1], KafkaFailure)
    assert here[1].fault is KafkaFault.UNREADABLE_BATCH
    assert "Unreadable batch: it holds more than" in str(here[1])


def look_up(cluster: Cluster, topic: str, *offsets: int) -> list[object]:
    place = TopicPartition(topic, 0)
    needs = [Read(Side.SOURCE, offset, 100) for offset in offsets]

    async def go() -> list[object]:
        props = {"source.cluster.bootstrap.servers": cluster.bootstrap}
        client = NetworkClient(client_settings(Side.SOURCE, props).raw)
        try:
            await client.metadata([topic])
            result = (await Lookups(client, committed_only=True).answer({place: needs}))[place]
            return [result[need] for need in needs]
        finally:
            await client.close()

    return asyncio.run(go())
