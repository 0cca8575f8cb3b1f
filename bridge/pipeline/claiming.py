"""Claims copies in the layout topic, before the first record is copied (see claims)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from bridge.kafka.network.client import NetworkClient
from bridge.kafka.producer.producer import TransactionalProducer
from bridge.model.copy_owners import (
    OtherCopy,
    TopicPair,
    mixture_refusals,
    opposite_refusals,
    refusals,
)
from bridge.model.copying import Copied, PipelineSpec
from bridge.pipeline.claims import CopyTaken, Ownership, claims, ownership, withdrawn
from bridge.pipeline.elsewhere import before, decided, mixed, opposite
from bridge.pipeline.fencing import driver, shut_out
from bridge.pipeline.layout_records import LayoutTopic
from bridge.pipeline.state import layout_topic

log = logging.getLogger(__name__)


async def claim(
    spec: PipelineSpec,
    source: NetworkClient,
    target: NetworkClient,
    leader: TransactionalProducer,
    topic: LayoutTopic,
    partitions: Sequence[Copied],
) -> tuple[list[Copied], list[str]]:
    """Returns those of `partitions` that are the connector's to copy, and for the rest a sentence for each owner.
    `leader`: the driver's producer; `topic`: what the layout topic holds now.

    Raises CopyTaken for a connector that owns nothing of it yet: then nothing is claimed either. One that copies
    already goes on with what it owns when a new topic turns out to be another connector's. Raises KafkaFailure.
    """
    pairs = {copy.id.topics for each in partitions for copy in each.copies}
    claimed = ownership(topic, pairs, spec.name)
    for owner in sorted(set(claimed.taken.values()) & set(spec.take_over_from)):
        taken = [pair for pair, each in claimed.taken.items() if each == owner]
        await _take_over(spec, target, leader, owner, taken)
        topic = await layout_topic(target, spec)
        claimed = ownership(topic, pairs, spec.name)
    await _refuse_loops(spec, source, pairs)
    others = await mixed(spec, target, claimed.free) if claimed.free else {}
    others = {pair: other for pair, other in others.items() if before(spec, other)}
    _refuse_first(claimed, others, spec.name)
    if free := [pair for pair in claimed.free if pair not in others]:
        # Another connector may claim the same at this moment: which is first in the log is known by reading it again.
        # Two of different source aliases have no log in common: elsewhere says who is first.
        owned = claimed.owned
        unclaimed = [pair for pair in free if topic.claim(pair) is None]
        await leader.write(spec.layout_topic, claims(unclaimed, spec.name, settled=False))
        claimed = ownership(await layout_topic(target, spec), pairs, spec.name)
        others |= await decided(spec, target, free)
        lost: list[TopicPair] = []
        if claimed.taken or not others.keys().isdisjoint(free):
            lost = [pair for pair in free if pair in claimed.taken or pair in others or not owned]
            await leader.write(spec.layout_topic, withdrawn(lost, spec.name))
            _refuse_first(claimed._replace(owned=owned), others, spec.name)
        try:
            await _refuse_loops(spec, source, free)
        except CopyTaken:
            await leader.write(spec.layout_topic, withdrawn(free, spec.name))
            raise
        await leader.write(spec.layout_topic, claims([*{*free} - {*lost}], spec.name))
    refused = claimed.taken.keys() | others.keys()
    ours = [each for each in partitions if not any(copy.id.topics in refused for copy in each.copies)]
    return ours, [*refusals(claimed.taken, spec.name), *mixture_refusals(others, spec.name)]


async def _refuse_loops(spec: PipelineSpec, source: NetworkClient, pairs: Collection[TopicPair]) -> None:
    """Raises CopyTaken where a running connector copies in the opposite direction: whatever else would go on, records
    would go round and round."""
    if running := await opposite(spec, source, pairs):
        raise CopyTaken("; ".join(opposite_refusals(running, spec.name)))


def _refuse_first(claimed: Ownership, others: Mapping[TopicPair, OtherCopy], connector: str) -> None:
    if (claimed.taken or others) and not claimed.owned:
        raise CopyTaken(
            "; ".join([*refusals(claimed.taken, connector), *mixture_refusals(others, connector)])
        )


async def _take_over(
    spec: PipelineSpec,
    target: NetworkClient,
    leader: TransactionalProducer,
    owner: str,
    pairs: Collection[TopicPair],
) -> None:
    """Shuts another connector out, and claims what it has claimed. Raises KafkaFailure; to be done again then."""
    other = replace(spec, name=owner)
    its_leader = driver(other)
    try:
        await its_leader.start()
        await shut_out(other, target, its_leader)
    finally:
        await its_leader.close()
    await leader.write(spec.layout_topic, [*claims(pairs, spec.name), *withdrawn(pairs, owner)])
    log.info("%s took over %d topic(s) from connector %s", spec.name, len(pairs), owner)
