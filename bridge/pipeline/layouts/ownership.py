"""Decides which connector owns a copy, a pair of source topic and target topic, and claims it in the layout topic.

Two connectors that copy one topic to the same topic write each of its records twice. So a connector claims each copy
before the first record is copied, and of several claims the first in the log holds. As one connector sees a pair:

    state     the layout topics say                              it copies
    free      nobody has claimed it                              no
    claimed   its own claim is first, and not settled            no
    owned     its own claim is first, and settled                yes
    starting  owned, and its connector had stopped               not yet, where topics may go round
    taken     another connector's claim goes before              no: an error that names the owner

    event                                                        from, to
    it writes a claim                                            free -> claimed, or taken where it reads an earlier one
    those that go before have withdrawn or died                  claimed -> owned
    one that goes before settles                                 claimed -> taken: it withdraws
    it starts again after a stop                                 owned -> starting -> owned
    `bridge.take.over.from` names the owner                      taken -> owned: the owner is shut out first
    `mirror-bridge hand-back`; `topics` leaves the topic out     owned -> free
    the topic is gone on both clusters for GONE_FOR              owned -> free: the driver deletes runs and claim

A claim stays when its connector is stopped or deleted.

**Other source aliases** have a layout topic of their own. A topic that two sources are copied to is a mixture of both,
which nobody can take apart again: whoever comes second is refused, unless its configuration names the first
(`bridge.merge.with`). No log orders the claims of two aliases. So each connector writes a claim that is not settled,
and then looks for those of others. Of two that are not settled the one with the smaller name of its layout topic goes
first: the other one withdraws when it sees it, or had looked before and settles; so the first one waits until the other
has done either. **Opposite directions** under one name (IdentityReplicationPolicy) do the same, each in its own target;
one that owns its claims and had stopped says first that it is starting, which is seen as not settled. Exactly one
settles: tests/unit/pipeline/layouts/test_claiming.py tries the orders in which they may read and write.

**Deleted topics**: runs and claims would stay for ever, and be read for each layout. They go only where the topic is
gone on both clusters: while the copy is there groups resume by its runs, and while the source topic is there its
position is where copying goes on. Both clusters must say so themselves, twice and GONE_FOR apart: one that is away says
nothing, and a broker that has just started may not know all topics yet. Only the driver deletes, in its own
transactions and after the slots of older layouts are fenced, and only what its connector owns, or nobody: nobody else
writes these keys then.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.producer.producer import TransactionalProducer
from bridge.kafka.protocol.errors import of_code
from bridge.kafka.state_topics import read_beside_open
from bridge.model.copy_owners import (
    OtherCopy,
    TopicPair,
    mixture_refusals,
    opposite_refusals,
    refusals,
)
from bridge.model.copying import Copied, PipelineSpec
from bridge.model.state_records.claims import Claim
from bridge.model.values import CopyId, LogRecord
from bridge.pipeline.layouts.fencing import driver, shut_out, take_over
from bridge.pipeline.layouts.records import (
    LayoutTopic,
    layout_key,
    read_claims,
    read_layouts,
    unversioned_layout_key,
)
from bridge.pipeline.layouts.state import layout_topic

log = logging.getLogger(__name__)

_AT_A_TIME = 16
DECIDED_SECONDS = 30.0
"""How long a connector waits for another one to settle or withdraw its claim: one that has died does neither."""
LOOK_SECONDS = 0.1
READABLE_SECONDS = 2.0
"""After which a layout topic that can't be read is tried again."""
Claims = Mapping[tuple[str, str], Sequence[Claim]]
_HIDDEN = (KafkaFault.NOT_AUTHORIZED, KafkaFault.UNKNOWN_TOPIC)
GONE_FOR = 600.0
"""Seconds."""
MOST = 20_000
"""Runs that a layout drops, and the rest of its last topic: it waits for that."""
_TOPICS_A_CALL = 500


class CopyTaken(Exception):
    """All that the connector wants to copy, or something of its first layout, belongs to another connector; the text
    says what to do."""


class Ownership(NamedTuple):
    """Which of the copies that a connector wants are its own, free or taken. `owned`: its claim is settled.
    `free`: it has none, or one that is not settled. `taken`: by pair, the connector that owns it."""

    owned: Collection[TopicPair]
    free: Collection[TopicPair]
    taken: Mapping[TopicPair, str]


def owned(topic: LayoutTopic, source_topics: Collection[str], connector: str) -> set[TopicPair]:
    """The claims of the connector to these topics, copies that transforms send records to included."""
    return {pair for pair in topic.claims if pair[0] in source_topics and topic.owner(pair) == connector}


def ownership(topic: LayoutTopic, pairs: Collection[TopicPair], connector: str) -> Ownership:
    own: list[TopicPair] = []
    free: list[TopicPair] = []
    taken: dict[TopicPair, str] = {}
    for pair in pairs:
        claim = topic.claim(pair)
        if claim is not None and claim.connector != connector:
            taken[pair] = claim.connector
        else:
            (own if claim is not None and claim.settled else free).append(pair)
    return Ownership(own, free, taken)


def stopped_or_starting(topic: LayoutTopic, owned: Collection[TopicPair]) -> list[TopicPair]:
    """Those of the connector's settled claims that one in the opposite direction need not have seen as running."""
    return [pair for pair in owned if topic.newest.stop or ((claim := topic.claim(pair)) and claim.starting)]


def lost_runs(
    topic: LayoutTopic, runs: Mapping[CopyId, Sequence[object]], connector: str
) -> Collection[TopicPair]:
    """Topics that the connector has copied, and of none of whose partitions a run is left. `topic`: before the
    connector claimed what it wants now; `runs`: of all copies that it wants."""
    if not topic.before.copied:
        return ()
    known = {copy.topics for copy, some in runs.items() if some}
    return {
        copy.topics for copy in runs if copy.topics not in known and topic.owner(copy.topics) == connector
    }


def claims(
    pairs: Collection[TopicPair], connector: str, *, settled: bool = True, starting: bool = False
) -> list[tuple[bytes, bytes | None]]:
    """The records that claim the pairs."""
    made = [Claim(*pair, connector, settled, starting) for pair in sorted(pairs)]
    return [(claim.key(), claim.value()) for claim in made]


def withdrawn(pairs: Collection[TopicPair], connector: str) -> list[tuple[bytes, bytes | None]]:
    """The records that end the connector's claims to the pairs."""
    return [(Claim(*pair, connector).key(), None) for pair in sorted(pairs)]


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
        late = {copy for copy in others.values() if not before(spec, copy)}
        if not late:
            return others
        if time.monotonic() >= end:
            named = ", ".join(sorted(f"{copy.connector} ({copy.where})" for copy in late))
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
        position = max(offsets.get(key(of_owner), -1) for key in (layout_key, unversioned_layout_key))
        stopped_at[owner] = position if stopped else -1
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
    pairs = {copy.id.topics for partition in partitions for copy in partition.copies}
    claimed = ownership(topic, pairs, spec.name)
    for owner in sorted(set(claimed.taken.values()) & set(spec.take_over_from)):
        taken = [pair for pair, text in claimed.taken.items() if text == owner]
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
        # Two of different source aliases have no log in common: `mixed` says who is first.
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
    ours = [
        partition
        for partition in partitions
        if not any(copy.id.topics in refused for copy in partition.copies)
    ]
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


class Gone:
    """Remembers since when topics are gone. Pure."""

    def __init__(self) -> None:
        self._since: dict[TopicPair, float] = {}

    def due(self, gone: Iterable[TopicPair], now: float) -> list[TopicPair]:
        """The pairs of `gone` that have been gone for GONE_FOR; `now` in seconds."""
        self._since = {pair: self._since.get(pair, now) for pair in gone}
        due = [pair for pair, since in self._since.items() if now - since >= GONE_FOR]
        return sorted(due)


def drop_keys(
    keys_of: Mapping[CopyId, Sequence[bytes]], due: Sequence[TopicPair]
) -> tuple[list[TopicPair], list[bytes]]:
    """The pairs of `due` whose runs are deleted now, with the keys of all their runs (`keys_of`: the keys by copy)."""
    by_pair: dict[TopicPair, list[bytes]] = {}
    for copy, keys in keys_of.items():
        by_pair.setdefault((copy.source.topic, copy.target_topic), []).extend(keys)
    pairs: list[TopicPair] = []
    dropped: list[bytes] = []
    for pair in due:
        if len(dropped) >= MOST:
            break
        pairs.append(pair)
        dropped += by_pair.get(pair, [])
    return pairs, dropped


class Dropper:
    """Deletes what one driver's connector has left of deleted topics."""

    def __init__(self, spec: PipelineSpec, source: NetworkClient, target: NetworkClient) -> None:
        self._spec, self._source, self._target = spec, source, target
        self._gone = Gone()

    async def drop(
        self,
        leader: TransactionalProducer,
        topic: LayoutTopic,
        unwanted: Mapping[CopyId, Sequence[bytes]],
        copied: Collection[TopicPair],
    ) -> set[CopyId]:
        """Deletes runs and claims; returns the copies of which nothing is left in the runs topic. `unwanted`: keys of
        the runs of copies that are not copied now. Raises KafkaFailure of the leader's transactions only."""
        name = self._spec.name
        pairs = {(copy.source.topic, copy.target_topic) for copy in unwanted}
        pairs |= {pair for pair in topic.claims if topic.owner(pair) == name}
        ours = [pair for pair in pairs if pair not in copied and topic.owner(pair) in (name, None)]
        try:
            gone = await self._both_gone(ours)
        except KafkaFailure as error:
            log.info(
                "keeping the offset runs of deleted topics, because a cluster did not describe them: %s",
                error,
            )
            return set()
        dropped, keys = drop_keys(unwanted, self._gone.due(gone, time.monotonic()))
        if not dropped:
            return set()
        if keys:
            await leader.write(self._spec.runs_topic, [(key, None) for key in keys])
        if claimed := [pair for pair in dropped if topic.owner(pair) == name]:
            await leader.write(self._spec.layout_topic, withdrawn(claimed, name))
        log.info(
            "deleted %d offset run(s) of %d topic(s) that exist on neither cluster", len(keys), len(dropped)
        )
        return {copy for copy in unwanted if (copy.source.topic, copy.target_topic) in dropped}

    async def _both_gone(self, pairs: Collection[TopicPair]) -> list[TopicPair]:
        targets = await _missing(self._target, {target for _, target in pairs})
        left = [pair for pair in pairs if pair[1] in targets]
        sources = await _missing(self._source, {source for source, _ in left})
        return [pair for pair in left if pair[0] in sources]


async def _missing(client: NetworkClient, topics: Collection[str]) -> set[str]:
    """The topics that the cluster says do not exist. Raises KafkaFailure."""
    names, missing = sorted(topics), set()
    for start in range(0, len(names), _TOPICS_A_CALL):
        for name, meta in (await client.metadata(names[start : start + _TOPICS_A_CALL])).items():
            failed = of_code(meta.error, f"describe topic {name}")
            if failed is not None and failed.fault is KafkaFault.UNKNOWN_TOPIC:
                missing.add(name)
    return missing
