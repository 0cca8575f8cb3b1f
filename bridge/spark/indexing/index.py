"""Indexes the copies of another mirror: pass after pass, each a Spark job, whose pairs are committed as runs.

Nothing is written for a copy that a connector owns. A connector claims a copy before it reads the runs, and reads them
to the end that they have then, open transactions included. So a transaction that has its records in the topic and sees
no claim after that is read by every connector that claims later; one that sees a claim is aborted.

Chooses which copies are indexed, and says why others are not.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from bridge.errors import KafkaFailure, KafkaFault, OperationRefused
from bridge.kafka.cluster import KafkaCluster, KafkaClusters
from bridge.kafka.config.settings import client_settings
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.producer.producer import TransactionalProducer
from bridge.model.copying import Copied, PipelineSpec
from bridge.model.values import CopyId, Side, TopicInfo, TopicPartition
from bridge.pipeline.driver.spark_problem import error_line
from bridge.pipeline.layouts.fencing import driver
from bridge.pipeline.layouts.records import LayoutTopic
from bridge.pipeline.layouts.state import layout_topic
from bridge.pipeline.positions import committed_runs
from bridge.pipeline.slices.permanent_errors import permanent
from bridge.spark.indexing.task import PairedPart, PairTask, pair_part, place
from bridge.translation.pairing.pairing import Edge
from bridge.translation.runs.partition_runs import Change, PartitionRuns

_COMPACT = "compact"
NAME = "index of {alias}"
"""The name by which indexes of one source alias shut each other out; no connector in Connect or a file has it."""


class ChosenTopics(NamedTuple):
    """The topics to index. `refused`: a sentence for each topic that is left out."""

    copies: list[Copied]
    refused: list[str]


async def choose(
    source: KafkaCluster,
    target: KafkaCluster,
    remote: Callable[[str], str | None],
    named: Collection[str],
    layouts: LayoutTopic | None,
    runs: Mapping[CopyId, PartitionRuns],
) -> ChosenTopics:
    """Chooses the topics to index. `remote`: the target topic of each topic that is mirrored, None for others. `named`:
    topics that the source may hide from who may not describe them; they are asked for by name. `layouts`: None where no
    connector has ever claimed a copy. Topics that the target does not have are not mirrored yet, and refused only where
    they are named. Raises KafkaFailure."""
    names = {*await source.topic_names(), *named}
    remotes = {name: to for name in names if (to := remote(name)) is not None}
    here = await source.topics(list(remotes))
    remote_topics = await target.topics(list(remotes.values()))
    compacted = await _compacted(
        target, [to for to in remotes.values() if isinstance(remote_topics[to], TopicInfo)]
    )
    copies: list[Copied] = []
    refused: list[str] = []
    for name, to in sorted(remotes.items()):
        original, copy = here[name], remote_topics[to]
        if _is_missing(original) or _is_missing(copy):
            if name in named:
                side = f"{name} on the source" if _is_missing(original) else f"{to} on the target"
                refused.append(f"{name}: there is no topic {side}")
            continue
        if isinstance(original, KafkaFailure) or isinstance(copy, KafkaFailure):
            refused.append(f"{name}: {original if isinstance(original, KafkaFailure) else copy}")
            continue
        some = _copies(original, copy)
        owner = None if layouts is None else layouts.owner((name, to))
        why = _refusal(to, owner, copy, compacted.get(to)) or _others(some, runs)
        if why is None:
            copies += some
        else:
            refused.append(f"{name}: {why}")
    return ChosenTopics(copies, refused)


def _is_missing(topic: TopicInfo | KafkaFailure) -> bool:
    return isinstance(topic, KafkaFailure) and topic.fault is KafkaFault.UNKNOWN_TOPIC


def _copies(original: TopicInfo, copy: TopicInfo) -> list[Copied]:
    return [
        Copied(TopicPartition(original.name, number), original.topic_id, copy.name, copy.topic_id)
        for number in range(min(original.partitions, copy.partitions))
    ]


def _refusal(to: str, owner: str | None, copy: TopicInfo, compacted: bool | str | None) -> str | None:
    if owner is not None:
        return (
            f"connector {owner} copies it to {to} and writes its runs itself. Leave the topic out with topics.exclude, "
            f"or hand its copies back (mirror-bridge hand-back {owner})"
        )
    if copy.log_append_time:
        return f"{to} overwrites timestamps (message.timestamp.type=LogAppendTime): no copy can be told from another"
    if isinstance(compacted, str):
        return f"whether {to} is compacted can't be verified: {compacted}"
    if compacted:
        return (
            f"{to} is compacted: of records that the mirror copies twice the cleaner may take the first copy, and what "
            "is read twice then has no bound"
        )
    return None


def _others(copies: Sequence[Copied], runs: Mapping[CopyId, PartitionRuns]) -> str | None:
    """Refuses runs that a connector of ours has left without handing back."""
    for copy in copies:
        last = runs[copy.id].last if copy.id in runs else None
        if last is not None and not last.handed_back:
            return (
                f"there are runs of partition {copy.source.partition} that no connector has claimed or handed back: "
                "start the connector that has copied it, then hand it back (mirror-bridge hand-back)"
            )
    return None


async def _compacted(target: KafkaCluster, topics: Sequence[str]) -> dict[str, bool | str]:
    """Whether each topic is compacted, or why that is not known."""
    answers: dict[str, bool | str] = {}
    for topic, configs in (await target.topic_admin.configs(topics)).items() if topics else ():
        if isinstance(configs, KafkaFailure):
            answers[topic] = str(configs)
        else:
            answers[topic] = _COMPACT in (configs["cleanup.policy"].value or "")
    return answers


class PairJobs(Protocol):
    """Runs tasks in Spark: bridge.pipeline.driver.jobs.SparkJobs."""

    def results(
        self, work: Callable[[PairTask], PairedPart], items: Sequence[PairTask]
    ) -> list[PairedPart]: ...


class IndexJobFailed(Exception):
    """Spark could not run the tasks; the text is the first line of why."""


class Pace:
    """When an index that follows goes on; for one event loop."""

    def __init__(self, seconds: float, waits: Callable[[KafkaFailure], None]) -> None:
        """`seconds`: between two passes. `waits`: called when a cluster is away; the next pass looks again."""
        self._seconds, self.waits = seconds, waits
        self._over = asyncio.Event()

    @property
    def over(self) -> bool:
        return self._over.is_set()

    def end(self) -> None:
        """The pass under way is the last one."""
        self._over.set()

    async def pause(self) -> bool:
        """Whether there is to be another pass."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), self._seconds)
        return not self.over


@dataclass
class IndexProgress:
    """How far a copy is indexed. `found`: records, in this process."""

    copied: Copied
    runs: PartitionRuns
    at: Edge | None = None
    source_end: int = 0
    found: int = 0
    more: bool = True
    error: str = ""

    @property
    def last(self) -> tuple[int, int] | None:
        """The newest pair."""
        last = self.runs.last
        if last is None or not last.upstream_count:
            return None
        return last.upstream_end - 1, last.downstream_end - 1


@dataclass
class Index:
    """The index of one flow. `spec`: of a source connector that would copy it; `remote`, `named`: see choose()."""

    spec: PipelineSpec
    remote: Callable[[str], str | None]
    replication_factor: int
    named: Sequence[str] = ()
    refused: list[str] = field(default_factory=list)
    """Why topics are left out."""
    rows: dict[CopyId, IndexProgress] = field(default_factory=dict)
    away: str = ""
    """Why the last try did not come to its end."""

    async def run(self, jobs: PairJobs, pace: Pace | None, tell: Callable[[Index], None]) -> None:
        """Indexes what there is; with `pace` again and again, until that is over. `tell`: called after each pass.
        Raises KafkaFailure, where one follows only what does not pass, OperationRefused and IndexJobFailed."""
        clusters = KafkaClusters()
        source = clusters.open(Side.SOURCE, self.spec.props)
        target = clusters.open(Side.TARGET, self.spec.props)
        client = NetworkClient(client_settings(Side.TARGET, self.spec.props).raw)
        leader = driver(replace(self.spec, name=NAME.format(alias=self.spec.source_alias)))
        try:
            failed = await target.create_compacted_topic(self.spec.runs_topic, self.replication_factor)
            if failed is not None:
                raise failed
            await leader.start()
            while True:
                try:
                    if leader.open:
                        await leader.abort()
                    await self._choose(source, target, client)
                    while any(row.more for row in self.rows.values()) and not (pace and pace.over):
                        await self._pass(jobs, client, leader)
                        tell(self)
                except KafkaFailure as failure:
                    if pace is None or not self._passes(failure):
                        raise
                    self.away = str(failure)
                    pace.waits(failure)
                except IndexJobFailed as failed:
                    if pace is None or not pace.over:
                        raise
                    self.away = str(failed)  # a signal to all processes ends Spark's too
                if pace is None or not await pace.pause():
                    return
        finally:
            await leader.close()
            await client.close()
            await clusters.close()

    def _passes(self, failure: KafkaFailure) -> bool:
        """Whether another pass may succeed. A second index of the alias would be shut out in turn."""
        ends = permanent(failure, self.spec) or failure.fault is KafkaFault.FENCED
        return failure.retriable and not ends

    async def _choose(self, source: KafkaCluster, target: KafkaCluster, client: NetworkClient) -> None:
        runs = await self._runs(client)
        layouts = await self._layouts(client)
        chosen = await choose(source, target, self.remote, self.named, layouts, runs)
        self.refused = chosen.refused
        # What a pass has added to the runs that failed may be in the topic or not: the topic tells.
        before = {copy: row for copy, row in self.rows.items() if not self.away}
        counts = {copy: row.found for copy, row in self.rows.items()}
        self.rows, self.away = {}, ""
        for copied in chosen.copies:
            row = before.get(copied.id)
            if row is None or row.copied != copied:
                row = IndexProgress(
                    copied, runs.get(copied.id, PartitionRuns()), found=counts.get(copied.id, 0)
                )
                last = row.runs.last
                if last is not None and last.upstream_count and _same_topics(copied, last.incarnation):
                    row.at = Edge(last.upstream_end, last.downstream_end)
            row.more, row.error = True, ""
            self.rows[copied.id] = row

    async def _runs(self, client: NetworkClient) -> Mapping[CopyId, PartitionRuns]:
        try:
            return await committed_runs(client, self.spec)
        except KafkaFailure as failure:
            if failure.fault is not KafkaFault.UNKNOWN_TOPIC:
                raise
            topic = self.spec.runs_topic
            text = (
                f"there is no topic {topic} on the target: grant CREATE on it, or create it with one partition and "
                "cleanup.policy=compact"
            )
            raise KafkaFailure(failure.fault, text, retriable=True) from None

    async def _layouts(self, client: NetworkClient) -> LayoutTopic | None:
        try:
            return await layout_topic(client, self.spec)
        except KafkaFailure as failure:
            if failure.fault is KafkaFault.UNKNOWN_TOPIC:
                return None
            raise

    async def _pass(self, jobs: PairJobs, client: NetworkClient, leader: TransactionalProducer) -> None:
        due = [row for row in self.rows.values() if row.more]
        tasks = [self._task(row) for row in due]
        try:
            parts = await asyncio.to_thread(jobs.results, pair_part, tasks)
        except Exception as error:
            raise IndexJobFailed(f"the Spark job failed: {error_line(error)}") from None
        results = list(zip(due, parts, strict=True))
        await self._commit(results, client, leader)
        for row, part in results:
            row.at, row.more, row.error = part.end, part.more and not part.error, part.error
            row.found += part.records
            if not part.error:
                row.source_end = part.source_end

    def _task(self, row: IndexProgress) -> PairTask:
        known = row.last if row.at is not None else None
        return PairTask(row.copied, row.at, known, self.spec.committed_only, dict(self.spec.props))

    async def _commit(
        self,
        results: Sequence[tuple[IndexProgress, PairedPart]],
        client: NetworkClient,
        leader: TransactionalProducer,
    ) -> None:
        """Commits what was found, unless a connector has come to own some of it. Raises KafkaFailure and
        OperationRefused."""
        changes: list[Change] = []
        for row, part in results:
            if part.segments:
                end = part.segments[-1].upstream_end
                changes += row.runs.commit(part.segments, end, row.copied, part.target_start, found=True)
        if not changes:
            return
        await leader.begin()
        try:
            await leader.send_records(self.spec.runs_topic, changes)
            layouts = await self._layouts(client)
            owned = {} if layouts is None else _owners(layouts, [row.copied for row, _ in results])
            if owned:
                raise OperationRefused(
                    "nothing of this pass is written: "
                    + ", ".join(f"connector {owner} now copies {where}" for where, owner in owned.items())
                )
            await leader.commit()
        except BaseException:
            await leader.abort()
            raise


def _owners(layouts: LayoutTopic, copies: Sequence[Copied]) -> Mapping[str, str]:
    """The connectors that own some of these copies, by what they own."""
    owners = {place(copy.source): layouts.owner(copy.id.topics) for copy in copies}
    return {where: owner for where, owner in owners.items() if owner is not None}


def _same_topics(copied: Copied, incarnation: tuple[str, str, str]) -> bool:
    return (copied.source_topic_id, copied.target_topic, copied.target_topic_id) == incarnation
