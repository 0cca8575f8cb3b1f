"""Collects facts from clusters and from this machine. Each step has a timeout, and a step that fails is a fact too.

Java and Spark of this machine, as the Spark driver will find them.

Finds topics that another mirror copies beside ours, by the records on the target that our runs know nothing of.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import importlib.util
import logging
import os
import subprocess
import time
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from bridge.doctor.facts import ClusterFacts, CopiesBeside, Facts, MachineFacts, Pair, TopicFacts, Unknown
from bridge.doctor.plan import Plan, servers_key
from bridge.errors import BridgeError, KafkaFailure
from bridge.kafka.admin.inspection import Inspection, reach
from bridge.kafka.cluster import KafkaClusters
from bridge.kafka.config.settings import client_settings, producer_settings
from bridge.mm2.replication_policy import ALIASES, TOPIC_MAP, TOPIC_MAP_FILE
from bridge.model.lookups import FindTime
from bridge.model.state_records.claims import Claim
from bridge.model.values import (
    Bounds,
    CopyId,
    LogRecord,
    RecordView,
    Side,
    TopicInfo,
    TopicPartition,
    Verdict,
)
from bridge.pipeline.driver.spark_problem import java_path, major_version
from bridge.translation.records.log_window import CapReached, LogBounds, Steps, first_record
from bridge.translation.records.other_mirror import AnotherMirror, find_another_mirror, turns_of
from bridge.translation.runs.run_evidence import ConsistentRuns, read_runs
from connectors.base import COPYING_KINDS, Kind
from connectors.config.cluster_options import allows_same_cluster
from connectors.group_translation.translating.driver import Job, translate_all
from connectors.ports import ClientCheck, Cluster

_SECONDS = 10.0
ENDED_MS = 600_000
"""A mirror has ended that has not copied a record of ten minutes ago, which ours has."""
T = TypeVar("T")
REACH_SECONDS, STEP_SECONDS = 5.0, 10.0
MOST_PAIRS, MOST_GROUPS, MOST_DATED = 2_000, 2_000, 50
"""Most topics with their copies, most groups, and most topics whose timestamps are checked."""
_FUTURE_MS = 60_000
_MOST_READS = 200


def machine() -> MachineFacts:
    return MachineFacts(_java(), os.environ.get("JAVA_HOME", ""), _spark())


def _java() -> int | Unknown:
    """The major version of the Java that Spark's launcher takes."""
    java = java_path(os.environ)
    if java is None:
        return Unknown("there is no java on the PATH")
    try:
        ran = subprocess.run(
            [java, "-version"], capture_output=True, text=True, check=False, timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Unknown(f"{java} can't be run: {getattr(error, 'strerror', None) or 'no answer'}")
    version = major_version(ran.stderr + ran.stdout)
    return Unknown(f"the output of `{java} -version` could not be read") if version is None else version


def _spark() -> str | Unknown:
    if importlib.util.find_spec("pyspark") is None:
        return Unknown("pyspark is not installed")
    try:
        return importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return Unknown("pyspark can be imported, but is not an installed package")


async def copied_beside_ours(
    source: Cluster, target: Cluster, records: Sequence[LogRecord], pairs: Sequence[Pair], *, now_ms: int
) -> CopiesBeside:
    """Looks at all partitions where others have written between our runs. `records`: of the runs topic."""
    names = {(pair.source, pair.target) for pair in pairs}
    runs: dict[CopyId, ConsistentRuns] = {}
    for copy, kept in sorted(read_runs(records, []).items()):
        ledger = ConsistentRuns(kept.runs)
        if (copy.source.topic, copy.target_topic) in names and ledger.last is not None:
            runs[copy] = ledger
    topics = await target.topics(sorted({copy.target_topic for copy in runs}))
    await source.topics(sorted({copy.source.topic for copy in runs}))  # their leaders are known then
    copies = {copy: TopicPartition(copy.target_topic, copy.source.partition) for copy in runs}
    ends = await target.bounds(list(copies.values()), committed_only=True)
    begins = await source.bounds([copy.source for copy in runs], committed_only=False)
    jobs: dict[tuple[CopyId, int], Job[AnotherMirror]] = {}
    for copy, ledger in runs.items():
        origin, goal = begins[copy.source], ends[copies[copy]]
        info, last = topics[copy.target_topic], ledger.last
        if not isinstance(origin, Bounds) or not isinstance(goal, Bounds) or isinstance(info, KafkaFailure):
            continue
        if last is None or info.topic_id != last.target_topic_id:
            continue
        behind = LogBounds(last.downstream_end, goal.end)
        # Ours may have copied on, which only timestamps show.
        is_others = not last.handed_back and not info.log_append_time
        # Below stand older copies of ours, which an operator has had copied again.
        begin = max(goal.start, ledger.target_from(ledger.position or 0))
        places = [*([behind] if is_others else []), *ledger.others]
        for turn in range(turns_of(places)):
            steps = find_another_mirror(
                places,
                ledger.copied_before,
                LogBounds(origin.start, origin.end),
                LogBounds(min(begin, goal.end), goal.end),
                turn,
                recognisable=not info.log_append_time,
            )
            jobs[copy, turn] = Job(copy.source, copies[copy], origin.end, steps)
    found: dict[CopyId, AnotherMirror] = {}
    looked = await translate_all(jobs, source, target, source_committed_only=False)
    for (copy, _), another in looked.items():
        if isinstance(another, AnotherMirror):
            found[copy] = found.get(copy, AnotherMirror()).with_newer(another)
    left = await _left_out(source, target, found, {copy: runs[copy] for copy in found}, begins)
    copied = {copy.source.topic for copy, another in found.items() if another.twice is not None}
    unknown = {copy.source.topic for copy, another in found.items() if another.unknown >= 0}
    goes_on = {
        copy.source.topic
        for copy, another in found.items()
        if another.twice is not None and left.get(copy, now_ms) > now_ms - ENDED_MS
    }
    ended: dict[str, int] = {}
    for copy, left_ms in left.items():
        topic = copy.source.topic
        if topic not in goes_on:
            ended[topic] = min(left_ms, ended.get(topic, left_ms))
    return CopiesBeside(sorted(goes_on), sorted(unknown - copied), ended)


async def _left_out(
    source: Cluster,
    target: Cluster,
    found: Mapping[CopyId, AnotherMirror],
    ledgers: Mapping[CopyId, ConsistentRuns],
    begins: Mapping[TopicPartition, Bounds | KafkaFailure],
) -> dict[CopyId, int]:
    """Returns when the first record behind the newest one that another mirror has copied too was written (ms), where
    ours has copied it."""
    jobs: dict[CopyId, Job[RecordView | None]] = {}
    for copy, another in found.items():
        bounds = begins[copy.source]
        if another.twice is None or not isinstance(bounds, Bounds):
            continue
        rest = LogBounds(max(another.twice.upstream + 1, bounds.start), bounds.end)
        if rest.start < rest.end:
            on_target = TopicPartition(copy.target_topic, copy.source.partition)
            jobs[copy] = Job(copy.source, on_target, rest.start, _first_record(rest))
    records = await translate_all(jobs, source, target, source_committed_only=True)
    return {
        copy: record.timestamp
        for copy, record in records.items()
        if record is not None
        and not isinstance(record, Verdict)
        and record.timestamp >= 0
        and ledgers[copy].copied_before(record.offset) == record.offset
    }


def _first_record(stretch: LogBounds) -> Steps[RecordView | None]:
    try:
        return (yield from first_record(Side.SOURCE, stretch))
    except CapReached:
        return None


@dataclass(slots=True)
class Connected:
    """The connections to a cluster that answers."""

    cluster: Cluster
    inspection: Inspection


async def collect(kind: Kind, name: str, props: Mapping[str, str], clients: ClientCheck) -> Facts:
    """All facts that the configuration alone says where to find."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # it logs each attempt that fails
    validated = kind.validate(props, clients)
    errors = [(error.key, error.message) for error in validated.errors]
    ignored = [(setting.key, setting.reason) for setting in validated.ignored]
    facts = Facts(kind.kind, name, errors, ignored, one_cluster=allows_same_cluster(props))
    if kind.kind in COPYING_KINDS:
        facts = replace(facts, machine=await asyncio.to_thread(machine))
    if errors:
        return _without_clusters(facts, kind)
    clusters = KafkaClusters()
    try:
        return await _of_clusters(facts, Plan.make(kind, props), props, clusters)
    finally:
        await clusters.close()


def _without_clusters(facts: Facts, kind: Kind) -> Facts:
    why = Unknown("the configuration has errors")
    sides = [side for side in Side if servers_key(side) in kind.definition.keys]
    unknown = dict.fromkeys(sides, why)
    return replace(
        facts,
        clusters=unknown,
        topics=unknown,
        groups=unknown,
        ahead=unknown,
        claims=why,
        stock_syncs=why,
        copied_beside=why,
        planned=why,
    )


async def _of_clusters(facts: Facts, plan: Plan, props: Mapping[str, str], clusters: KafkaClusters) -> Facts:
    reached = await asyncio.gather(*(reach_side(side, props) for side in plan.sides))
    described = dict(zip(plan.sides, reached, strict=True))
    connected: dict[Side, Connected] = {}
    try:
        for side, cluster in described.items():
            if isinstance(cluster, ClusterFacts):
                settings = client_settings(side, props)
                connected[side] = Connected(clusters.open(side, props), Inspection(settings.raw_admin))
                described[side] = await _with_versions(cluster, connected[side])
        facts = replace(
            facts,
            clusters=described,
            replications=plan.replications(),
            policy=plan.config.text("replication.policy.class"),
            separator=plan.config.text("replication.policy.separator"),
            aliases=props.get(ALIASES, ""),
            topic_map=props.get(TOPIC_MAP, ""),
            topic_map_file=props.get(TOPIC_MAP_FILE, ""),
        )
        return await _of_topics(facts, plan, connected)
    finally:
        for connection in connected.values():
            await connection.inspection.close()


async def _of_topics(facts: Facts, plan: Plan, connected: Mapping[Side, Connected]) -> Facts:
    source, target = connected.get(Side.SOURCE), connected.get(Side.TARGET)
    names = {
        side: await _or_unknown(connection.cluster.topic_names()) for side, connection in connected.items()
    }
    hidden = {
        side: await _hidden(connection, plan.asked_by_name[side], names[side])
        for side, connection in connected.items()
    }
    on_source = names.get(Side.SOURCE, Unknown("the source cluster did not answer"))
    unseen = hidden.get(Side.SOURCE, [])
    pairs = [] if isinstance(on_source, Unknown) else plan.pairs([*unseen, *on_source])
    beyond = {"topics": len(pairs) - MOST_PAIRS}
    pairs = pairs[:MOST_PAIRS]
    groups: list[str] = []
    allowed: dict[Side, Mapping[str, frozenset[str] | None] | Unknown] = {}
    if source is not None and plan.group_filter is not None:
        listed = await _or_unknown(source.cluster.list_groups())
        groups = [] if isinstance(listed, Unknown) else plan.groups({*listed, *plan.named("groups", "group")})
        beyond["groups"] = len(groups) - MOST_GROUPS
        groups = groups[:MOST_GROUPS]
        for side, connection in connected.items():
            allowed[side] = await _or_unknown(connection.inspection.groups(groups)) if groups else {}
    lists = [*hidden.values(), *(listed for listed in names.values() if not isinstance(listed, Unknown))]
    present = frozenset(name for listed in lists for name in listed)
    needs = plan.needs(pairs, groups, present)
    names_of = {
        side: {need.name for need in needs if need.side is side and need.resource == "topic"}
        for side in connected
    }
    names_of.setdefault(Side.SOURCE, set()).update(pair.source for pair in pairs)
    names_of.setdefault(Side.TARGET, set()).update(pair.target for pair in pairs)
    topics: dict[Side, Mapping[str, TopicFacts] | Unknown]
    topics = {
        side: await _topics(connection, sorted(names_of[side])) for side, connection in connected.items()
    }
    ahead: dict[Side, Sequence[str] | Unknown]
    ahead = {
        side: await _or_unknown(_ahead(connection.cluster, topics[side]))
        for side, connection in connected.items()
    }
    for side in plan.sides:
        if side not in connected:
            topics[side] = ahead[side] = allowed[side] = Unknown(f"the {side} cluster did not answer")
    ids = sorted(need.name for need in needs if need.resource == "transactional id")
    away = Unknown("the target cluster did not answer")
    allowed_ids = away if target is None else await _or_unknown(_ids(plan.props, ids))
    claims: Mapping[tuple[str, str], str] | Unknown = away if target is None else {}
    if target is not None and plan.kind in COPYING_KINDS and plan.layout_topic in present:
        claims = await _or_unknown(_claims(target.cluster, plan.layout_topic))
    beside: CopiesBeside | Unknown = away if target is None else CopiesBeside()
    if (
        target is not None
        and source is not None
        and plan.kind in COPYING_KINDS
        and plan.runs_topic in present
    ):
        beside = await _or_unknown(_beside(source.cluster, target.cluster, plan.runs_topic, pairs))
    return replace(
        facts,
        topics=topics,
        groups=allowed,
        ids=allowed_ids,
        beyond={what: count for what, count in beyond.items() if count > 0},
        needs=needs,
        pairs=pairs,
        claims=claims,
        stock_syncs=_stock_syncs(plan, connected, present, claims),
        copied_beside=beside,
        ahead=ahead,
    )


async def _hidden(connected: Connected, names: Sequence[str], listed: Sequence[str] | Unknown) -> list[str]:
    """Topics of these names that the cluster does not list because we may not describe them. They may not exist."""
    unlisted = [] if isinstance(listed, Unknown) else sorted(set(names) - set(listed))
    described = await _or_unknown(connected.inspection.topics(unlisted)) if unlisted else {}
    return (
        [] if isinstance(described, Unknown) else [name for name, topic in described.items() if topic.denied]
    )


async def _ids(props: Mapping[str, str], names: Sequence[str]) -> Mapping[str, frozenset[str]]:
    """Returns by transactional id the operations that the user of the producers may do."""
    if not names:
        return {}
    inspection = Inspection(producer_settings(Side.TARGET, props))
    try:
        return await inspection.ids(names)
    finally:
        await inspection.close()


def _stock_syncs(
    plan: Plan,
    connected: Mapping[Side, Connected],
    present: frozenset[str],
    claims: Mapping[tuple[str, str], str] | Unknown,
) -> bool | Unknown:
    """Whether another mirror has written offset syncs: there are some, and no claim of ours."""
    if plan.kind not in COPYING_KINDS or plan.syncs is None:
        return False
    side, topic = plan.syncs
    if side not in connected:
        return Unknown(f"the {side} cluster did not answer")
    if isinstance(claims, Unknown):
        return claims
    return topic in present and not claims


async def reach_side(side: Side, props: Mapping[str, str]) -> ClusterFacts | Unknown:
    reached = await reach(client_settings(side, props).raw_admin, REACH_SECONDS)
    if isinstance(reached, list):
        return Unknown("; ".join(map(str, reached)))
    return ClusterFacts(reached.cluster_id, reached.brokers, reached.allowed)


async def _with_versions(facts: ClusterFacts, connected: Connected) -> ClusterFacts:
    versions = await _or_unknown(connected.inspection.versions())
    if isinstance(versions, Unknown):
        return replace(facts, fetch_version=versions, offsets_version=versions)
    return replace(facts, fetch_version=versions[0], offsets_version=versions[1])


async def _topics(connected: Connected, names: Sequence[str]) -> Mapping[str, TopicFacts] | Unknown:
    described = await _or_unknown(connected.inspection.topics(names))
    if isinstance(described, Unknown):
        return described
    existing = [name for name, topic in described.items() if topic.partitions]
    configs = await _or_unknown(connected.cluster.topic_admin.configs(existing)) if existing else {}

    def append_time(name: str) -> bool | None:
        config = None if isinstance(configs, Unknown) else configs.get(name)
        if config is None or isinstance(config, KafkaFailure):
            return None
        entry = config.get("message.timestamp.type")
        return entry is not None and entry.value == "LogAppendTime"

    return {
        name: TopicFacts(topic.partitions, topic.allowed, append_time(name))
        for name, topic in described.items()
    }


async def _claims(cluster: Cluster, topic: str) -> Mapping[tuple[str, str], str]:
    """The connector that owns each copy, by source and target topic: the one with the first claim."""
    held: dict[bytes, Claim] = {}
    for record in await _records(cluster, topic):
        claim = Claim.decode(record.key)
        if claim is None or record.key is None:
            continue
        held.pop(record.key, None)
        if record.value is not None:
            held[record.key] = claim
    owners: dict[tuple[str, str], str] = {}
    for claim in held.values():
        owners.setdefault((claim.source_topic, claim.target_topic), claim.connector)
    return owners


async def _beside(source: Cluster, target: Cluster, runs_topic: str, pairs: Sequence[Pair]) -> CopiesBeside:
    records = await _records(target, runs_topic)
    return await copied_beside_ours(source, target, records, pairs, now_ms=int(time.time() * 1000))


async def _records(cluster: Cluster, topic: str) -> list[LogRecord]:
    records: list[LogRecord] = []
    tail = cluster.tail(topic, committed_only=True)
    for _ in range(_MOST_READS):
        part = await tail.read()
        records = [*([] if part.restarted else records), *part.records]
        if part.at_end:
            break
    return sorted(records)


async def _ahead(cluster: Cluster, topics: Mapping[str, TopicFacts] | Unknown) -> list[str]:
    """Topics with a record whose timestamp is in the future."""
    if isinstance(topics, Unknown):
        return []
    names = [name for name, topic in sorted(topics.items()) if topic.partitions][:MOST_DATED]
    described = await cluster.topics(names)  # their leaders are known then
    future = int(time.time() * 1000) + _FUTURE_MS
    needs = {
        TopicPartition(name, number): [FindTime(Side.SOURCE, future)]
        for name, topic in described.items()
        if isinstance(topic, TopicInfo)
        for number in range(topic.partitions)
    }
    answers = await cluster.answer(needs, committed_only=False) if needs else {}
    return sorted(
        {
            partition.topic
            for partition, answer in answers.items()
            for at in answer.values()
            if at is not None and not isinstance(at, KafkaFailure)
        }
    )


async def _or_unknown(step: Awaitable[T]) -> T | Unknown:
    try:
        async with asyncio.timeout(STEP_SECONDS):
            return await step
    except TimeoutError:
        return Unknown(f"no answer in {STEP_SECONDS:g} s")
    except BridgeError as error:
        return Unknown(str(error))
