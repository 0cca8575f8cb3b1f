"""Claims copies in the layout topic, before the first record is copied (see claims)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import replace

from bridge.kafka.network.client import NetworkClient
from bridge.kafka.producer.producer import TransactionalProducer
from bridge.model.copy_owners import TopicPair, refusals
from bridge.model.copying import Copied, PipelineSpec
from bridge.pipeline.claims import CopyTaken, Ownership, claims, ownership, withdrawn
from bridge.pipeline.fencing import driver, shut_out
from bridge.pipeline.layout_records import LayoutTopic
from bridge.pipeline.state import layout_topic

log = logging.getLogger(__name__)


async def claim(
    spec: PipelineSpec,
    target: NetworkClient,
    leader: TransactionalProducer,
    topic: LayoutTopic,
    wanted: Sequence[Copied],
) -> tuple[list[Copied], list[str]]:
    """Answers what of `wanted` is the connector's to copy, and for the rest a sentence for each owner. `leader`: the
    driver's producer; `topic`: what the layout topic holds now.

    Raises CopyTaken for a connector that owns nothing of it yet: then nothing is claimed either. One that copies
    already goes on with what it owns when a new topic turns out to be another connector's. Raises KafkaFailure.
    """
    pairs = {copy.id.topics for each in wanted for copy in each.copies}
    found = ownership(topic, pairs, spec.name)
    for owner in sorted(set(found.taken.values()) & set(spec.take_over_from)):
        taken = [pair for pair, each in found.taken.items() if each == owner]
        await _take_over(spec, target, leader, owner, taken)
        found = ownership(await layout_topic(target, spec), pairs, spec.name)
    _refuse_first(found, spec.name)
    if found.free:
        # Another connector may claim the same at this moment: which is first in the log is known by reading it again.
        free, owned = found.free, found.owned
        await leader.write(spec.layout_topic, claims(free, spec.name))
        found = ownership(await layout_topic(target, spec), pairs, spec.name)
        if found.taken:
            lost = [pair for pair in free if pair in found.taken or not owned]
            await leader.write(spec.layout_topic, withdrawn(lost, spec.name))
            _refuse_first(found._replace(owned=owned), spec.name)
    ours = [each for each in wanted if not any(copy.id.topics in found.taken for copy in each.copies)]
    return ours, refusals(found.taken, spec.name)


def _refuse_first(found: Ownership, connector: str) -> None:
    if found.taken and not found.owned:
        raise CopyTaken("; ".join(refusals(found.taken, connector)))


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
