"""Runs a connector that copies: finds topics to copy, creates remote topics, and runs the pipeline.

The Connect task carries no records. While one is active topics are searched for and the pipeline runs; without one it
is stopped: so pause, rebalance and a dead worker end the copying (decision 0007).

Counts the failures of one duty's rounds: when to try again, which ones last, and whether one is permanent.

Writes, while a connector copies, a record of its task to the readiness topic: other services that know the connector
and run none of its tasks read there that it goes on elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from bridge.backoff import Backoff
from bridge.errors import AWAY, KafkaFailure, KafkaFault, OperationRefused
from bridge.model.copying import GAPS_SHOWN_MS, CopySample, Gap, PipelineState, PipelineStatus, Progress
from bridge.model.partition_states import NOT_COPIED, PartitionState, PartitionStatus, Skip, reasons
from bridge.model.state_records.readiness_records import RecordKey, TaskRecord, encode
from bridge.model.values import Side, TopicPartition
from connectors.base import (
    PROCESS,
    Arguments,
    Assignment,
    Operation,
    Publisher,
    RequestedRounds,
    Summary,
    does_not_run,
    not_offered,
    refresh_answer,
)
from connectors.cluster_away import ClusterAway, Outages
from connectors.ports import Clusters, Pipeline, Pipelines
from connectors.source.cluster_calls import Sides, name_cluster
from connectors.source.discovery import DiscoveredTopics, Discovery
from connectors.source.group_connectors import GroupConnectors
from connectors.source.options import SourceOptions
from connectors.source.progress import Reporter
from connectors.source.syncing import AclSync, ConfigSync
from connectors.source.take_over import TakeOver

log = logging.getLogger(__name__)


FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS = 0.5, 30.0
"""Seconds between a round with failures and the next, doubling."""
_LASTING = 2
_PERMANENT_AFTER = 3
"""Rounds in a row with the same failure: credentials or ACLs may be about to change."""
EVERY = 5.0
"""Seconds between two records."""
AGAIN = 60.0
"""Seconds after an attempt that failed: where no group connector has made the topic, or a right is missing."""
WATCH_SECONDS = 1.0
"""Seconds between two checks of the pipeline's status."""
AWAY_SECONDS = 2.0
"""Seconds after which a cluster that did not answer a duty is asked again at the latest: until it answers, no group is
ready."""
_GAPS = 10
"""The newest gaps are named one by one."""
_SEEN = frozenset({Side.SOURCE.value, Side.TARGET.value})
_WELL = (PipelineState.COPYING, PipelineState.CAUGHT_UP)
_OVER = (PipelineState.FAILED, PipelineState.CAUGHT_UP, PipelineState.STOPPED)
_PERMANENT = {KafkaFault.CREDENTIALS}
_PERMANENT_OF_TOPICS = _PERMANENT | {KafkaFault.TOPIC_CONFIG, KafkaFault.SAME_CLUSTER}
"""An internal topic that would lose positions fails the task. A missing right does not: it is granted on the cluster,
and Connect would learn nothing of that."""


class DutyFailures:
    """The failures of one duty; `permanent`: the faults that an operator has to correct when they last (R6)."""

    def __init__(self, permanent: Collection[KafkaFault]) -> None:
        self._permanent = permanent
        self._counts: Counter[str] = Counter()
        self._failures: dict[str, KafkaFailure] = {}
        self._backoff = Backoff(FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS)
        self.pause = 0.0
        """Seconds until the next round, after one with failures."""

    def __bool__(self) -> bool:
        return bool(self._counts)

    def record(self, failures: Iterable[KafkaFailure]) -> None:
        """Takes the failures of a round; earlier ones that did not recur are over."""
        self._failures = {str(failure): failure for failure in failures}
        self._counts = Counter({text: self._counts[text] + 1 for text in self._failures})
        if self._failures:
            self.pause = self._backoff.next()
        else:
            self._backoff.reset()

    @property
    def lasting(self) -> list[str]:
        return [text for text, count in self._counts.items() if count >= _LASTING]

    @property
    def failure(self) -> KafkaFailure | None:
        for text, count in self._counts.items():
            if count >= _PERMANENT_AFTER and (failure := self._failures[text]).fault in self._permanent:
                return failure
        return None


class RunningRecord:
    """The record of one connector. `copies`: whether it copies now. Never makes the topic, which belongs to connectors
    of groups, and fails nothing: without the record other services answer as if the connector were stopped."""

    def __init__(self, connector: str, topic: str, sides: Sides, copies: Callable[[], bool]) -> None:
        self._key = RecordKey(connector, TaskRecord.kind, "0").encode()
        self._topic, self._sides, self._copies = topic, sides, copies

    async def repeat(self) -> None:
        """Writes the record again and again, until cancelled."""
        while True:
            pause = EVERY
            try:
                if self._copies() and not await self._write():
                    pause = AGAIN
            except (ClusterAway, KafkaFailure) as problem:
                log.debug("can't write that the connector copies, trying again later: %s", problem)
                pause = AGAIN
            await asyncio.sleep(pause)

    async def _write(self) -> bool:
        described, _ = await self._sides.topics(Side.TARGET, [self._topic])
        if described.get(self._topic) is None:
            return False
        value = encode(TaskRecord(int(time.time() * 1000), 1, int(EVERY * 1000), PROCESS))
        append = self._sides.cluster(Side.TARGET).append(self._topic, [(self._key, value)])
        await self._sides.ask(Side.TARGET, append)
        return True


class DutyResult(NamedTuple):
    """The failures of a duty's round; `away`: the failure of a cluster that did not answer at all."""

    failures: Sequence[KafkaFailure]
    away: KafkaFailure | None = None


@dataclass(slots=True)
class Duty:
    """Something that is done again and again: every `interval` seconds, None for once; sooner after failures."""

    what: str
    round: Callable[[], Awaitable[Sequence[KafkaFailure]]]
    interval: float | None
    failures: DutyFailures
    requested: RequestedRounds[DutyResult] = field(default_factory=RequestedRounds)
    away: Side | None = None
    """The cluster that did not answer the last round."""

    @property
    def pause(self) -> float | None:
        """Seconds until the next round."""
        if self.away is not None:
            return min(AWAY_SECONDS, self.failures.pause)
        return self.failures.pause if self.failures else self.interval


class SourceInstance:
    """One connector, running; see connectors.base.Instance."""

    def __init__(
        self,
        name: str,
        options: SourceOptions,
        clusters: Clusters,
        pipelines: Pipelines,
        props: Mapping[str, str],
        publisher: Publisher,
    ) -> None:
        self._name, self._options, self._clusters = name, options, clusters
        self._pipelines, self._publisher = pipelines, publisher
        self._spec = options.spec(name, props)
        self._outages = Outages(name, props)
        self._opened = [clusters.open(side, props) for side in (Side.SOURCE, Side.TARGET)]
        self._sides = Sides(options, *self._opened)
        self._pipeline: Pipeline | None = None
        self._begun, self._ended = asyncio.Event(), asyncio.Event()
        self._loaded, self._looked = asyncio.Event(), asyncio.Event()
        self._discovered = DiscoveredTopics()
        self._requested = RequestedRounds[DutyResult]()
        self._duties: list[Duty] = []
        self._rounds = 0
        self._last_success_ms: int | None = None
        self._copying: tuple[int, int] | tuple[None, None] = (None, None)
        """When the pipeline was seen to copy last, by the wall clock and the monotonic one (ms)."""
        self._last_summary: Summary | None = None
        self._away: dict[str, int] = {}
        self._reporter = Reporter(options.source_alias, options.target_alias)
        topic = options.policy.readiness_topic(options.source_alias)
        self._running_record = RunningRecord(name, topic, self._sides, self._copies)
        self._group_connectors = GroupConnectors(topic, self._sides)

    def assign(self, assignment: Assignment) -> None:
        if assignment.active:
            self._begun.set()
            self._ended.clear()
        else:
            self._begun.clear()
            self._ended.set()

    async def operate(self, operation: str, arguments: Arguments) -> Arguments:
        if operation not in (Operation.REFRESH, Operation.SKIP):
            raise not_offered(self._name, operation)
        if not self._options.enabled or not self._begun.is_set():
            raise does_not_run(self._name)
        if operation == Operation.SKIP:
            return await self._skip(**arguments)
        before = set(self._discovered.names)
        failures, away = await self._requested.round()
        if away is not None:
            raise away
        return {
            **refresh_answer(before, self._discovered.names),
            "errors": [str(failure) for failure in failures],
        }

    async def _skip(self, topic: str, partition: int, to: int | None, dry_run: bool) -> Arguments:
        pipeline, place = self._pipeline, TopicPartition(topic, partition)
        if pipeline is None:
            raise does_not_run(self._name)
        stands = next(
            (partition for partition in pipeline.status.partitions if partition.source == place), None
        )
        skip = planned_skip(self._name, place, stands, pipeline.status.progress.get(place), to)
        if not dry_run:
            pipeline.skip(skip)
            while (now := pipeline.status.progress.get(place)) is None or now.position <= skip.offset:
                self._looked.clear()
                await self._looked.wait()
        why = stands.why if stands is not None else ""
        return {**skip._asdict(), "why": why, "done": not dry_run}

    async def close(self) -> None:
        await self._stop_copying()
        for duty in self._duties:
            self._outages.left(duty.what)
        for cluster in self._opened:
            await self._clusters.release(cluster)

    async def run(self) -> None:
        if not self._options.enabled:
            await asyncio.Event().wait()
        while True:
            await self._begun.wait()
            await self._work_until_ended()
            await self._stop_copying()

    async def _work_until_ended(self) -> None:
        self._begin()
        tasks = [asyncio.create_task(self._repeat(duty), name=duty.what) for duty in self._duties]
        tasks.append(asyncio.create_task(self._watch(), name="watch"))
        tasks.append(asyncio.create_task(self._running_record.repeat(), name="running record"))
        tasks.append(asyncio.create_task(self._group_connectors.repeat(), name="group connectors"))
        ended = asyncio.create_task(self._ended.wait(), name="ended")
        try:
            done, _ = await asyncio.wait([*tasks, ended], return_when=asyncio.FIRST_COMPLETED)
            for task in done - {ended}:
                task.result()
        finally:
            for task in (*tasks, ended):
                task.cancel()
            await asyncio.wait([*tasks, ended])
            self._requested.refuse(does_not_run(self._name))

    def _begin(self) -> None:
        options = self._options
        discovery = Discovery(options, self._sides, self._spec)
        take_over = TakeOver(options.source_alias, self._publisher.stored_offsets)
        self._discovered, self._last_summary = DiscoveredTopics(), None
        self._loaded.clear()

        async def discover() -> Sequence[KafkaFailure]:
            topics = await discovery.round()
            self._copy(await take_over.begun(topics) if options.stock_positions else topics)
            return self._discovered.failures

        refresh = options.refresh_interval if options.refresh_enabled else None
        self._duties = [
            Duty("search for topics", discover, refresh, DutyFailures(_PERMANENT_OF_TOPICS), self._requested)
        ]
        if options.sync_configs_enabled:
            configs = ConfigSync(options, self._sides, self._names)
            self._duties.append(
                Duty(
                    "sync of topic configs",
                    configs.round,
                    options.sync_configs_interval,
                    DutyFailures(_PERMANENT),
                )
            )
        if options.sync_acls_enabled:
            acls = AclSync(self._name, options, self._sides, self._names)
            self._duties.append(
                Duty("sync of topic ACLs", acls.round, options.sync_acls_interval, DutyFailures(_PERMANENT))
            )

    def _names(self) -> Mapping[str, str]:
        return self._discovered.names

    # -- rounds ------------------------------------------------------------------------------------------------------

    async def _repeat(self, duty: Duty) -> None:
        if duty is not self._duties[0]:
            await self._loaded.wait()
        while True:
            duty.requested.wake.clear()
            duty.requested.begin()
            failures, away = await self._round(duty)
            duty.failures.record(failures)
            self._publish_summary()
            duty.requested.end(DutyResult(failures, away))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(duty.pause):
                    await duty.requested.wake.wait()

    async def _round(self, duty: Duty) -> DutyResult:
        try:
            failures = await duty.round()
            duty.away = None
        except ClusterAway as away:
            duty.away = away.side if away.failure.fault in AWAY else None
            self._outages.cluster_failed(away.side, away.failure, duty.what)
            failure = name_cluster(away.side, away.failure)
            return DutyResult([failure], failure)
        if failures:
            self._outages.failed(str(failures[0]), duty.what)
        else:
            self._outages.well(duty.what)
        return DutyResult(failures)

    # -- the pipeline ------------------------------------------------------------------------------------------------

    def _copy(self, topics: DiscoveredTopics) -> None:
        self._discovered = topics
        self._rounds += 1
        self._loaded.set()
        if self._pipeline is None and topics.copied:
            self._pipeline = self._pipelines.start(self._spec)
            self._reporter.begin()
        if self._pipeline is not None:
            self._pipeline.assign(topics.copied)

    async def _stop_copying(self) -> None:
        if self._pipeline is not None:
            await self._pipeline.stop()
            status, samples = self._pipeline.status, self._pipeline.drain_samples()
            self._pipeline = None
            over = status if status.state in _OVER else replace(status, state=PipelineState.STOPPED)
            self._publish_progress(over, samples)

    async def _watch(self) -> None:
        while True:
            self._looked.set()
            self._publish_summary()
            if self._loaded.is_set() and self._pipeline is not None:
                self._release(self._pipeline)
                self._publish_progress(self._pipeline.status, self._pipeline.drain_samples())
            elif self._loaded.is_set():
                self._publish_progress(PipelineStatus())
            await asyncio.sleep(WATCH_SECONDS)

    def _release(self, pipeline: Pipeline) -> None:
        """Ends claims to topics that the configuration leaves out: a filter goes by the name alone, so that a topic
        which could not be described stays claimed."""
        left_out = [topic for topic in pipeline.status.claimed if not self._options.replicates(topic)]
        if left_out:
            pipeline.release(left_out)

    def _copies(self) -> bool:
        """Whether it copies, or waits for a cluster that is away."""
        if self._away:
            return True
        return self._pipeline is not None and self._pipeline.status.state in _WELL

    # -- reports -----------------------------------------------------------------------------------------------------

    def _publish_summary(self) -> None:
        status = self._pipeline.status if self._pipeline is not None else None
        summary = self._summary(status)
        if summary != self._last_summary:
            self._last_summary = summary
            self._publisher.summary(summary)

    def _publish_progress(self, status: PipelineStatus, samples: Sequence[CopySample] = ()) -> None:
        report = self._reporter.report(status, self._discovered.copied, time.monotonic(), samples)
        if report is not None:
            self._publisher.progress(report)

    def _away_since_ms(self, now_ms: int, status: PipelineStatus | None) -> Mapping[str, int]:
        """Returns which clusters do not answer the pipeline, or did not answer a duty's last round, and since when."""
        sides = {duty.away.value for duty in self._duties if duty.away is not None}
        sides |= {side.value for side in status.away} if status is not None else set()
        self._away = {side: self._away.get(side, now_ms) for side in sorted(sides)}
        return self._away

    def _summary(self, status: PipelineStatus | None) -> Summary:
        failures = [(str(each), each.fault.value) for duty in self._duties if (each := duty.failures.failure)]
        errors = list(status.errors) if status is not None else []
        errors += [text for duty in self._duties for text in duty.failures.lasting]
        errors += self._discovered.remarks
        now_ms = int(time.time() * 1000)
        gaps: Sequence[str] = ()
        unreadable: Mapping[str, int] = {}
        partitions: Mapping[str, tuple[PartitionState, int]] = {}
        if status is not None:
            unreadable = status.unreadable
            if status.failure is not None:
                failures.insert(0, (status.failure, status.failure_code))
            partitions = {
                reason.sentence: (reason.state, reason.since_ms) for reason in reasons(status.partitions)
            }
            gaps = _gaps([gap for gap in status.gaps if now_ms - gap.seen_at_ms < GAPS_SHOWN_MS])
        if self._loaded.is_set() and (status is None or status.state in _WELL or status.slices_running):
            self._copying = now_ms, int(time.monotonic() * 1000)
            if not errors:
                self._last_success_ms = now_ms
        return Summary(
            last_success_ms=self._last_success_ms,
            copying_ms=self._copying[0],
            copying_monotonic_ms=self._copying[1],
            rounds=self._rounds,
            clusters_seen=_SEEN if self._loaded.is_set() else frozenset(),
            unreadable_records=unreadable,
            waits_for=self._discovered.waits_for,
            group_connectors=self._group_connectors.known if self._group_connectors.looked else None,
            groups_unread=self._group_connectors.remark or "",
            errors=errors,
            partitions={text: partitions[text] for text in errors if text in partitions},
            gaps=gaps,
            away_since_ms=self._away_since_ms(now_ms, status),
            failure=failures[0][0] if failures else None,
            failure_code=failures[0][1] if failures else "",
        )


def planned_skip(
    connector: str,
    place: TopicPartition,
    stands: PartitionStatus | None,
    known: Progress | None,
    to: int | None,
) -> Skip:
    """Decides which offsets of a partition are to be left out, up to `to`, or as far as what can't be copied reaches.
    Raises OperationRefused."""
    name = f"{place.topic}-{place.partition}"
    reset = f"stop connector {connector}, and use mirror-bridge reset"
    if stands is None or stands.state not in NOT_COPIED:
        raise OperationRefused(
            f"{name} is copied, or not by connector {connector}: to leave records out, {reset}"
        )
    if stands.offset < 0:
        raise OperationRefused(
            f"{name} is {stands.state} for something else than a record that can't be copied: {stands.why}"
        )
    if to is None and stands.end < 0:
        raise OperationRefused(
            f"it is not known where what can't be copied of {name} ends: give --to OFFSET, above {stands.offset}"
        )
    end = stands.end if to is None else to
    if end <= stands.offset:
        raise OperationRefused(
            f"offset {end} is not above {stands.offset}, where {name} stands: give a higher one"
        )
    # The slice has fetched what can't be copied: it may know more of the log than it held when it was asked last.
    if (
        known is not None
        and known.source_end >= 0
        and end > (source_end := max(known.source_end, stands.end))
    ):
        raise OperationRefused(
            f"offset {end} is beyond the end of {name}, which is {source_end}: give a lower one"
        )
    return Skip(*place, stands.offset, end)


def _gaps(gaps: Sequence[Gap]) -> list[str]:
    """Returns the newest gaps, one text each, and how many older ones there are."""
    named = [gap.sentence for gap in gaps[-_GAPS:]]
    more = len(gaps) - len(named)
    return [*named, *([f"{more} older gap(s), see the gap ledger"] if more else [])]
