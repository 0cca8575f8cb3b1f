"""Reads what connectors of other source aliases copy to the same cluster: each alias has a layout topic of its own.

A topic that two sources are copied to is a mixture of both, which nobody can take apart again. So whoever comes second
is refused, unless its configuration names the first (`bridge.merge.with`).

No log orders the claims of two aliases. So each connector writes a claim that is not settled, and then looks for those
of others. Of two that are not settled the one with the smaller name of its layout topic goes first: the other one
withdraws when it sees it, or had looked before and settles. So the first one waits until the other has done either.
So do two that copy one topic in opposite directions under one name (IdentityReplicationPolicy), each in its own target;
one that owns its claims and had stopped says first that it is starting, which is seen as not settled.
Exactly one settles (tests/unit/pipeline/layouts/test_claiming.py tries the orders in which they may read and write).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.state_topics import read_beside_open
from bridge.model.copy_owners import OtherCopy, TopicPair
from bridge.model.copying import PipelineSpec
from bridge.model.state_records.claims import Claim
from bridge.model.values import LogRecord
from bridge.pipeline.layouts.records import (
    layout_key,
    read_claims,
    read_layouts,
    unversioned_layout_key,
)

log = logging.getLogger(__name__)

_AT_A_TIME = 16
DECIDED_SECONDS = 30.0
"""How long a connector waits for another one to settle or withdraw its claim: one that has died does neither."""
LOOK_SECONDS = 0.1
READABLE_SECONDS = 2.0
"""After which a layout topic that can't be read is tried again."""
Claims = Mapping[tuple[str, str], Sequence[Claim]]
_HIDDEN = (KafkaFault.NOT_AUTHORIZED, KafkaFault.UNKNOWN_TOPIC)


async def mixed(
    spec: PipelineSpec, target: NetworkClient, pairs: Collection[TopicPair], *, all_read: bool = True
) -> dict[TopicPair, OtherCopy]:
    """Returns the pairs whose target topic a connector of another source alias copies to, with its copy. Layout topics
    that we may not read are passed over. A claim in a transaction that is open counts as not settled: it holds up who
    wants the same topic, and no other one. Raises KafkaFailure; without `all_read` not where a layout topic can't be
    read, as one without a leader: it may hold a claim of any pair."""
    names = [name for name in await target.topic_names() if is_layout_topic(name)]
    slots = asyncio.Semaphore(_AT_A_TIME)
    unread: dict[str, str] = {}

    async def read(name: str) -> Claims:
        async with slots:
            try:
                return read_claims(*await read_beside_open(target, name))
            except KafkaFailure as failure:
                if failure.fault not in _HIDDEN:
                    if all_read:
                        raise
                    unread[name] = str(failure)
                    return {}
                log.info(
                    "can't read layout topic %s, so its connectors are not checked for copies of the same topics: %s",
                    name,
                    failure,
                )
                return {}

    others = [name for name in names if name != spec.layout_topic]
    topics = dict(zip(others, await asyncio.gather(*map(read, others)), strict=True))
    return mixtures(spec, topics, pairs, unread)


async def wait_readable(layout_topics: Collection[tuple[NetworkClient, str]]) -> None:
    """Waits until these layout topics can be read, each on its cluster."""
    for cluster, name in layout_topics:
        while True:
            try:
                await read_beside_open(cluster, name)
                break
            except KafkaFailure as failure:
                if failure.fault in _HIDDEN:
                    break
            await asyncio.sleep(READABLE_SECONDS)


async def decided(
    spec: PipelineSpec, look: Callable[[], Awaitable[dict[TopicPair, OtherCopy]]]
) -> dict[TopicPair, OtherCopy]:
    """Returns what `look` does (`mixed`, `opposite`), once all connectors that come behind this one have settled their
    claims or withdrawn them, or time is over. Raises KafkaFailure."""
    end = time.monotonic() + DECIDED_SECONDS
    while True:
        others = await look()
        late = {each for each in others.values() if not before(spec, each)}
        if not late:
            return others
        if time.monotonic() >= end:
            named = ", ".join(sorted(f"{each.connector} ({each.where})" for each in late))
            log.warning(
                "waited %.0f s for %s to settle or withdraw its claim: %s does not copy these topics now; if a driver "
                "has died in a transaction, kafka-transactions.sh find-hanging lists it, and abort ends it",
                DECIDED_SECONDS,
                named,
                spec.name,
            )
            return others
        await asyncio.sleep(LOOK_SECONDS)


def before(spec: PipelineSpec, other: OtherCopy) -> bool:
    """Whether the copy goes to the other connector, where this one claims it too. Pure."""
    return other.settled or other.where < spec.layout_topic


async def opposite(
    spec: PipelineSpec, source: NetworkClient, pairs: Collection[TopicPair]
) -> dict[TopicPair, OtherCopy]:
    """Returns the pairs that a connector from the target back to the source copies the other way round, or is about to,
    with its copy. Raises KafkaFailure, also where the layout topic may not be read: records may go round then."""
    if not spec.opposite_layouts or spec.opposite_layouts not in await source.topic_names():
        return {}
    records, undecided = await read_beside_open(source, spec.opposite_layouts)
    return loops(spec, records, pairs, undecided)


def loops(
    spec: PipelineSpec,
    records: Sequence[LogRecord],
    pairs: Collection[TopicPair],
    undecided: Sequence[LogRecord] = (),
) -> dict[TopicPair, OtherCopy]:
    """Decides `opposite` from the records of the other direction's layout topic; `undecided`: those of
    transactions that are open. A connector that has stopped copies nothing, unless it has claimed the copy since:
    then it starts again. Pure."""
    first = {pair: held[0] for pair, held in read_claims(records, undecided).items()}
    offsets = {record.key: record.offset for record in records}
    opening = {record.key for record in undecided}
    stopped_at: dict[str, int] = {}
    for owner in {claim.connector for claim in first.values()}:
        of_owner = replace(spec, name=owner)
        stopped = read_layouts(records, of_owner).newest.stop
        at = max(offsets.get(key(of_owner), -1) for key in (layout_key, unversioned_layout_key))
        stopped_at[owner] = at if stopped else -1
    found = {}
    for pair in pairs:
        claim = first.get((pair[1], pair[0]))
        if claim is None:
            continue
        copies = offsets.get(claim.key(), -1) > stopped_at[claim.connector]
        if copies or claim.key() in opening:
            settled = copies and claim.settled and not claim.starting
            found[pair] = OtherCopy(claim.connector, pair[1], spec.opposite_layouts, settled)
    return found


def is_layout_topic(name: str) -> bool:
    """Whether it is one of some alias, whatever the separator of its connectors is."""
    return name.startswith("mm2-layout") and name.endswith("internal")


def mixtures(
    spec: PipelineSpec,
    topics: Mapping[str, Claims],
    pairs: Collection[TopicPair],
    unread: Mapping[str, str] | None = None,
) -> dict[TopicPair, OtherCopy]:
    """Decides `mixed` from the claims in the other layout topics: of several copies the one that goes first. `unread`:
    those that can't be read, and why. Pure."""
    targets: dict[str, OtherCopy] = {}
    for name, claims in topics.items():
        for (source, target), (claim, *_) in claims.items():
            copy = OtherCopy(claim.connector, source, name, claim.settled)
            first = targets.get(target)
            if copy.connector not in spec.merge_with and (first is None or _rank(copy) < _rank(first)):
                targets[target] = copy
    found = {pair: targets[pair[1]] for pair in pairs if pair[1] in targets}
    if unread:
        name = min(unread)
        may_be = OtherCopy("", "", name, unread=unread[name])
        found |= {pair: may_be for pair in pairs if pair not in found}
    return found


def _rank(copy: OtherCopy) -> tuple[bool, str]:
    return not copy.settled, copy.where
