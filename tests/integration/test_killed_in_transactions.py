"""Brokers of the target that are killed at each step of a slice's transaction, where partitions have one replica and
where they have three: no record is lost, none is there twice, and runs are true."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka.cimpl import NewTopic

from bridge.kafka.producer.transaction_coordinator import Coordinator
from bridge.kafka.protocol.produce_requests import ProducerIdAndEpoch
from bridge.local import Broker, LocalStack
from bridge.model.values import TopicPartition
from tests.conftest import chosen_clusters
from tests.integration.copy_flow import COMPACTED, CopyFlow
from tests.support import admin, create_topic, numbered, produce, unique
from tests.support.brokers import RESTARTED
from tests.support.forms import mostly_long
from tests.support.waits import WAIT

MORTAL, REPLICAS = 2, [2, 1, 3]
"""The node that leads all partitions, and those that have a replica."""
THREE = {**RESTARTED, "transaction.state.log.replication.factor": "3", "transaction.state.log.min.isr": "2"}


@dataclass
class Target:
    """A cluster, and its broker that is killed. With others the cluster goes on meanwhile."""

    cluster: Broker
    mortal: Broker
    replicas: int

    def kill(self) -> None:
        self.mortal.kill()
        if self.replicas == 1:
            self.mortal.start()

    def revive(self) -> None:
        if self.replicas > 1:
            self.mortal.start()


@pytest.fixture(scope="module", params=mostly_long([1, 3]), ids=lambda number: f"{number} replicas")
def target(request: pytest.FixtureRequest, stack: LocalStack) -> Iterator[Target]:
    if chosen_clusters(request.config):
        pytest.skip("kills brokers, so it needs brokers from jars")
    if request.param == 1:
        alone = stack.broker(unique("alone"), properties=RESTARTED)
        yield Target(alone, alone, 1)
        alone.close()
        return
    first = stack.broker(unique("first"), properties=THREE)
    others = [
        stack.broker(unique(f"node-{node}"), properties={**THREE, "node.id": str(node)}, joins=first)
        for node in (MORTAL, 3)
    ]
    yield Target(first, others[0], 3)
    for each in (*others, first):
        each.close()


def flow_to(target: Target, stack: LocalStack) -> CopyFlow:
    """With topics of as many replicas, which the mortal broker leads."""
    alias, topic = unique("src"), create_topic(stack.source.bootstrap, unique("copied"), 2)
    if target.replicas > 1:
        state = [f"mm2-{what}.{alias}.internal" for what in ("offset-runs", "layout", "gaps")]
        new = [NewTopic(name, 1, replica_assignment=[REPLICAS], config=COMPACTED) for name in state]
        new.append(NewTopic(f"{alias}.{topic}", 2, replica_assignment=[REPLICAS] * 2))
        for made in admin(target.cluster.bootstrap).create_topics(new).values():
            made.result(WAIT)
    else:
        create_topic(target.cluster.bootstrap, f"{alias}.{topic}", 2)
    flow = CopyFlow(stack.source, target.cluster, alias=alias)
    flow.topics.append(topic)
    return flow


def kill_at(step: str, target: Target, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Kills the broker once, when a slice's transaction comes to this step; answers the steps at which it was done."""
    add, end, done = Coordinator.add, Coordinator.end, list[str]()

    async def reach(coordinator: Coordinator, here: str) -> None:
        if here == step and not done and not coordinator.transactional_id.endswith("driver"):
            done.append(step)
            await asyncio.to_thread(target.kill)

    async def killed_add(
        coordinator: Coordinator,
        taken: ProducerIdAndEpoch,
        tps: Collection[TopicPartition],
        within: float,
        **named: Any,
    ) -> None:
        await reach(coordinator, "before partitions are added")
        await add(coordinator, taken, tps, within, **named)
        await reach(coordinator, "before records are sent")

    async def killed_end(
        coordinator: Coordinator, taken: ProducerIdAndEpoch, within: float, *, commit: bool
    ) -> None:
        await reach(coordinator, "before it is ended")
        await end(coordinator, taken, within, commit=commit)
        await reach(coordinator, "while markers are written")

    monkeypatch.setattr(Coordinator, "add", killed_add)
    monkeypatch.setattr(Coordinator, "end", killed_end)
    return done


@pytest.mark.parametrize(
    "step",
    mostly_long(
        [
            "while markers are written",
            "before it is ended",
            "before records are sent",
            "before partitions are added",
        ]
    ),
)
def test_no_record_is_lost_or_there_twice(
    target: Target, stack: LocalStack, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    flow = flow_to(target, stack)
    (topic,) = flow.topics
    places = [TopicPartition(topic, number) for number in range(2)]

    def write(start: int) -> None:
        records = [each for number in range(2) for each in numbered(50, start=start, partition=number)]
        produce(stack.source.bootstrap, topic, records)

    write(0)
    with flow.pipeline(slots=1) as running:
        running.wait_position(dict.fromkeys(places, 50))
        done = kill_at(step, target, monkeypatch)
        write(50)
        running.wait_position(dict.fromkeys(places, 100))
        assert done == [step]
        target.revive()
        write(100)
        running.wait_position(dict.fromkeys(places, 150))
    flow.assert_copied()
    flow.assert_runs_true()
