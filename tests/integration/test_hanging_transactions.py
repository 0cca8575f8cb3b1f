"""Transactions that a broker has left open without a marker: the mirror ends its own, and no record of them counts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Iterator
from typing import Any

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.producer.producer import TransactionalProducer, producer_settings
from bridge.kafka.producer.transaction_coordinator import Coordinator
from bridge.kafka.protocol.produce_requests import DescribedTransaction, ProducerIdAndEpoch
from bridge.local import Broker, LocalStack, eventually
from bridge.model.copying import PipelineState
from bridge.model.values import Side, TopicPartition
from bridge.pipeline.layouts.left_ids import encode_left, left_key
from bridge.pipeline.layouts.slots import transactional_id
from tests.conftest import chosen_clusters
from tests.integration.copy_flow import CopyFlow
from tests.support import Record, numbered, produce, unique
from tests.support.forms import mostly_long
from tests.support.waits import WAIT
from tests.unit.kafka.record.raw_batches import Plain, batch_of

UNVERIFIED = {"transaction.partition.verification.enable": "false"}
"""Lets a test write into a partition what no coordinator knows of (KIP-890): it never gets a marker, as where the
coordinator took the partition for deleted."""


@pytest.fixture(scope="module")
def target(request: pytest.FixtureRequest, stack: LocalStack) -> Iterator[Broker]:
    if chosen_clusters(request.config):
        pytest.skip("needs a broker that verifies no transactions")
    broker = stack.broker(unique("unverified"), properties=UNVERIFIED)
    yield broker
    broker.close()


def leave_open(
    flow: CopyFlow, place: TopicPartition, who: int | str, monkeypatch: pytest.MonkeyPatch
) -> ProducerIdAndEpoch:
    """Has the producer of a slot, or of the driver, write a record and go away; returns what it was known by."""

    async def added_nowhere(*_: object, **__: object) -> None:
        pass

    async def write() -> ProducerIdAndEpoch:
        producer = TransactionalProducer(
            producer_settings(Side.TARGET, flow.spec.props), transactional_id(flow.spec, who)
        )
        try:
            await producer.start()
            await producer.begin()
            await producer.send(place, bytearray(batch_of([Plain(1, b"key", b"left open")])), 1)
            return producer.id_and_epoch
        finally:
            await producer.close()

    with monkeypatch.context() as patched:
        patched.setattr(Coordinator, "add", added_nowhere)
        return asyncio.run(write())


@pytest.mark.parametrize(
    ("what", "who"),
    mostly_long(
        [("copies", 0), ("copies", 1), ("runs", 0), ("gaps", 0), ("runs", "driver"), ("layout", "driver")]
    ),
)
def test_what_a_broker_has_left_open_is_aborted_before_anything_follows(
    target: Broker, stack: LocalStack, monkeypatch: pytest.MonkeyPatch, what: str, who: int | str
) -> None:
    """Without, the marker of the next commit would commit these records too. Those of a slot that is no more would hide
    for good what comes behind them, and those of a state topic would keep the next layout from being made."""
    flow = CopyFlow(stack.source, target)
    topic = flow.topic(2)
    produce(stack.source.bootstrap, topic, numbered(100))
    assert flow.copy(slots=2).state is PipelineState.CAUGHT_UP
    places = dict(zip(("runs", "layout", "gaps"), flow.state_topics, strict=True))
    leave_open(flow, TopicPartition(places.get(what, flow.remote(topic)), 0), who, monkeypatch)
    produce(stack.source.bootstrap, topic, numbered(100, start=100))
    assert flow.copy(slots=1).state is PipelineState.CAUGHT_UP
    flow.assert_copied()
    flow.assert_runs_true()


def test_what_an_id_that_was_left_has_open_is_ended_when_its_partition_comes_back(
    target: Broker, stack: LocalStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its coordinator has taken the partition for deleted: it asks for no marker any more, and none was written."""
    flow = CopyFlow(stack.source, target)
    topic = flow.topic(2)
    produce(stack.source.bootstrap, topic, numbered(100))
    assert flow.copy(slots=1).state is PipelineState.CAUGHT_UP
    back = TopicPartition(flow.remote(topic), 0)
    holder = leave_open(flow, back, 0, monkeypatch)
    produce(target.bootstrap, flow.spec.layout_topic, [Record(encode_left(holder), left_key(flow.spec, 0))])
    given_up, real = threading.Event(), Coordinator.describe

    async def describe(coordinator: Coordinator, within: float) -> DescribedTransaction | None:
        if given_up.is_set() or coordinator.transactional_id != transactional_id(flow.spec, 0):
            return await real(coordinator, within)
        return DescribedTransaction(0, "PrepareAbort", 60_000, holder, {back})

    monkeypatch.setattr(Coordinator, "describe", describe)
    for partition in range(2):
        produce(stack.source.bootstrap, topic, numbered(100, start=100, partition=partition))
    with flow.pipeline(slots=1) as running:
        running.wait_position({TopicPartition(topic, 1): 100})

        def waiting() -> TopicPartition:
            (status,) = running.status.partitions
            return status.source

        assert eventually(waiting, WAIT, what="what waits is named") == TopicPartition(topic, 0)
        given_up.set()
        running.wait_position({TopicPartition(topic, 0): 200})
        assert running.status.restarts == 0
    flow.assert_copied()
    flow.assert_runs_true()


def fail_once(request: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Has the first such request of Coordinator.end_hanging fail, and who sent it begin anew."""
    failed = list[str]()
    real = Coordinator.end_hanging

    async def end_hanging(coordinator: Coordinator, *given: Any, **named: Any) -> ProducerIdAndEpoch:
        async def fail(*_: Any, **__: Any) -> None:
            failed.append(request)
            raise KafkaFailure(KafkaFault.TIMEOUT, "no answer")

        if request and named["commit"] and not failed:
            with monkeypatch.context() as patched:
                patched.setattr(Coordinator, request, fail)
                return await real(coordinator, *given, **named)
        return await real(coordinator, *given, **named)

    monkeypatch.setattr(Coordinator, "end_hanging", end_hanging)
    return failed


@pytest.mark.parametrize("what", mostly_long(["copies", "runs"]))
@pytest.mark.parametrize("interrupted", mostly_long(["end", "add", ""]))
def test_what_lacks_the_marker_of_a_commit_counts(
    target: Broker, stack: LocalStack, monkeypatch: pytest.MonkeyPatch, what: str, interrupted: str
) -> None:
    """Elsewhere its transaction is committed: what is aborted here would be copied once more, or never. Also when who
    ends it is `interrupted` before that request."""
    flow = CopyFlow(stack.source, target)
    topic = flow.topic(2)
    left_out = TopicPartition({"runs": flow.spec.runs_topic}.get(what, flow.remote(topic)), 0)
    beside = TopicPartition(flow.remote(topic), 1)
    real = Coordinator.add

    async def add_others(
        coordinator: Coordinator,
        taken: ProducerIdAndEpoch,
        tps: Collection[TopicPartition],
        within: float,
        **named: Any,
    ) -> None:
        await real(coordinator, taken, [tp for tp in tps if tp != left_out] or [beside], within, **named)

    with flow.pipeline(slots=1), monkeypatch.context() as patched:
        patched.setattr(Coordinator, "add", add_others)
        records = [*numbered(100), *numbered(100, partition=1)]
        produce(stack.source.bootstrap, topic, records)
        eventually(lambda: len(flow.copies(topic, 1)) == 100, WAIT, what="what has its marker is copied")
        done = fail_once(interrupted, monkeypatch)
    produce(stack.source.bootstrap, topic, numbered(100, start=100))
    assert flow.copy(slots=1).state is PipelineState.CAUGHT_UP
    flow.assert_copied()
    flow.assert_runs_true()
    assert done == [interrupted] * bool(interrupted)


def test_what_hangs_in_another_connectors_layout_topic_holds_up_nobody(
    target: Broker, stack: LocalStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That connector may be no more."""
    other, flow = CopyFlow(stack.source, target), CopyFlow(stack.source, target)
    leave_open(other, TopicPartition(other.spec.layout_topic, 0), "driver", monkeypatch)
    topic = flow.topic()
    produce(stack.source.bootstrap, topic, numbered(100))
    assert flow.copy(slots=1).state is PipelineState.CAUGHT_UP
    flow.assert_copied()
