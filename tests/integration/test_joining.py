"""Partitions that join a layout: what is copied already does not pause, and all of it is copied once."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.producer.producer import fence, producer_settings
from bridge.local import Cluster, eventually
from bridge.model.values import Side, TopicPartition
from bridge.pipeline.layouts.records import additions_key
from bridge.pipeline.layouts.slots import transactional_id
from bridge.pipeline.slices.copier import Copier
from tests.integration.copy_flow import CopyFlow, InProcess
from tests.support import Record, numbered, produce
from tests.support.waits import WAIT

SEED = 7


@pytest.fixture
def flow(source: Cluster, target: Cluster) -> CopyFlow:
    return CopyFlow(source, target)


def copying(flow: CopyFlow, running: InProcess, records: int = 10) -> str:
    """A topic of two partitions, one for each slot, that are copied up to there."""
    (topic,) = flow.topics
    for number in range(2):
        produce(flow.source.bootstrap, topic, numbered(records, partition=number))
    running.wait_position({TopicPartition(topic, number): records for number in range(2)})
    return topic


def join(flow: CopyFlow, running: InProcess, partitions: int = 1, records: int = 50) -> str:
    topic = flow.topic(partitions)
    for number in range(partitions):
        produce(flow.source.bootstrap, topic, numbered(records, partition=number))
    running.assign(flow.partitions())
    return topic


def test_new_topics_join_the_layout_and_a_lost_one_makes_another(flow: CopyFlow) -> None:
    first = flow.topic(2)
    with flow.pipeline() as running:
        copying(flow, running)
        layout = running.status.layout
        second, third = join(flow, running), ""
        running.wait_position({TopicPartition(second, 0): 50})
        third = join(flow, running, 3)
        running.wait_position({TopicPartition(third, number): 50 for number in range(3)})
        assert (running.status.layout, running.status.restarts) == (layout, 0), running.status
        running.assign([each for each in flow.partitions() if each.source != TopicPartition(third, 1)])
        eventually(lambda: running.status.layout > layout, WAIT, what="a layout without a partition")
        for topic in (first, second, third):
            produce(flow.source.bootstrap, topic, numbered(5, start=100))
        running.wait_position({TopicPartition(second, 0): 55, TopicPartition(third, 0): 55})
        running.assign(flow.partitions())
        running.wait_position({TopicPartition(first, 0): 15, TopicPartition(third, 1): 50})
    flow.assert_copied()
    flow.assert_runs_true()


@pytest.mark.long
def test_a_slice_that_begins_anew_goes_on_with_what_has_joined(
    flow: CopyFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow.topic(2)
    fail = threading.Event()
    commit = Copier.commit

    async def failing(copier: Copier) -> None:
        await commit(copier)
        if fail.is_set():
            fail.clear()
            raise KafkaFailure(KafkaFault.TIMEOUT, "planned")

    monkeypatch.setattr(Copier, "commit", failing)
    with flow.pipeline() as running:
        topic = copying(flow, running)
        layout = running.status.layout
        joined = join(flow, running)
        running.wait_position({TopicPartition(joined, 0): 50})
        for at in range(4):
            fail.set()
            for name, number in ((topic, 0), (topic, 1), (joined, 0)):
                produce(flow.source.bootstrap, name, numbered(10, start=1000 + 10 * at, partition=number))
            running.wait_position(
                {
                    TopicPartition(topic, 0): 20 + 10 * at,
                    TopicPartition(topic, 1): 20 + 10 * at,
                    TopicPartition(joined, 0): 60 + 10 * at,
                }
            )
        assert not fail.is_set()
        assert running.status.layout == layout
    flow.assert_copied()
    flow.assert_runs_true()


@pytest.mark.long
def test_a_forged_record_adds_nothing(flow: CopyFlow) -> None:
    flow.topic(2)
    with flow.pipeline() as running:
        copying(flow, running)
        layout, spec = running.status.layout, flow.spec
        secret = flow.topic()
        produce(flow.source.bootstrap, secret, numbered(5))
        forged = b'{"version":1,"content":"{\\"layout\\":%d,\\"slot\\":%d,\\"partitions\\":[]}","mac":"00"}'
        records = [Record(forged % (layout, slot), key=additions_key(spec, slot)) for slot in range(2)]
        produce(flow.target.bootstrap, spec.layout_topic, records)
        flow.topics.remove(secret)
        joined = join(flow, running)
        running.wait_position({TopicPartition(joined, 0): 50})
        assert running.status.layout == layout
        assert flow.copies(secret) == []
    flow.assert_copied()


@pytest.mark.long
def test_whatever_breaks_meanwhile(flow: CopyFlow) -> None:
    """Topics join at random times, while slots are fenced and partitions leave."""
    dice = random.Random(SEED)
    flow.topic(2)
    written: dict[TopicPartition, int] = {}

    def write() -> None:
        for each in flow.partitions():
            start = written.get(each.source, 0)
            records = numbered(20, start=start, partition=each.source.partition)
            produce(flow.source.bootstrap, each.source.topic, records)
            written[each.source] = start + 20

    async def fenced() -> None:
        ids = [transactional_id(flow.spec, dice.randrange(2))]
        await fence(producer_settings(Side.TARGET, flow.spec.props), ids)

    def fence_one() -> None:

        asyncio.run(fenced())

    with flow.pipeline() as running:

        def leave() -> None:
            running.assign([each for each in flow.partitions() if dice.random() < 0.8])

        faults: list[Callable[[], None]] = [fence_one, leave, lambda: None]
        for _ in range(8):
            flow.topic(dice.randint(1, 3))
            running.assign(flow.partitions())
            write()
            dice.choice(faults)()
            running.assign(flow.partitions())
        running.wait_position(written)
    flow.assert_copied()
    flow.assert_runs_true()
