"""Finds the topics to copy; creates remote topics and waits for them before anything is copied (stock §1.5, §3.6).

Stock does not wait for what it makes, so that a producer may have the broker make it first (B26), and starts with
nothing at all when its first look fails (B27). Here a round is tried again until it goes well.

Plans which topics are copied, and which remote topics and partitions have to be created for them (stock §3.6). Pure.

Remote topics are never deleted, nor do they lose partitions (B28): a topic that is gone from the source may be the very
reason why its copy is made.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from bridge.errors import KafkaFailure, KafkaFault
from bridge.mm2.filters import is_left_to_be_named, key_against
from bridge.mm2.replication_policy import is_cycle, misread
from bridge.model.copying import Copied, PipelineSpec
from bridge.model.topics import NewTopic
from bridge.model.values import Side, TopicInfo, TopicPartition
from connectors.cluster_away import ClusterAway
from connectors.config.cluster_options import same_cluster
from connectors.internal_topics import make, naming_factor
from connectors.source.cluster_calls import Sides, failed
from connectors.source.definition import REPLICATION_FACTOR, SYNCS_REPLICATION_FACTOR
from connectors.source.options import SourceOptions
from connectors.source.topic_settings import TIMESTAMP_TYPE, new_topic_configs

log = logging.getLogger(__name__)

AWAITED_SECONDS = 5.0
"""For how long a round waits at most for what it has made: one topic that does not appear holds up the others so
long."""
LOOK_AGAIN_SECONDS = 0.2
"""Seconds between two checks whether topics are there."""


class TopicPlan(NamedTuple):
    """Remote topics that copying needs. `create`: partitions of new ones. `grow`: how many partitions existing ones are
    to have."""

    create: Mapping[str, int]
    grow: Mapping[str, int]

    @property
    def awaited(self) -> Mapping[str, int]:
        """Partitions that have to be seen on the target before anything is copied (B26)."""
        return {**self.create, **self.grow}


def plan_topics(
    sources: Mapping[str, TopicInfo],
    remotes: Mapping[str, TopicInfo | None],
    names: Mapping[str, str],
    also: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> TopicPlan:
    """Plans which remote topics to create and to grow. `sources` by name on the source, `remotes` by name on the target
    (None: no such topic; absent: not known now), `names`: from the one to the other. `also`: other topics of the target
    that records of a topic may go to; of several topics whose records may, the one with the most partitions counts."""
    create: dict[str, int] = {}
    grow: dict[str, int] = {}
    for topic, info in sources.items():
        for remote in (names[topic], *also.get(topic, ())):
            if remote not in remotes:
                continue
            remote_topic = remotes[remote]
            if remote_topic is None:
                create[remote] = max(create.get(remote, 0), info.partitions)
            elif remote_topic.partitions < info.partitions:
                grow[remote] = max(grow.get(remote, 0), info.partitions)
    return TopicPlan(create, grow)


def missing(expected: Mapping[str, int], remotes: Mapping[str, TopicInfo | None]) -> list[str]:
    """Returns remote topics that are not there with all of their partitions."""
    counts = {name: info.partitions for name, info in remotes.items() if info is not None}
    return [name for name, partitions in expected.items() if counts.get(name, 0) < partitions]


def copied(
    sources: Mapping[str, TopicInfo],
    remotes: Mapping[str, TopicInfo | None],
    names: Mapping[str, str],
    transforms_of: Callable[[str], tuple[int, ...]] = lambda _: (),
    also: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> list[Copied]:
    """Partitions that are there on both sides. Those that only the target has mean nothing."""
    partitions: list[Copied] = []
    for topic, info in sorted(sources.items()):
        remote = remotes.get(names[topic])
        others = [remotes.get(name) for name in also.get(topic, ())]
        infos = [info for info in (remote, *others) if info is not None]
        if remote is not None and len(infos) == 1 + len(others):
            transforms = transforms_of(topic)
            partitions += [
                Copied(
                    TopicPartition(topic, number),
                    info.topic_id,
                    remote.name,
                    remote.topic_id,
                    transforms=transforms,
                    also=tuple((info.name, info.topic_id) for info in infos[1:]),
                )
                for number in range(min(info.partitions, *(info.partitions for info in infos)))
            ]
    return partitions


@dataclass(frozen=True, slots=True)
class DiscoveredTopics:
    """The result of a round. `names`: remote names of the topics that are there on both sides. `failures` are of single
    topics; `remarks`: problems that trying again does not change; `waits_for`: what to copy, where nothing is."""

    copied: Sequence[Copied] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    failures: Sequence[KafkaFailure] = ()
    remarks: Sequence[str] = ()
    waits_for: str = ""


class Discovery:
    """Runs rounds over the topics of the source, for one connector."""

    def __init__(self, options: SourceOptions, sides: Sides, spec: PipelineSpec) -> None:
        """`spec` names the internal topics."""
        self._options, self._sides, self._spec = options, sides, spec
        self._last: Sequence[Copied] = ()
        self._absent: list[str] = []
        self._left: list[str] = []
        self._are_two = options.same_cluster
        """Whether source and target are known to be two clusters, or may be one."""

    async def round(self) -> DiscoveredTopics:
        """Finds topics and creates their remote topics. Raises ClusterAway; copying goes on meanwhile."""
        if not self._are_two:
            await self._tell_apart()
        await self._make_internal()
        chosen = await self._chosen()
        described, unsure = await self._sides.topics(Side.SOURCE, chosen)
        sources = {topic: info for topic, info in described.items() if info is not None}
        names = {topic: self._options.remote(topic) for topic in sources}
        also = {topic: others for topic in sources if (others := self._options.also(topic))}
        upstream = {other: topic for topic, others in also.items() for other in others}
        upstream |= {remote: topic for topic, remote in names.items()}
        remotes, unknown = await self._sides.topics(Side.TARGET, list(upstream))
        plan = plan_topics(sources, remotes, names, also)
        failures = [*unsure.values(), *unknown.values()]
        failures += await self._create(plan.create, upstream)
        failures += await self._grow(plan.grow)
        if plan.awaited:
            remotes, absent = await self._awaited(plan.awaited, remotes, failing=bool(failures))
            failures += absent
        kept = [
            partition
            for partition in self._last
            if partition.source.topic in unsure or _targets(partition) & unknown.keys()
        ]
        self._last = [*copied(sources, remotes, names, self._options.transforms_of, also), *kept]
        existing = {topic: remote for topic, remote in names.items() if remotes.get(remote) is not None}
        remarks = [*_overwriting(remotes), *self._misread(existing), *never_copied(self._options)]
        self._tell_absent(described)
        heartbeats = self._options.policy.is_heartbeats_topic
        copies = any(not heartbeats(partition.source.topic) for partition in self._last)
        waits_for = "" if copies or failures else self._waits_for(chosen)
        return DiscoveredTopics(self._last, existing, failures, remarks, waits_for)

    def _waits_for(self, chosen: Sequence[str]) -> str:
        topics = [topic for topic in chosen if not self._options.policy.is_heartbeats_topic(topic)]
        return (
            f"topic(s) {', '.join(topics)} on the source"
            if topics
            else "a topic of the source that topics chooses"
        )

    def _tell_absent(self, described: Mapping[str, TopicInfo | None]) -> None:
        """Logs names of `topics` that the source does not have: one of them may be a typing error."""
        absent = sorted(topic for topic in self._options.named_topics if described.get(topic, self) is None)
        if absent != self._absent:
            self._absent = absent
            if absent:
                log.warning("%s of topics not on the source; copied once they are there", ", ".join(absent))

    def _tell_connects(self, listed: Collection[str]) -> None:
        """Logs names that patterns of `topics` choose, and that are not copied unless they stand there themselves."""
        topic_filter = self._options.topic_filter
        left = [name for name in sorted(listed) if is_left_to_be_named(name, topic_filter)]
        left = [name for name in left if topic_filter.should_replicate_topic(name)]
        if left != self._left:
            self._left = left
            if left:
                log.warning(
                    "%s not copied: internal topics of Connect may hold passwords; name in topics what is none",
                    ", ".join(left),
                )

    def _misread(self, names: Mapping[str, str]) -> list[str]:
        """Names copies that are read as copies of other topics, by the aliases that contain the separator."""
        options = self._options
        readings = {topic: misread(options.policy, options.source_alias, topic) for topic in names}
        return [
            f"{Side.TARGET} cluster: topic {names[topic]} is a copy of {topic} of {options.source_alias}, and its name "
            f"reads as {read[1]} of {read[0]}; give one of the two another alias or another separator"
            for topic, read in sorted(readings.items())
            if read is not None
        ]

    async def _tell_apart(self) -> None:
        """Raises ClusterAway where the target is the source cluster, before anything is made there: each round would
        copy the copies of the last one."""
        one, other = [await self._sides.ask(side, self._sides.cluster(side).cluster_id()) for side in Side]
        if one and one == other:
            text = f"target.cluster.bootstrap.servers: {same_cluster(one)}"
            raise ClusterAway(Side.TARGET, KafkaFailure(KafkaFault.SAME_CLUSTER, text, retriable=False))
        self._are_two = True

    async def _make_internal(self) -> None:
        """Creates the internal topics before anything is copied: they hold where copying goes on after a restart. In
        every round: topics get deleted and altered, and a broker may create them again by its defaults."""
        options, spec = self._options, self._spec
        factor, wait = options.internal_replication_factor, options.admin_timeout_ms
        key = SYNCS_REPLICATION_FACTOR if options.emit_syncs else REPLICATION_FACTOR
        syncs = Side.TARGET if spec.syncs_on_target else Side.SOURCE
        for side, topic, holds in (
            (Side.TARGET, spec.runs_topic, "offset runs"),
            (Side.TARGET, spec.layout_topic, "layouts"),
            (Side.TARGET, spec.gaps_topic, "the gap ledger"),
            (syncs, spec.syncs_topic, "offset syncs"),
        ):
            if topic:
                cluster = self._sides.cluster(side)
                failure = await make(cluster, topic, factor, wait, side, holds=holds, key=key)
                if failure is not None:
                    raise ClusterAway(side, failure)

    async def _chosen(self) -> list[str]:
        """Returns the topics to copy; also those that the source does not list, for which we may have lost DESCRIBE."""
        listed = await self._sides.ask(Side.SOURCE, self._sides.cluster(Side.SOURCE).topic_names())
        before = (partition.source.topic for partition in self._last)
        self._tell_connects(listed)
        return sorted(filter(self._options.replicates, {*listed, *before, *self._options.named_topics}))

    async def _create(self, partitions: Mapping[str, int], topics: Mapping[str, str]) -> list[KafkaFailure]:
        """Creates remote topics with the configs of their upstream topics (`topics`). One whose configs can't be read
        is not created: it might drop what its upstream topic keeps."""
        configs, failures = await self._sides.configs(Side.SOURCE, [topics[remote] for remote in partitions])
        options, known = self._options, await self._known_configs() if configs else None
        new: list[NewTopic] = []
        for remote, count in partitions.items():
            if topics[remote] not in configs:
                continue
            chosen = new_topic_configs(configs[topics[remote]], options.config_filter)
            unknown = set() if known is None else chosen.keys() - known
            if unknown:
                log.warning(
                    "topic %s is made without %s, which the target's brokers don't know",
                    remote,
                    ", ".join(sorted(unknown)),
                )
            kept = {name: value for name, value in chosen.items() if name not in unknown}
            new.append(NewTopic(remote, count, options.replication_factor, kept))
        if new:
            making = self._sides.admin(Side.TARGET).create_topics(new)
            failures += [
                naming_factor(failure, REPLICATION_FACTOR, options.replication_factor)
                for failure in failed(Side.TARGET, await self._sides.ask(Side.TARGET, making)).values()
            ]
        return failures

    async def _known_configs(self) -> Collection[str] | None:
        """Returns the names of configs that the target's brokers know, which they show of any topic; None where they
        show none. With one that they don't know, of another version or a vendor's own, they would refuse a topic."""
        topic = self._spec.runs_topic
        described, _ = await self._sides.configs(Side.TARGET, [topic] if topic else [])
        return described[topic].keys() if topic in described else None

    async def _grow(self, totals: Mapping[str, int]) -> list[KafkaFailure]:
        if not totals:
            return []
        making = self._sides.admin(Side.TARGET).create_partitions(totals)
        return list(failed(Side.TARGET, await self._sides.ask(Side.TARGET, making)).values())

    async def _awaited(
        self, expected: Mapping[str, int], remotes: Mapping[str, TopicInfo | None], *, failing: bool
    ) -> tuple[dict[str, TopicInfo | None], list[KafkaFailure]]:
        """Waits until all remote topics are there, for AWAITED_SECONDS and admin.timeout.ms at most. Checks only once
        when something failed: a topic that was not created does not appear, and the next round comes soon."""
        loop = asyncio.get_running_loop()
        end = loop.time() + (0 if failing else min(AWAITED_SECONDS, self._options.admin_timeout_ms / 1000))
        now = dict(remotes)
        while True:
            described, _ = await self._sides.topics(Side.TARGET, missing(expected, now))
            now |= described
            absent = missing(expected, now)
            if not absent or loop.time() + LOOK_AGAIN_SECONDS > end:
                return now, [] if failing else [_not_there_yet(name) for name in absent]
            await asyncio.sleep(LOOK_AGAIN_SECONDS)


def never_copied(options: SourceOptions) -> list[str]:
    """Names what `topics` names and no topic is copied of, whatever the source has."""
    return [
        f"{Side.SOURCE} cluster: topic {topic} is named in topics and never copied: {why}"
        for topic in options.named_topics
        if (why := _why_never_copied(options, topic))
    ]


def _why_never_copied(options: SourceOptions, topic: str) -> str:
    if options.replicates(topic):
        return ""
    if options.policy.is_internal_topic(topic):
        return "its name is one of an internal topic"
    if is_cycle(options.policy, topic, options.target_alias):
        return f"its name is that of a copy from {options.target_alias}, which would go back there"
    return f"{key_against(options.topic_filter, topic)} leaves it out"


def _targets(copied: Copied) -> set[str]:
    return {copy.target_topic for copy in copied.copies}


def _not_there_yet(remote: str) -> KafkaFailure:
    text = f"{Side.TARGET} cluster: topic {remote} was created and does not have all of its partitions yet"
    return KafkaFailure(KafkaFault.TIMEOUT, text)


def _overwriting(remotes: Mapping[str, TopicInfo | None]) -> list[str]:
    """Names remote topics with LogAppendTime (B25)."""
    return [
        f"{Side.TARGET} cluster: topic {name} has {TIMESTAMP_TYPE}=LogAppendTime, so that its brokers overwrite the "
        "timestamps of copies and offsets can't be translated by them; set it to CreateTime"
        for name, info in sorted(remotes.items())
        if info is not None and info.sets_append_time
    ]
