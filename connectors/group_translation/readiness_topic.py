"""Reads the readiness topic before the rounds of a connector, and writes it after them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from bridge.model.state_records.group_record import GroupRecord
from bridge.model.values import Reason, TopicPartition
from bridge.translation.plan import OwnCommit
from connectors.base import Assignment, Missing, Publisher, Summary
from connectors.group_translation.checks import GroupOptions
from connectors.group_translation.furthest import FurthestOffsets
from connectors.group_translation.listed_groups import ListedGroups
from connectors.group_translation.other_instances import OtherInstances
from connectors.group_translation.records import written_of
from connectors.group_translation.reporting import Reports
from connectors.group_translation.round import GroupRounds
from connectors.group_translation.round_records import RoundRecords
from connectors.group_translation.stored import StoredState
from connectors.group_translation.translating.backlog import Backlog
from connectors.ports import Cluster


class ReadinessTopic:
    """The readiness topic in the rounds of one instance. Adds to summaries what other instances have written."""

    def __init__(
        self,
        name: str,
        options: GroupOptions,
        target: Cluster,
        publisher: Publisher,
        interval: float,
        groups: ListedGroups,
        rounds: GroupRounds,
        reports: Reports,
        backlog: Backlog,
    ) -> None:
        self._records = RoundRecords(name, options, target, interval)
        self._others = OtherInstances(self._records, publisher, reports, rounds.forget_written)
        self._publisher, self._groups, self._rounds = publisher, groups, rounds
        self._reports, self._backlog = reports, backlog
        rounds.take_over(self._written)
        self._furthest = rounds.furthest = FurthestOffsets(options, target, self.store)
        self.begun = False
        self._whole = False
        """Whether no other instance looks at any group."""
        self._recalled: tuple[int, set[int]] = 0, set()
        """How many tasks there were, and those whose groups were recalled."""

    @property
    def store(self) -> StoredState:
        return self._records.store

    @property
    def remarks(self) -> Sequence[str]:
        return self._records.store.remarks

    @property
    def unreadable(self) -> Mapping[str, int]:
        return self._records.store.unreadable

    def _written(self, group: str) -> Mapping[TopicPartition, OwnCommit] | None:
        """Returns what has been committed for a group by the newest record of it; None while the topic can't be
        read."""
        record = self.store.get(GroupRecord, group)
        if record is None:
            return {} if self.store.whole else None
        return written_of(record)

    async def begin(self) -> None:
        """Reads, once a task runs, what was written before this instance began. No report rests on it while the source
        answers."""
        self.begun = True
        await self._records.begin()

    async def follow(self, assignment: Assignment, summary: Summary) -> Summary:
        """Reads the topic before a round. Raises ClusterAway."""
        await self._records.store.follow()
        if self._records.lost():
            self._reports.forget_marks()
        count = 0 if assignment.active else self._records.task_count()
        if count:
            # Connect tells only who runs tasks how many there are.
            assignment = replace(assignment, task_count=count)
            self._reports.task_count = count
        self._recalled[1].intersection_update(assignment.active)
        self._others.show(assignment)
        self._whole = summary.rounds > 0 and len(assignment.active) == assignment.task_count
        if missing := self.missing():
            self._publisher.backlog(missing)
        return replace(
            summary,
            other_tasks=self._records.other_tasks(assignment),
            other_connectors=self._records.other_connectors(),
            task_count=count,
        )

    def missing(self) -> dict[TopicPartition, Missing | None]:
        """Returns what has changed of the missing records of partitions that other instances look at: those that this
        one has looked at in its last round are not among them."""
        return self._others.missing(self._backlog.missing.keys(), others=not self._whole)

    async def recall(self, assignment: Assignment, summary: Summary, reason: Reason) -> Summary:
        """Takes over, while the source is down, the groups of tasks that this instance has not looked at yet."""
        self._records.broke_off()
        records = self._records.task_records(assignment, assignment.active - set(summary.tasks))
        if not records:
            return summary
        await self._recall(assignment, records, reason)
        as_of = [] if summary.as_of_ms is None or not summary.tasks else [summary.as_of_ms]
        as_of_ms = min([*as_of, *(each.as_of_ms for each in records.values())])
        tasks = sorted({*summary.tasks, *records})
        return replace(summary, as_of_ms=as_of_ms, as_of_monotonic_ms=None, tasks=tasks)

    async def _recall(self, assignment: Assignment, tasks: Collection[int], reason: Reason) -> None:
        if assignment.task_count != self._recalled[0]:
            self._recalled = assignment.task_count, set()
        new = set(tasks) - self._recalled[1]
        if new:
            self._recalled[1].update(new)
            await self._others.recall(assignment, new, self._groups, self._rounds, reason)

    async def ended(self, assignment: Assignment, seen: Collection[str], began_ms: int) -> None:
        """Writes what a round found that both clusters have answered."""
        changed, self._reports.changed = self._reports.changed, {}
        await self._records.ended(assignment, changed, seen, self._backlog.missing, began_ms)
        await self._furthest.drop_gone(assignment, seen)
