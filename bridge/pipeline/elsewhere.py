"""Reads what connectors of other source aliases copy to the same cluster: each alias has a layout topic of its own.

A topic that two sources are copied to is a mixture of both, which nobody can take apart again. So whoever comes second
is refused, unless its configuration names the first (`bridge.merge.with`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.state_topics import read_committed
from bridge.model.copy_owners import OtherCopy, TopicPair
from bridge.model.copying import PipelineSpec
from bridge.model.values import LogRecord
from bridge.pipeline.layout_records import read_claims, read_layouts

log = logging.getLogger(__name__)

_AT_A_TIME = 16
_HIDDEN = (KafkaFault.NOT_AUTHORIZED, KafkaFault.UNKNOWN_TOPIC)


async def mixed(
    spec: PipelineSpec, target: NetworkClient, wanted: Collection[TopicPair]
) -> dict[TopicPair, OtherCopy]:
    """Returns the pairs whose target topic a connector of another source alias copies to, with its copy. Layout topics
    that we may not read are passed over. Raises KafkaFailure."""
    names = [name for name in await target.topic_names() if is_layout_topic(name)]
    slots = asyncio.Semaphore(_AT_A_TIME)

    async def read(name: str) -> Sequence[LogRecord]:
        async with slots:
            try:
                return await read_committed(target, name)
            except KafkaFailure as failure:
                if failure.fault not in _HIDDEN:
                    raise
                log.info("can't see what is copied by the connectors of topic %s: %s", name, failure)
                return ()

    others = [name for name in names if name != spec.layout_topic]
    found = await asyncio.gather(*map(read, others))
    return mixtures(spec, dict(zip(others, found, strict=True)), wanted)


async def opposite(
    spec: PipelineSpec, source: NetworkClient, wanted: Collection[TopicPair]
) -> dict[TopicPair, str]:
    """Returns the pairs that a connector from the target back to the source copies the other way round, with that
    connector. Raises KafkaFailure."""
    if not spec.opposite_layouts or spec.opposite_layouts not in await source.topic_names():
        return {}
    return loops(spec, await read_committed(source, spec.opposite_layouts), wanted)


def loops(
    spec: PipelineSpec, records: Sequence[LogRecord], wanted: Collection[TopicPair]
) -> dict[TopicPair, str]:
    """Decides `opposite` from the records of the other direction's layout topic. A connector that has stopped copies
    nothing. Pure."""
    owners = {pair: held[0].connector for pair, held in read_claims(records).items()}
    running = {
        owner
        for owner in set(owners.values())
        if not read_layouts(records, replace(spec, name=owner)).newest.stop
    }
    found = {pair: owners.get((pair[1], pair[0]), "") for pair in wanted}
    return {pair: owner for pair, owner in found.items() if owner in running}


def is_layout_topic(name: str) -> bool:
    """Whether it is one of some alias, whatever the separator of its connectors is."""
    return name.startswith("mm2-layout") and name.endswith("internal")


def mixtures(
    spec: PipelineSpec, topics: Mapping[str, Iterable[LogRecord]], wanted: Collection[TopicPair]
) -> dict[TopicPair, OtherCopy]:
    """Decides `mixed` from the records of the other layout topics. Pure."""
    targets = {
        target: OtherCopy(held[0].connector, source, name)
        for name, records in topics.items()
        for (source, target), held in read_claims(records).items()
        if held[0].connector not in spec.merge_with
    }
    return {pair: targets[pair[1]] for pair in wanted if pair[1] in targets}
