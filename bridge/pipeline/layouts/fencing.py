"""Fences slices and drivers of a connector off by their transactional ids, so that they commit nothing more (see
state)."""

from __future__ import annotations

from bridge.kafka.network.client import NetworkClient
from bridge.kafka.producer.producer import TransactionalProducer, fence, producer_settings
from bridge.kafka.state_topics import read_uncommitted
from bridge.model.copying import PipelineSpec
from bridge.model.values import Side, TopicPartition
from bridge.pipeline.layouts.left_ids import read_left
from bridge.pipeline.layouts.records import LayoutRecord, LayoutTopic, layout_key, unversioned_layout_key
from bridge.pipeline.layouts.slots import transactional_id, unescaped_id
from bridge.pipeline.layouts.state import layout_topic, state_partitions


def driver(spec: PipelineSpec) -> TransactionalProducer:
    """Holds the driver's transactional id once it is started: nobody else makes layouts then."""
    return TransactionalProducer(producer_settings(Side.TARGET, spec.props), transactional_id(spec, "driver"))


async def fence_slots(
    spec: PipelineSpec, target: NetworkClient, slots: int, unversioned: LayoutRecord | None
) -> set[int]:
    """Aborts the transactions that slices have open, in state topics also what a broker has left open (see hanging);
    none of the slices can commit after this, and of those whose ids they have left (see left_ids) none can before it
    looks which layout is the newest. Returns the numbers of these ids. Raises KafkaFailure."""
    ids = [transactional_id(spec, number) for number in range(slots)]
    left = read_left(await read_uncommitted(target, spec.layout_topic), spec)
    if unversioned is not None:
        old = ["driver", *range(unversioned.slots)]
        ids += [
            each
            for who in old
            if (each := unescaped_id(spec, who)) not in (*ids, transactional_id(spec, who))
        ]
    runs = TopicPartition(spec.runs_topic, 0)
    passed_over = await fence(
        producer_settings(Side.TARGET, spec.props),
        ids,
        partitions=state_partitions(spec),
        required=runs,
        left={transactional_id(spec, number): holder for number, holder in left.items()},
    )
    return {number for number in range(slots) if ids[number] in passed_over}


async def shut_out(spec: PipelineSpec, target: NetworkClient, leader: TransactionalProducer) -> None:
    """Ends the connector's copying for good: slices that still run commit nothing more, and a driver that still runs
    makes no layout. `leader`: its driver(), started. Raises KafkaFailure."""
    topic = await layout_topic(target, spec)
    before = topic.before
    stopped = LayoutRecord(before.layout + 1, max(1, before.slots), stop=True, copied=before.copied)
    await leader.write(spec.layout_topic, [(layout_key(spec), stopped.value())])
    await fence_slots(spec, target, stopped.slots, topic.unversioned)


def forget_unversioned(spec: PipelineSpec, topic: LayoutTopic) -> list[tuple[bytes, bytes | None]]:
    """The record that drops a layout of version 0, once its slots are fenced."""
    return [] if topic.unversioned is None else [(unversioned_layout_key(spec), None)]
