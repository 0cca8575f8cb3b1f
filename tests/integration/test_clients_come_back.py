"""Clients that are kept for long work again when the only broker of a cluster was away, killed or stopped for longer
than its session, or has come back at another address (KIP-899), also where they were asked meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Literal

import pytest

from bridge.dedicated.flow_run import RecordWriter
from bridge.dedicated.membership import TargetGroups
from bridge.errors import KafkaFailure
from bridge.kafka.admin.admin_client import AsyncAdminClient
from bridge.kafka.admin.topic_admin import create_compacted
from bridge.kafka.config.settings import client_settings
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.producer.producer import TransactionalProducer
from bridge.local import Cluster
from bridge.local.broker import Broker
from bridge.local.jars import kafka_jars
from bridge.local.processes import ReservedPort
from bridge.model.values import Side, TopicPartition
from bridge.protocol.messages import Record
from tests.integration.copy_flow import CopyFlow
from tests.support import create_topic, numbered, produce, unique
from tests.support.waits import WAIT

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    running = Broker("returning", kafka_jars(), tmp_path_factory.mktemp("broker"), heap="384m")
    running.start()
    try:
        yield running
    finally:
        running.close()


How = Literal["killed", "stopped", "moved"]


def away(broker: Broker, how: How, other: ReservedPort) -> None:
    """`other`: the port that it has from then on where it moves; it is released otherwise."""
    if how != "moved":
        other.release()
    if how != "stopped":
        broker.kill()
        if how == "moved":
            broker.move(other)
        broker.start()
    else:
        broker.process.pause()
        try:
            broker.process.wait_until(_after(4.0), WAIT, "its session of 2 s is over")
        finally:
            broker.process.resume()


def _after(seconds: float) -> Callable[[], bool]:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end


async def while_away(ask: Callable[[], Awaitable[object]], gone: asyncio.Task[None]) -> None:
    while not gone.done():
        with suppress(KafkaFailure):
            await ask()
        await asyncio.sleep(0.1)


async def answered(what: str, ask: Callable[[], Awaitable[object]]) -> None:
    """Within WAIT, whatever fails meanwhile."""
    failed: list[str] = []
    for _ in range(round(WAIT / 0.2)):
        try:
            async with asyncio.timeout(WAIT):
                await ask()
            break
        except KafkaFailure as failure:
            failed.append(str(failure))
        await asyncio.sleep(0.2)
    else:
        pytest.fail(f"{what} does not work again: {failed[-3:]}")
    print(f"{what}: {len(failed)} failures", set(failed))


@pytest.mark.parametrize("how", ["killed", "stopped", "moved"])
def test_they_work_again(broker: Broker, how: How) -> None:
    other = ReservedPort()
    props = {
        "source.cluster.bootstrap.servers": f"{broker.bootstrap},{other.address}",
        "source.admin.request.timeout.ms": "5000",
    }
    settings = client_settings(Side.SOURCE, props)
    topic = create_topic(broker.bootstrap, unique("state"), 1)

    async def go() -> None:
        network, producer = (
            NetworkClient(settings.raw_admin),
            TransactionalProducer(settings.raw, unique("tx")),
        )
        await producer.start()
        admin = AsyncAdminClient(settings.admin, network, 5.0)
        groups, writer = TargetGroups(settings), RecordWriter(settings.admin, unique("writer"))

        async def write() -> None:
            if producer.open:
                await producer.abort()
            await producer.write(topic, [(b"key", b"value")])

        record = Record(source_partition={}, source_offset={}, topic=topic)
        asked: dict[str, Callable[[], Awaitable[object]]] = {
            "admin": lambda: create_compacted(admin, unique("made"), 1),
            "groups": lambda: groups.members(topic),
            "writer": lambda: writer.write([record]),
            "network": lambda: network.metadata([topic]),
            "producer": write,
        }
        try:
            for what, ask in asked.items():
                await answered(f"{what}, before", ask)
            gone = asyncio.create_task(asyncio.to_thread(away, broker, how, other))
            meanwhile = [asyncio.create_task(while_away(ask, gone)) for ask in asked.values()]
            await gone
            await asyncio.gather(*meanwhile)
            await asyncio.gather(*(answered(what, ask) for what, ask in asked.items()))
        finally:
            await admin.close()
            await network.close()
            await producer.close()
            await groups.close()
            await writer.close()

    asyncio.run(go())


@pytest.mark.parametrize("side", [Side.SOURCE, Side.TARGET])
def test_a_copy_goes_on_when_the_only_broker_has_another_address(
    broker: Broker, target: Cluster, side: Side
) -> None:
    other = ReservedPort()
    origin, goal = (broker, target) if side is Side.SOURCE else (target, broker)
    servers = {f"{side}.cluster.bootstrap.servers": f"{broker.bootstrap},{other.address}"}
    flow = CopyFlow(origin, goal, props=servers)
    topic = flow.topic(2)
    place = TopicPartition(topic, 0)
    produce(flow.source.bootstrap, topic, numbered(100))
    with flow.pipeline() as running:
        running.wait_position({place: 100})
        away(broker, "moved", other)
        produce(flow.source.bootstrap, topic, numbered(100, start=100))
        running.wait_position({place: 200})
    flow.assert_copied()
    flow.assert_runs_true()
