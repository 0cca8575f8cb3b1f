"""Looks at the groups of a flow now: the answers of one round of its connector that writes nothing.

It is the connector's own round, with the tasks that its service has: so the verdicts are those that the service gives
when it is started now.

Read-only clusters: reading calls pass through, writing calls raise AssertionError.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from bridge.errors import KafkaFailure, KafkaFault
from bridge.model.lookups import LookupResult, Need
from bridge.model.state_records.readiness_records import TaskRecord
from bridge.model.values import (
    Bounds,
    Committed,
    Evidence,
    GroupListing,
    GroupState,
    Judgement,
    Reason,
    Side,
    TopicInfo,
    TopicPartition,
)
from bridge.positions.flow import Flow
from bridge.protocol.messages import GroupReport, PartitionReport
from connectors.base import (
    Assignment,
    CopyReport,
    EmittedRecord,
    Instance,
    Missing,
    Operation,
    SourceOffset,
    SourcePartition,
    Summary,
)
from connectors.checkpoint.options import CheckpointOptions
from connectors.checkpoint.task import CheckpointInstance
from connectors.cluster_away import ClusterAway, ask
from connectors.group_offset.task import GroupOffsetInstance
from connectors.group_translation.stored import StoredState
from connectors.ports import Cluster, Clusters, Tail, TopicAdmin

_ROUNDS = 16
"""Rounds at most: a bound that a large gap makes gets smaller from round to round."""


class ReadOnlyClusters:
    """Opens clusters of `clusters` for reading."""

    def __init__(self, clusters: Clusters, source_failure: KafkaFailure | None = None) -> None:
        """`source_failure`: raised when groups of the source are listed; the source is then not asked for them."""
        self._clusters, self._source_failure = clusters, source_failure

    def open(self, side: Side, props: Mapping[str, str]) -> ReadOnlyCluster:
        failure = self._source_failure if side is Side.SOURCE else None
        return ReadOnlyCluster(self._clusters.open(side, props), failure)

    async def release(self, cluster: Cluster) -> None:
        await self._clusters.release(cluster.inner if isinstance(cluster, ReadOnlyCluster) else cluster)


class ReadOnlyCluster:
    """See connectors.ports.Cluster. What writes raises AssertionError."""

    def __init__(self, inner: Cluster, failure: KafkaFailure | None = None) -> None:
        """`failure`: what `list_groups`, the first call of a round, raises instead of asking the cluster."""
        self.inner, self._failure = inner, failure

    async def list_groups(self) -> Mapping[str, GroupListing]:
        if self._failure is not None:
            raise self._failure
        return await self.inner.list_groups()

    async def committed(
        self, groups: Sequence[str], *, right: str = "DESCRIBE"
    ) -> Mapping[str, Mapping[TopicPartition, Committed] | KafkaFailure]:
        return await self.inner.committed(groups, right=right)

    async def group_states(self, groups: Sequence[str]) -> Mapping[str, GroupState]:
        return await self.inner.group_states(groups)

    async def topics(
        self, names: Sequence[str], *, right: str = "READ"
    ) -> Mapping[str, TopicInfo | KafkaFailure]:
        return await self.inner.topics(names, right=right)

    async def bounds(
        self, partitions: Sequence[TopicPartition], *, committed_only: bool
    ) -> Mapping[TopicPartition, Bounds | KafkaFailure]:
        return await self.inner.bounds(partitions, committed_only=committed_only)

    async def answer(
        self, needs: Mapping[TopicPartition, Sequence[Need]], *, committed_only: bool
    ) -> Mapping[TopicPartition, Mapping[Need, LookupResult | KafkaFailure]]:
        return await self.inner.answer(needs, committed_only=committed_only)

    def forget_windows(self) -> None:
        self.inner.forget_windows()

    @property
    def fetches(self) -> int:
        return self.inner.fetches

    async def alter(
        self, group: str, offsets: Mapping[TopicPartition, Committed]
    ) -> Mapping[TopicPartition, KafkaFailure | None]:
        raise AssertionError(f"read-only cluster: can't alter offsets of {group}")

    async def cluster_id(self) -> str:
        return await self.inner.cluster_id()

    async def topic_names(self) -> Sequence[str]:
        return await self.inner.topic_names()

    async def create_compacted_topic(self, name: str, replication_factor: int) -> KafkaFailure | None:
        raise AssertionError(f"read-only cluster: can't create topic {name}")

    async def append(self, topic: str, records: Sequence[tuple[bytes | None, bytes | None]]) -> None:
        raise AssertionError(f"read-only cluster: can't write to topic {topic}")

    def tail(self, topic: str, *, committed_only: bool = False) -> Tail:
        return self.inner.tail(topic, committed_only=committed_only)

    @property
    def topic_admin(self) -> TopicAdmin:
        raise AssertionError("read-only cluster: topics can't be administered")


class GroupPosition(NamedTuple):
    """The answer for a group in one partition; `partition` is None for a group of which nothing can be told. `reason`:
    why it is not synced, or not looked at on the source. `lag`: offsets from the committed one to the end of the
    source's log, None where the source does not tell."""

    group: str
    state: str
    partition: PartitionReport | None
    reason: str | None
    lag: int | None


@dataclass(frozen=True)
class GroupsLook:
    """Groups as they are now. `fresh`: both clusters have answered, at `as_of_ms`. Else the source has not: groups are
    where the service has seen them last, at `as_of_ms`, None for moved groups alone."""

    answers: Sequence[GroupPosition]
    fresh: bool
    as_of_ms: int | None


async def look_at_groups(flow: Flow, name: str, clusters: Clusters, props: Mapping[str, str]) -> GroupsLook:
    """Returns what the connector of this name would report now. Raises KafkaFailure: for the target; for the source
    where the readiness topic knows nothing of the connector's groups either."""
    source, target = clusters.open(Side.SOURCE, props), clusters.open(Side.TARGET, props)
    try:
        topic = flow.options.policy.readiness_topic(flow.options.source_alias)
        count = await _task_count(StoredState(name, flow.options, target))
        fresh = _Round(flow, name, count)
        try:
            await fresh.run(ReadOnlyClusters(clusters), props)
        except KafkaFailure as failure:
            if Side.TARGET in fresh.last.away_since_ms or Side.SOURCE not in fresh.last.away_since_ms:
                raise
            stored = _Round(flow, name, count, without_source=True)
            await stored.run(ReadOnlyClusters(clusters, failure), props)
            if stored.last.as_of_ms is None and not stored.reports:
                text = f"{failure}; and {topic} on the target knows no groups of connector {name}"
                raise KafkaFailure(failure.fault, text) from None
            return GroupsLook(list(_answers(stored.reports, {})), False, stored.last.as_of_ms)
        ends = await _ends(flow, source, fresh.reports.values())
        return GroupsLook(list(_answers(fresh.reports, ends)), True, fresh.last.as_of_ms)
    except ClusterAway as away:
        raise away.with_side() from None
    finally:
        await clusters.release(source)
        await clusters.release(target)


async def _task_count(stored: StoredState) -> int:
    """Returns how many tasks the service's records of the connector are for; 1 where there are none."""
    await stored.follow()
    return max((record.task_count for _, record in stored.all(TaskRecord)), default=1)


class _Round:
    """Runs rounds of one instance, and keeps what it publishes (connectors.base.Publisher)."""

    def __init__(self, flow: Flow, name: str, tasks: int, *, without_source: bool = False) -> None:
        """`without_source`: one that goes on from what the readiness topic has."""
        self._flow, self._name, self._without_source = flow, name, without_source
        self._assignment = Assignment(tasks, frozenset(range(tasks)))
        self.reports: dict[str, GroupReport] = {}
        self.last = Summary()

    async def run(self, clusters: ReadOnlyClusters, props: Mapping[str, str]) -> None:
        """Raises KafkaFailure for a cluster that does not answer."""
        instance = self._instance(clusters, props)
        instance.assign(self._assignment)
        running = asyncio.create_task(instance.run())
        try:
            for _ in range(_ROUNDS):
                before = self._bounds()
                await self._one_round(instance, running)
                if not self._bounds() or self._bounds() == before:
                    return
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await instance.close()

    def _instance(self, clusters: ReadOnlyClusters, props: Mapping[str, str]) -> Instance:
        # Without the readiness topic a round would not know what it is to go on from; with it, it would write there.
        options = replace(
            self._flow.options, enabled=True, dry_run=True, readiness_enabled=self._without_source
        )
        if isinstance(options, CheckpointOptions):
            return CheckpointInstance(self._name, options, clusters, props, self)
        return GroupOffsetInstance(self._name, options, clusters, props, self)

    async def _one_round(self, instance: Instance, running: asyncio.Task[None]) -> None:
        asked = asyncio.create_task(
            instance.operate(Operation.REFRESH, {"without_source": self._without_source})
        )
        await asyncio.wait({asked, running}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
            await running
        await asked
        if Side.TARGET in self.last.away_since_ms:
            raise KafkaFailure(KafkaFault.UNREACHABLE, "target cluster: it does not answer any more")

    def _bounds(self) -> dict[tuple[str, str, int], int | None]:
        """Returns the bounds that another round may make smaller."""
        return {
            (name, row.topic, row.partition): row.bound
            for name, report in self.reports.items()
            for row in report.partitions
            if row.verdict == Judgement.BOUNDED and row.evidence == Evidence.RUN
        }

    # -- connectors.base.Publisher -----------------------------------------------------------------------------------

    def groups(self, changed: Mapping[str, GroupReport | None]) -> None:
        for name, report in changed.items():
            if report is None:
                self.reports.pop(name, None)
            else:
                self.reports[name] = report

    def summary(self, summary: Summary) -> None:
        self.last = summary

    def records(self, records: Sequence[EmittedRecord]) -> None:
        raise AssertionError("groups are looked at only")

    def backlog(self, changed: Mapping[TopicPartition, Missing | None]) -> None:
        """Missing records of copies are no part of the answer."""

    def progress(self, report: CopyReport) -> None:
        raise AssertionError("connectors of groups copy nothing")

    async def stored_offsets(self, partitions: Sequence[SourcePartition]) -> Sequence[SourceOffset | None]:
        raise AssertionError("connectors of groups have no offsets in Connect")


async def _ends(
    flow: Flow, source: Cluster, reports: Iterable[GroupReport]
) -> dict[TopicPartition, int | None]:
    """Returns the ends of the source's logs, None for those that it does not tell."""
    partitions = sorted(
        {TopicPartition(row.topic, row.partition) for report in reports for row in report.partitions}
    )
    known: dict[TopicPartition, int | None] = dict.fromkeys(partitions)
    try:
        topics = await ask(
            Side.SOURCE, source.topics(sorted({tp.topic for tp in partitions})), flow.options.admin_timeout_ms
        )
        known_partitions = [
            tp
            for tp in partitions
            if not isinstance(info := topics[tp.topic], KafkaFailure) and tp.partition < info.partitions
        ]
        bounds = source.bounds(known_partitions, committed_only=flow.options.source_committed_only)
        for tp, log_bounds in (await ask(Side.SOURCE, bounds, flow.options.admin_timeout_ms)).items():
            known[tp] = None if isinstance(log_bounds, KafkaFailure) else log_bounds.end
    except ClusterAway:
        return known
    return known


def _answers(
    reports: Mapping[str, GroupReport], ends: Mapping[TopicPartition, int | None]
) -> Iterator[GroupPosition]:
    for name, report in sorted(reports.items()):
        # Of a group as a whole; the first one of its partitions stands for it where it has none of its own.
        reason = None if report.reason in {row.reason for row in report.partitions} else report.reason
        if reason == Reason.DRY_RUN:
            reason = None  # its round writes nothing: the service's does
        for row in report.partitions:
            end = ends.get(TopicPartition(row.topic, row.partition))
            lag = None if end is None else end - row.committed
            yield GroupPosition(name, report.target_state, row, row.reason or reason, lag)
        if not report.partitions:
            yield GroupPosition(name, report.target_state, None, reason, None)
