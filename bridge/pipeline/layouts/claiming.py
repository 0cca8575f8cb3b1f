"""Claims copies in the layout topic, before the first record is copied (see claims)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from bridge.errors import KafkaFailure
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
from bridge.pipeline.layouts.claims import (
    CopyTaken,
    Ownership,
    claims,
    ownership,
    stopped_or_starting,
    withdrawn,
)
from bridge.pipeline.layouts.elsewhere import before, decided, mixed, opposite
from bridge.pipeline.layouts.fencing import driver, shut_out
from bridge.pipeline.layouts.hanging import take_over
from bridge.pipeline.layouts.records import LayoutTopic, layout_key
from bridge.pipeline.layouts.state import layout_topic

log = logging.getLogger(__name__)


class Claimed(NamedTuple):
    """The partitions that are the connector's to copy; for the rest a sentence for each owner, and `unread`: copies of
    which nobody knows who owns them, because a layout topic can't be read now."""

    partitions: list[Copied]
    refusals: list[str]
    unread: Mapping[TopicPair, OtherCopy]


async def claim(
    spec: PipelineSpec,
    source: NetworkClient,
    target: NetworkClient,
    leader: TransactionalProducer,
    topic: LayoutTopic,
    partitions: Sequence[Copied],
) -> Claimed:
    """Claims `partitions` for the connector. `leader`: the driver's producer; `topic`: what the layout topic holds now.

    Raises CopyTaken for a connector that owns nothing of it yet: then nothing is claimed either. One that copies
    already goes on with what it owns when a new topic turns out to be another connector's, or when nobody can tell.
    Raises KafkaFailure.
    """
    pairs = {copy.id.topics for each in partitions for copy in each.copies}
    claimed = ownership(topic, pairs, spec.name)
    for owner in sorted(set(claimed.taken.values()) & set(spec.take_over_from)):
        taken = [pair for pair, each in claimed.taken.items() if each == owner]
        await _take_over(spec, target, leader, owner, taken)
        topic = await layout_topic(target, spec)
        claimed = ownership(topic, pairs, spec.name)
    # What it owns and does not copy at this moment it may copy only once it is known that nobody copies it back.
    starting = stopped_or_starting(topic, claimed.owned) if spec.opposite_layouts else []
    begun = {*claimed.owned} - {*starting}
    unsure: dict[TopicPair, OtherCopy] = {}
    try:
        loops = await opposite(spec, source, pairs)
    except KafkaFailure as failure:
        if not begun or spec.until_caught_up:
            raise
        # What has begun goes on: whoever claims it in the opposite direction has seen that. All else might go round.
        loops, starting = {}, []
        may_be = OtherCopy("", "", spec.opposite_layouts, unread=str(failure))
        unsure = {pair: may_be for pair in pairs if pair not in begun}
    # Whoever claims beside what has begun has seen it, or is going to: its claim will be withdrawn.
    _refuse_loops(
        spec,
        {
            pair: other
            for pair, other in loops.items()
            if other.settled or (pair not in begun and before(spec, other))
        },
    )
    # What is to end once all is copied waits for all.
    look = partial(mixed, spec, target, all_read=spec.until_caught_up or not claimed.owned)
    others = await look(claimed.free) if claimed.free else {}
    others = unsure | {pair: other for pair, other in others.items() if before(spec, other)}
    _refuse_first(claimed, others, spec.name)
    free = [pair for pair in claimed.free if pair not in others]
    if free or starting:
        # Another connector may claim the same at this moment: which is first in the log is known by reading it again.
        # Two of different source aliases have no log in common: elsewhere says who is first.
        owned = claimed.owned
        # A claim from before the last stop does not count in the opposite direction: it is made again.
        ended = bool(spec.opposite_layouts) and topic.newest.stop
        unclaimed = [pair for pair in free if ended or topic.claim(pair) is None]
        await leader.write(
            spec.layout_topic,
            [*claims(unclaimed, spec.name, settled=False), *claims(starting, spec.name, starting=True)],
        )
        claimed = ownership(await layout_topic(target, spec), pairs, spec.name)
        others |= await decided(spec, lambda: look(free))
        lost: list[TopicPair] = []
        if claimed.taken or not others.keys().isdisjoint(free):
            lost = [pair for pair in free if pair in claimed.taken or pair in others or not owned]
            await leader.write(spec.layout_topic, withdrawn(lost, spec.name))
            _refuse_first(claimed._replace(owned=owned), others, spec.name)
        try:
            _refuse_loops(spec, await decided(spec, lambda: opposite(spec, source, [*free, *starting])))
        except CopyTaken:
            # What it owned it goes on to own, as one that has stopped.
            still = topic.newest._replace(stop=True)
            stop = [(layout_key(spec), still.value())] if starting else []
            await leader.write(spec.layout_topic, [*withdrawn(free, spec.name), *stop])
            raise
        await leader.write(spec.layout_topic, claims([*{*free} - {*lost}, *starting], spec.name))
    refused = claimed.taken.keys() | others.keys()
    ours = [each for each in partitions if not any(copy.id.topics in refused for copy in each.copies)]
    unread = {pair: other for pair, other in others.items() if other.unread}
    known = {pair: other for pair, other in others.items() if not other.unread}
    texts = [*refusals(claimed.taken, spec.name), *mixture_refusals(known, spec.name)]
    return Claimed(ours, texts, unread)


def _refuse_loops(spec: PipelineSpec, others: Mapping[TopicPair, OtherCopy]) -> None:
    """Raises CopyTaken where a connector copies in the opposite direction: whatever else would go on, records would go
    round and round."""
    if owners := {pair: other.connector for pair, other in others.items()}:
        raise CopyTaken("; ".join(opposite_refusals(owners, spec.name)))


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
        await take_over(other, its_leader)
        await shut_out(other, target, its_leader)
    finally:
        await its_leader.close()
    await leader.write(
        spec.layout_topic, [*claims(pairs, spec.name, starting=True), *withdrawn(pairs, owner)]
    )
    log.info("%s took over %d topic(s) from connector %s", spec.name, len(pairs), owner)
