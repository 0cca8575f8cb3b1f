"""client.rack on a cluster of two brokers: records come from the replica that is near (KIP-392), and positions are true
whatever becomes of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from confluent_kafka.cimpl import NewTopic

from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol.wire import Call, Reader
from bridge.local import Broker, Cluster, LocalStack
from bridge.model.copying import PipelineState
from bridge.model.values import TopicPartition
from tests.integration.copy_flow import CopyFlow
from tests.support import admin, create_topic, eventually, produce, produce_transaction, unique
from tests.support.brokers import RESTARTED
from tests.support.records import varied
from tests.support.waits import WAIT

pytestmark = pytest.mark.long

T = TypeVar("T")
LEADER, NEAR = 1, 2
RACKS = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}


@pytest.fixture(scope="module")
def far(stack: LocalStack) -> Iterator[Broker]:
    """Node 1, in rack r1: leads all partitions of these tests, and is the controller."""
    broker = stack.broker(unique("far"), properties={**RACKS, **RESTARTED, "broker.rack": "r1"})
    yield broker
    broker.close()


@pytest.fixture(scope="module")
def near(stack: LocalStack, far: Broker) -> Iterator[Broker]:
    """Node 2, in rack r2."""
    broker = stack.broker(
        unique("near"),
        properties={**RACKS, **RESTARTED, "node.id": str(NEAR), "broker.rack": "r2"},
        joins=far,
    )
    yield broker
    broker.close()


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[int, str]]:
    """Bytes of answers to fetches, by node and the racks that they were asked with."""
    counted = Counter[tuple[int, str]]()
    send = NetworkClient.send_bulk

    async def counting(
        client: NetworkClient, node: int, call: Call, read: Callable[[Reader], T], doing: str
    ) -> T:
        def measured(answer: Reader) -> T:
            result = read(answer)
            if doing == "fetch":
                parts = result.parts.values()  # type: ignore[attr-defined]
                counted[node, client.rack] += sum(len(part.records) for part in parts)
            return result

        return await send(client, node, call, measured, doing)

    monkeypatch.setattr(NetworkClient, "send_bulk", counting)
    return counted


def replicated(flow: CopyFlow, far: Broker, near: Broker) -> str:
    """A topic that node 1 leads and node 2 follows, and its empty copy."""
    topic = unique("replicated")
    new = NewTopic(topic, 1, replica_assignment=[[LEADER, NEAR]], config={"min.insync.replicas": "1"})
    client = admin(far.bootstrap)
    for made in client.create_topics([new]).values():
        made.result(60)
    create_topic(flow.target.bootstrap, flow.remote(topic))

    def in_sync() -> None:
        (partition,) = admin(near.bootstrap).list_topics(topic, timeout=60).topics[topic].partitions.values()
        assert (partition.leader, sorted(partition.isrs)) == (LEADER, [LEADER, NEAR])

    eventually(in_sync, WAIT, what="both replicas are in sync", watched=(*far.watched, *near.watched))
    flow.topics.append(topic)
    return topic


def flow_of(far: Broker, target: Cluster, rack: str) -> CopyFlow:
    """It looks at what its source says of itself each second, and gives up an answer after two."""
    props = {
        "source.consumer.client.rack": rack,
        "source.consumer.metadata.max.age.ms": "1000",
        "source.consumer.request.timeout.ms": "2000",
    }
    return CopyFlow(far, target, props=props if rack else {})


@pytest.mark.parametrize(("rack", "node"), [("r2", NEAR), ("r1", LEADER), ("", LEADER), ("r9", LEADER)])
def test_records_are_fetched_from_the_replica_of_our_rack(
    far: Broker, near: Broker, target: Cluster, received: Counter[tuple[int, str]], rack: str, node: int
) -> None:
    flow = flow_of(far, target, rack)
    topic = replicated(flow, far, near)
    for at in range(4):
        produce_transaction(far.bootstrap, topic, varied(50, 50 * at), commit=at != 1)
    produce(far.bootstrap, topic, varied(100, 200))
    assert flow.copy().state is PipelineState.CAUGHT_UP
    flow.assert_copied()
    flow.assert_runs_true()
    assert {number for (number, asked), size in received.items() if size and asked == rack} == {node}


def test_a_replica_that_dies_and_comes_back_costs_neither_a_record_nor_a_position(
    far: Broker, near: Broker, target: Cluster, received: Counter[tuple[int, str]]
) -> None:
    flow = flow_of(far, target, "r2")
    topic = replicated(flow, far, near)
    place = TopicPartition(topic, 0)
    produce(far.bootstrap, topic, varied(100))
    with flow.pipeline() as running:
        running.wait_position({place: 100})
        assert received[NEAR, "r2"]
        assert not received[LEADER, "r2"]
        near.kill()
        produce(far.bootstrap, topic, varied(100, 100))
        running.wait_position({place: 200})
        assert received[LEADER, "r2"]
        near.start()

        def back() -> None:
            (partition,) = (
                admin(far.bootstrap).list_topics(topic, timeout=60).topics[topic].partitions.values()
            )
            assert sorted(partition.isrs) == [LEADER, NEAR]

        eventually(back, WAIT, what="the replica is in sync again", watched=far.watched)
        position, before = 200, received[NEAR, "r2"]

        def near_again() -> None:
            nonlocal position
            produce(far.bootstrap, topic, varied(10, position))
            position += 10
            running.wait_position({place: position})
            assert received[NEAR, "r2"] > before

        eventually(near_again, WAIT, what="records come from the replica again", watched=far.watched)
        assert running.status.gaps == ()
    flow.assert_copied()
    flow.assert_runs_true()
