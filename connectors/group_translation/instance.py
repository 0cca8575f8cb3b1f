"""Runs a connector of groups: lists groups, runs rounds at their interval, publishes reports.

A round that fails is tried again soon, not an interval later: after a fault heals every group is to be current within
two intervals (R4). Whatever fails, the instance goes on; only credentials that stay wrong fail the task (R6).

Keeps reports of moved groups from being published: a moved group has a report of its own (`moves`).

Carries out operators' requests to a connector of groups: refresh, move groups, roll them back, give them back.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

from bridge.errors import KafkaFailure, OperationRefused
from bridge.model.state_records.move_record import MoveRecord, MoveRow, NotBegunMoved
from bridge.model.values import WITH_MEMBERS, Side, TopicPartition
from bridge.protocol.messages import GroupReport
from bridge.translation.plan import SYNCED_TYPES
from connectors.base import (
    Arguments,
    Assignment,
    CopyReport,
    EmittedRecord,
    Missing,
    Operation,
    Publisher,
    RequestedRounds,
    SourceOffset,
    SourcePartition,
    Summary,
    does_not_run,
    not_offered,
    refresh_answer,
)
from connectors.cluster_away import ClusterAway, Failures, Outages, reason_of
from connectors.group_translation.listed_groups import ListedGroups
from connectors.group_translation.moves import MoveFacts, Moves, pairs_of
from connectors.group_translation.options import GroupOptions
from connectors.group_translation.readiness_topic import ReadinessTopic, RoundRecords
from connectors.group_translation.report import RoundTally
from connectors.group_translation.reporting import Reports
from connectors.group_translation.round import GroupRounds, RoundOutcome
from connectors.group_translation.source_probe import SourceProbe
from connectors.group_translation.stored import StoredState
from connectors.group_translation.translating.followed_topics import FollowedRuns, ReverseFlow
from connectors.group_translation.translating.proof import Backlog
from connectors.group_translation.translating.strategies import Strategy
from connectors.ports import Cluster, Clusters

log = logging.getLogger(__name__)

_DISABLED = (
    "failover needs the readiness topic on the target: connector {} must not have emit.group-readiness.enabled=false, "
    "nor dry.run=true"
)
Options = TypeVar("Options", bound=GroupOptions)
_LEAST_PROBE = 1.0
"""Seconds that a source which was away has to answer before a round without it begins, unless the interval is
shorter."""
COPIES_SOON = 2.0
"""Seconds until copies that are to come are looked for again, whatever the interval is; then twice as long."""
_TO_COME = (
    *("target_topic_missing", "target_partition_missing", "not_mirrored_yet"),
    *("other_source_unknown", "other_source_not_ready"),
)
REQUESTED_PROBE = 3.0
"""Seconds that it has when an operator has requested the round."""
_PORTION = 1000
"""Groups that are processed together: bounds what a round holds in memory, and how old a state is when we commit."""


class AroundMoves:
    """A connectors.base.Publisher that leaves out reports of moved groups."""

    def __init__(self, publisher: Publisher, moved: Container[str]) -> None:
        self._publisher, self._moved = publisher, moved

    def groups(self, changed: Mapping[str, GroupReport | None]) -> None:
        rest = {name: report for name, report in changed.items() if name not in self._moved}
        if rest:
            self._publisher.groups(rest)

    def records(self, records: Sequence[EmittedRecord]) -> None:
        self._publisher.records(records)

    def summary(self, summary: Summary) -> None:
        self._publisher.summary(summary)

    def backlog(self, changed: Mapping[TopicPartition, Missing | None]) -> None:
        self._publisher.backlog(changed)

    async def stored_offsets(self, partitions: Sequence[SourcePartition]) -> Sequence[SourceOffset | None]:
        return await self._publisher.stored_offsets(partitions)

    def progress(self, report: CopyReport) -> None:
        self._publisher.progress(report)


class GroupOperations:
    """The operations of one connector. `forget` drops what was committed for a group before it was moved."""

    def __init__(
        self,
        rounds: RequestedRounds[ClusterAway | None],
        groups: ListedGroups,
        moves: Moves,
        report_of: Callable[[str], GroupReport | None],
        forget: Callable[[str], None],
    ) -> None:
        self._rounds, self._groups, self._moves = rounds, groups, moves
        self._report_of, self._forget = report_of, forget
        self.between_rounds = asyncio.Lock()
        """Held by a round, and by an operation that must not run during one."""
        self._operations: dict[str, Callable[[Arguments], Awaitable[Arguments]]] = {
            Operation.REFRESH: self._refresh,
            Operation.MOVE: self._move,
            Operation.ROLL_BACK: self._roll_back,
            Operation.GIVE_BACK: self._give_back,
        }

    async def operate(self, operation: str, arguments: Arguments) -> Arguments:
        """See Instance.operate."""
        carry_out = self._operations.get(operation)
        if carry_out is None:
            raise not_offered(self._moves.connector, operation)
        try:
            return await carry_out(arguments)
        except ClusterAway as away:
            raise away.with_side() from None

    async def _refresh(self, arguments: Arguments) -> Arguments:
        """Runs a round. `without_source`: one that the source did not answer counts too, and `away` has the error."""
        before = set(self._groups.all)
        away = await self._rounds.round()
        if away is not None and not (arguments.get("without_source") and away.on_source):
            raise away
        return refresh_answer(before, self._groups.all) | ({"away": str(away.with_side())} if away else {})

    async def _move(self, arguments: Arguments) -> Arguments:
        self._check_enabled()
        async with self.between_rounds:
            await self._moves.follow()
            facts = {name: facts_of(fields) for name, fields in arguments["groups"].items()}
            dry_run = bool(arguments.get("dry_run"))
            moved, refused = await self._moves.move(facts, self._report_of, dry_run=dry_run)
            self._moves.publish()
        known = self._groups.all
        return {
            "moved": {name: record.fields() for name, record in moved.items()},
            "refused": {name: list(why) for name, why in refused.items()},
            "membersOnSource": sorted(
                name for name in facts if name in known and known[name].state in WITH_MEMBERS
            ),
        }

    async def _roll_back(self, arguments: Arguments) -> Arguments:
        self._check_enabled()
        async with self.between_rounds:
            await self._moves.follow()
            left = await self._moves.roll_back(arguments["groups"])
            self._moves.publish()
        return {"left": {name: [standing.fields() for standing in some] for name, some in left.items()}}

    async def _give_back(self, arguments: Arguments) -> Arguments:
        self._check_enabled()
        async with self.between_rounds:
            await self._moves.follow()
            pairs = {name: [MoveRow.read(row) for row in rows] for name, rows in arguments["groups"].items()}
            await self._moves.give_back(pairs)
            for name in pairs:
                self._forget(name)
            self._moves.publish()
        return {}

    def _check_enabled(self) -> None:
        if not self._moves.enabled:
            raise OperationRefused(_DISABLED.format(self._moves.connector))


def facts_of(fields: Any) -> MoveFacts:
    """Reads what the service knows of a group that is to be moved."""
    missing = {(topic, partition): records for topic, partition, records in fields["missing"]}
    not_begun = tuple(NotBegunMoved(*row) for row in fields.get("not_begun", ()))
    return MoveFacts(
        fields["as_of_ms"], fields["source_away"], fields["missing_since_ms"], missing, not_begun
    )


@dataclass(frozen=True, slots=True)
class OpenClusters:
    """The clusters of an instance, which releases them on close."""

    clusters: Clusters
    source: Cluster
    target: Cluster
    outages: Outages

    @classmethod
    def open(cls, name: str, clusters: Clusters, props: Mapping[str, str]) -> Self:
        return cls(
            clusters,
            clusters.open(Side.SOURCE, props),
            clusters.open(Side.TARGET, props),
            Outages(name, props),
        )

    async def release(self) -> None:
        await self.clusters.release(self.source)
        await self.clusters.release(self.target)


@dataclass(frozen=True, slots=True)
class Translation:
    """How an instance translates offsets. `runs`: those that `strategy` rests on; `reverse`: see PartitionPairs;
    `reverse_flow`: the flow whose groups come back by this one."""

    strategy: Strategy
    runs: FollowedRuns | None = None
    reverse: bool = False
    reverse_flow: ReverseFlow | None = None


class GroupsInstance(Generic[Options]):
    """A running connector; see connectors.base.Instance."""

    def __init__(
        self,
        name: str,
        options: Options,
        clusters: OpenClusters,
        publisher: Publisher,
        translation: Translation,
        interval: float,
    ) -> None:
        self._runs, self._reverse_flow = translation.runs, translation.reverse_flow
        moved: dict[str, MoveRecord] = {}
        unfiltered, publisher = publisher, AroundMoves(publisher, moved)
        self._name, self._options, self._clusters, self._publisher = name, options, clusters, publisher
        self.interval = interval
        """Seconds from the beginning of a round to the next."""
        self._outages = clusters.outages
        self._source, self._target = clusters.source, clusters.target
        self._rounds = GroupRounds(
            options,
            self._source,
            self._target,
            translation.strategy,
            reverse=translation.reverse,
            reverse_flow=translation.reverse_flow,
        )
        self._assignment = Assignment(1, frozenset())
        self._changed = asyncio.Event()
        self._requested = RequestedRounds[ClusterAway | None](self._changed)
        self._groups = ListedGroups(options, self._source, moved)
        self._next_without_source = 0.0
        """When the next round without the source may begin (monotonic seconds)."""
        self._source_away: ClusterAway | None = None
        """Since the last round that both clusters have answered: why the source did not."""
        self._probe, self._probe_due = SourceProbe(self._source, options.admin_timeout_ms), False
        self._groups_due = False
        """Whether groups are listed in the next round, whatever the interval."""
        self._reports = Reports(name, options, publisher)
        self._copies_soon = COPIES_SOON
        self._summary = Summary(interval_ms=int(interval * 1000))
        self._failures = Failures()
        self._backlog = Backlog()
        self._readiness_topic: ReadinessTopic | None = None
        if options.readiness_enabled:
            self._readiness_topic = ReadinessTopic(
                RoundRecords(name, options, self._target, interval),
                publisher,
                self._groups,
                self._rounds,
                self._reports,
                self._backlog,
            )
        store = (
            self._readiness_topic.store if self._readiness_topic else StoredState(name, options, self._target)
        )
        self._moves = Moves(name, options, self._target, store, moved, unfiltered, self._reports.forget)
        self._operations = GroupOperations(
            self._requested,
            self._groups,
            self._moves,
            self._reports.last,
            self._rounds.forget_group,
        )

    def assign(self, assignment: Assignment) -> None:
        if assignment != self._assignment:
            self._assignment = assignment
            self._reports.task_count = self._moves.task_count = assignment.task_count
            self._changed.set()

    async def close(self) -> None:
        self._outages.left()
        await self._probe.close()
        await self._clusters.release()

    async def operate(self, operation: str, arguments: Arguments) -> Arguments:
        return await self._operations.operate(operation, arguments)

    async def run(self) -> None:
        while True:
            began = time.monotonic()
            self._changed.clear()
            if self._assignment.active and self._options.enabled:
                if self._requested.begin():
                    self._all_due(began)
                if self._readiness_topic is not None and not self._readiness_topic.begun:
                    await self._moves.begin()
                    await self._readiness_topic.begin()
                async with self._operations.between_rounds:
                    away = await self._round(began)
                self._requested.end(away)
            else:
                self._requested.refuse(does_not_run(self._name))
                if self._follows_others:
                    await self._follow_others(began)
            await self._pause(began)

    @property
    def _follows_others(self) -> bool:
        return self._readiness_topic is not None and self._options.enabled

    async def _follow_others(self, began: float) -> None:
        """Runs a round without a group while other services run the tasks: their groups are shown as they report them,
        and whether both clusters answer is known here. While nobody does, the source is asked nothing."""
        assert self._readiness_topic is not None
        async with self._operations.between_rounds:
            before = self._summary
            try:
                self._summary = await self._readiness_topic.follow(self._assignment, before)
            except ClusterAway as away:
                if before.other_tasks:
                    self._failed(away)
                return
            if self._summary.other_tasks:
                self._groups_due = True  # without groups of its own a round asks the source nothing else
                await self._round(began)
            elif before.other_tasks:
                self._publisher.summary(self._summary)

    # -- what kinds of connectors override -------------------------------------------------------------------------

    def _due(self, began: float) -> float:
        """Returns when the next round is due after one that began then and succeeded (monotonic seconds)."""
        return began + self.interval

    def _all_due(self, began: float) -> None:
        """Makes everything due in the round that begins then: an operator has requested it."""
        self._groups_due, self._probe_due, self._next_without_source = True, True, began

    async def _prepare(self) -> None:
        """Follows the internal topics before the groups of a round are read. Raises ClusterAway."""
        if self._readiness_topic is not None:
            self._summary = await self._readiness_topic.follow(self._assignment, self._summary)
        await self._moves.follow()
        for name, record in self._moves.drain_returned().items():
            self._rounds.recall(name, *pairs_of(record))
        if self._runs is not None:
            await self._runs.follow()

    async def _portion(self, groups: Sequence[str]) -> RoundOutcome:
        """Runs the round for some of its groups. Raises ClusterAway."""
        return await self._rounds.run(groups)

    def _remarks(self) -> Sequence[str]:
        """Returns the errors that are not of a group, for health."""
        failures = self._reverse_flow.failures if self._reverse_flow else ()
        return [*self._moves.remarks, *failures, *self._rounds.others.remarks]

    def _unreadable(self) -> Mapping[str, int]:
        """Returns how many records of internal topics could not be read so far, by topic."""
        own = self._runs.log.unreadable if self._runs else {}
        return {**own, **(self._reverse_flow.unreadable if self._reverse_flow else {})}

    # -- rounds ----------------------------------------------------------------------------------------------------

    async def _pause(self, began: float) -> None:
        """Waits until the next round is due, or the assignment changes."""
        # After a failure `_due` does not count: everything is still due, and there would be no pause at all.
        soon = began + min(self.interval, self._failures.pause)
        due = soon if self._failures else self._due(began)
        if not self._summary.reasons.keys() & {*_TO_COME}:
            self._copies_soon = COPIES_SOON
        elif not self._failures:
            due = min(due, began + self._copies_soon)
            self._copies_soon = min(2 * self._copies_soon, self.interval)
        try:
            left = max(0.0, due - time.monotonic())
            runs = self._assignment.active or self._follows_others
            await asyncio.wait_for(self._changed.wait(), left if runs else None)
        except TimeoutError:
            return

    async def _round(self, began: float) -> ClusterAway | None:
        """Runs a round; returns the cluster that did not answer, if there is one."""
        # An assignment that changes meanwhile counts from the next round on, which follows at once.
        tally, began_ms, assignment = RoundTally(), int(time.time() * 1000), self._assignment
        try:
            if self._source_away is not None:
                if not await self._source_answers(began):
                    await self._round_without_source(self._source_away.failure)
                    self._rounds.end(whole=False)
                    return self._source_away
                began, began_ms, assignment = time.monotonic(), int(time.time() * 1000), self._assignment
            await self._probe.watch(self._both_sides(assignment, tally), self._groups.synced(assignment))
        except ClusterAway as away:
            self._failed(away)
            if away.side is Side.SOURCE:
                await self._round_without_source(away.failure)
            self._rounds.end(whole=False)
            return away
        except BaseException:
            self._rounds.end(whole=False)
            raise
        missing = self._backlog.after(began_ms, self._rounds.behind, int(began * 1000))
        # Where a task has gone to another instance its partitions are known all the time.
        others = self._readiness_topic.missing() if self._readiness_topic is not None else {}
        self._publisher.backlog({**missing, **others})
        self._rounds.end()
        self._failures.clear()
        self._source_away = None
        self._outages.well()
        self._finish(tally, assignment, began, began_ms)
        if self._readiness_topic is not None and assignment.active:
            await self._readiness_topic.ended(assignment, tally.seen, began_ms)
        return None

    async def _both_sides(self, assignment: Assignment, tally: RoundTally) -> None:
        """What a round asks both clusters. Raises ClusterAway."""
        # The groups first: a group that is not listed has no report that says why it is not synced.
        if await self._groups.refresh(assignment, at_once=self._groups_due):
            log.info(
                "the source has %d consumer groups to translate",
                len(self._groups.all),
                extra={"connector": self._name},
            )
        self._groups_due = self._probe_due = False
        await self._prepare()
        await self._portions(self._groups.synced(assignment), tally)

    async def _portions(self, groups: Sequence[str], tally: RoundTally) -> None:
        for start in range(0, len(groups), _PORTION):
            portion = groups[start : start + _PORTION]
            outcome = await self._portion(portion)
            failure = self._rounds.source_failure
            self._reports.outcome(outcome, tally, failure)
            if failure is None:
                self._reports.looked_at(set(portion), outcome, groups)
            else:
                self._reports.not_looked_at(portion, outcome, failure)

    async def _source_answers(self, began: float) -> bool:
        """Whether a source that was away answers, as far as is known when the next round without it is due. Raises
        ClusterAway."""
        seconds = max(min(_LEAST_PROBE, self.interval), self._next_without_source - began)
        if self._probe_due:
            # Requested by an operator, who may know that it is back: a request from before may hang for longer.
            await self._probe.close()
            self._probe_due, seconds = False, REQUESTED_PROBE
        return await self._probe.answers(self._groups.synced(self._assignment), self._changed, seconds)

    async def _round_without_source(self, failure: KafkaFailure) -> None:
        """Runs a round without the source: the mirror may have got further since the last one, and runs show how far;
        and topics and offsets of the target may have gone. Once an interval, however often the source is tried; more
        follow at once while there is more to read."""
        began = time.monotonic()
        if began < self._next_without_source:
            return
        self._next_without_source = began + self.interval
        try:
            while True:
                tally, assignment, began = RoundTally(), self._assignment, time.monotonic()
                self._rounds.source_failure = failure
                await self._prepare()
                if self._readiness_topic is not None:
                    reason = reason_of(Side.SOURCE, failure)
                    self._summary = await self._readiness_topic.recall(assignment, self._summary, reason)
                await self._portions(self._groups.synced(assignment), tally)
                overdue = time.monotonic() >= self._next_without_source
                if overdue or self._changed.is_set() or not self._rounds.unfinished:
                    break
                self._rounds.end(whole=False)
        except ClusterAway as away:
            self._outages.cluster_failed(away.side, away.failure)
            self._summary = replace(self._summary, away_since_ms=self._away(away.side))
            self._publisher.summary(self._summary)
            return
        self._outages.answered(Side.TARGET)
        since = {
            side: position for side, position in self._summary.away_since_ms.items() if side != Side.TARGET
        }
        self._summary = replace(
            tally.added_to(self._summary),
            away_since_ms=since,
            target_monotonic_ms=int(began * 1000),
            target_tasks=sorted(assignment.active),
        )
        self._publisher.summary(self._summary)

    # -- reports --------------------------------------------------------------------------------------------------

    def _finish(self, tally: RoundTally, assignment: Assignment, began: float, began_ms: int) -> None:
        """Ends a round: publishes groups that are gone, groups of types that are not synced, and the summary. Groups of
        a task that does not run keep their last report."""
        other = (
            name
            for name in self._groups.select(assignment)
            if self._groups.all[name].type not in SYNCED_TYPES
        )
        changed = self._reports.unsupported(other, tally)
        gone = self._reports.gone(tally.seen | (self._groups.all.keys() - self._groups.select(assignment)))
        for name in gone:
            self._rounds.forget_group(name)
        if changed or gone:
            self._publisher.groups({**changed, **gone})
        tally.errors.update(self._remarks())
        sums = tally.summary(self._summary, began_ms, time.monotonic() - began)
        tasks, began_monotonic_ms = sorted(assignment.active), int(began * 1000)
        unreadable = {
            **self._unreadable(),
            **(self._readiness_topic.unreadable if self._readiness_topic else {}),
        }
        self._summary = replace(
            sums,
            unreadable_records=unreadable,
            as_of_monotonic_ms=began_monotonic_ms,
            tasks=tasks,
            target_monotonic_ms=began_monotonic_ms,
            target_tasks=tasks,
        )
        self._publisher.summary(self._summary)

    def _away(self, side: Side) -> Mapping[str, int]:
        """Returns since when clusters have not answered, with this one."""
        return {side.value: int(time.time() * 1000), **self._summary.away_since_ms}

    def _failed(self, away: ClusterAway) -> None:
        error = f"{away.side.value} cluster: {away.failure}"
        if away.side is Side.SOURCE:
            self._source_away = away
        self._outages.cluster_failed(away.side, away.failure)
        if not self._failures:
            reason = reason_of(away.side, away.failure)
            mine = self._groups.select(self._assignment)
            # A ready group stays so: its offsets still stand on the target, and are read again without the source.
            ready = away.side is Side.SOURCE
            self._reports.away({*self._reports.names(), *mine}, reason, ready=ready)
        self._failures.add(away.failure)
        self._summary = replace(
            self._summary,
            away_since_ms=self._away(away.side),
            errors=[error] if self._failures.lasting else self._summary.errors,
            failure=error if self._failures.permanent else None,
            failure_code=away.failure.fault.value if self._failures.permanent else "",
        )
        self._publisher.summary(self._summary)
