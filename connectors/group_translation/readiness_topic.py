"""Reads the readiness topic before the rounds of a connector, and writes it after them.

Writes what a round found to the readiness topic, and reads what other instances have written there.

Publishes what the readiness topic has of groups whose task runs in another service, or ran before this one was
started.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from bridge.errors import KafkaFailure
from bridge.model.state_records.fields import Value
from bridge.model.state_records.group_record import GroupRecord
from bridge.model.state_records.readiness_records import MissingRecord, TaskRecord
from bridge.model.values import Reason, TopicPartition, task_of
from bridge.protocol.messages import GroupReport
from bridge.translation.plan import NotBegun, OwnCommit
from connectors.base import PROCESS, Assignment, Missing, Publisher, Summary
from connectors.cluster_away import ClusterAway
from connectors.group_translation.listed_groups import ListedGroups
from connectors.group_translation.options import GroupOptions
from connectors.group_translation.records import committed_of, written_of
from connectors.group_translation.reporting import Reports
from connectors.group_translation.round import GroupRounds
from connectors.group_translation.stored import StoredKey, StoredState
from connectors.group_translation.translating.proof import Backlog
from connectors.ports import Cluster

log = logging.getLogger(__name__)


TASKS_EVERY = 5.0
"""Seconds between two records of a task at least."""
WITHIN = 10.0
"""Seconds that writing, or the first reading, may delay the rounds; the rest is done after the next one."""
PORTION = 200
"""Records that are written together; on a timeout those that are written count."""
SILENT_MS = 7 * 86_400_000
"""Records of another connector are deleted when it has written nothing for so long,"""
SILENT_ROUNDS = 3_600.0
"""and when both clusters have answered all our rounds for so many seconds."""
_UNREADABLE = {Reason.SOURCE_NOT_AUTHORIZED, Reason.TARGET_NOT_AUTHORIZED}
"""Reasons of groups that could not be read when all others were."""
_PORTION = 100
"""Groups after which other tasks of the event loop have a turn."""


class RoundRecords:
    """The readiness topic (`store`) between rounds. What could not be written waits for the end of the next round."""

    def __init__(self, connector: str, options: GroupOptions, target: Cluster, interval: float) -> None:
        self.store = StoredState(connector, options, target)
        self.writer = uuid.uuid4().hex
        """The writer in task records: which instance has looked at the groups."""
        self._interval = interval
        self._due: dict[StoredKey, Value | None] = {}
        self._next = 0.0
        """When records of tasks are due (monotonic seconds)."""
        self._whole_since: float | None = None
        """Since when both clusters have answered all rounds (monotonic seconds)."""
        self._lost = 0
        self._others: dict[int, tuple[TaskRecord, int]] = {}
        """Records of tasks that other services run, and when each was seen first (monotonic ms)."""

        self._connectors: dict[str, tuple[TaskRecord, int]] = {}
        """The same of other connectors."""

    # -- reading ---------------------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Reads the topic, within WITHIN seconds; the rounds report whatever fails."""
        try:
            async with asyncio.timeout(WITHIN):
                await self.store.follow()
        except (ClusterAway, TimeoutError) as problem:
            log.debug("can't read the readiness topic yet, trying again with the next round: %s", problem)

    def lost(self) -> bool:
        """Whether the topic has lost its values since the last call."""
        lost, self._lost = self._lost != self.store.lost, self.store.lost
        return lost

    def task_records(self, assignment: Assignment, tasks: Collection[int]) -> dict[int, TaskRecord]:
        """Returns the records of these tasks that were written for the present number of tasks."""
        records = {task: self.store.get(TaskRecord, str(task)) for task in tasks}
        return {
            task: record
            for task, record in records.items()
            if record is not None and record.task_count == assignment.task_count
        }

    def other_tasks(self, assignment: Assignment) -> dict[int, tuple[int, int, int]]:
        """Returns the tasks that other services run: the time of their last round, the interval to the next (ms), and
        when that was seen here first: a clock that is set back makes no record young again."""
        others = [task for task in range(assignment.task_count) if task not in assignment.active]
        records = {
            task: record
            for task, record in self.task_records(assignment, others).items()
            if record.writer != self.writer
        }
        now_ms, before = int(time.monotonic() * 1000), self._others
        self._others = {
            task: (record, before[task][1] if before.get(task, (None, 0))[0] == record else now_ms)
            for task, record in records.items()
        }
        return {
            task: (record.as_of_ms, record.interval_ms, seen_ms)
            for task, (record, seen_ms) in self._others.items()
        }

    def other_connectors(self) -> dict[str, tuple[int, int, int]]:
        """Returns, as `other_tasks`, of each other connector the newest record that another process has written."""
        now_ms, before = int(time.monotonic() * 1000), self._connectors
        self._connectors = {
            name: (record, before[name][1] if before.get(name, (None, 0))[0] == record else now_ms)
            for name, record in self.store.running.items()
            if record.writer != PROCESS
        }
        return {
            name: (record.as_of_ms, record.interval_ms, seen_ms)
            for name, (record, seen_ms) in self._connectors.items()
        }

    def task_count(self) -> int:
        """Returns how many tasks there are by the newest record of one, 0 where there is none."""
        records = (record for _, record in self.store.all(TaskRecord))
        newest = max(records, key=lambda record: record.as_of_ms, default=None)
        return 0 if newest is None else newest.task_count

    def missing(self, own: Collection[TopicPartition]) -> dict[TopicPartition, Missing]:
        """Returns the missing records of source partitions that this instance does not look at."""
        return {
            tp: Missing(records, since_ms)
            for topic, record in self.store.all(MissingRecord)
            for partition, records, since_ms in record.rows
            if (tp := TopicPartition(topic, partition)) not in own
        }

    # -- writing ---------------------------------------------------------------------------------------------------

    def broke_off(self) -> None:
        """Notes a round that a cluster did not answer."""
        self._whole_since = None

    async def ended(
        self,
        assignment: Assignment,
        changed: Mapping[str, GroupRecord | Reason | None],
        stay: Collection[str],
        missing: Mapping[TopicPartition, Missing],
        began_ms: int,
    ) -> None:
        """Writes the groups of a round that both clusters have answered, then its tasks. `stay`: all groups that exist.
        Raises nothing: an error that lasts is a remark of the store."""
        now = time.monotonic()
        self._whole_since = now if self._whole_since is None else self._whole_since
        for name, record in changed.items():
            self._due["group", name] = self._with_reason(name, record, assignment, began_ms)
        for name in self.store.names(GroupRecord):
            if task_of(name, assignment.task_count) in assignment.active and name not in stay:
                self._due["group", name] = None
        try:
            async with asyncio.timeout(WITHIN):
                await self._write(assignment, missing, began_ms, now)
        except (ClusterAway, KafkaFailure, TimeoutError) as problem:
            log.debug("can't write the readiness topic, trying again after the next round: %s", problem)

    async def _write(
        self, assignment: Assignment, missing: Mapping[TopicPartition, Missing], began_ms: int, now: float
    ) -> None:
        if not self.store.whole:
            await self.store.follow()  # so that `put` leaves out values that have not changed
        while self._due:
            due = dict(islice(self._due.items(), PORTION))
            await self.store.put(due)
            for key in due:
                del self._due[key]
        if now < self._next:
            return
        lasted_ms = int((time.monotonic() - now) * 1000) + int(time.time() * 1000) - began_ms
        interval_ms = max(int(1000 * max(self._interval, TASKS_EVERY)), lasted_ms)
        count = assignment.task_count
        tasks: dict[StoredKey, Value | None] = {
            ("task", str(task)): TaskRecord(began_ms, count, interval_ms, self.writer, groups=True)
            for task in assignment.active
        }
        gone = [name for name in self.store.names(TaskRecord) if int(name) >= count]
        await self.store.put(
            self._missing(assignment, missing, began_ms)
            | dict.fromkeys((("task", name) for name in gone), None)
        )
        await self.store.put(tasks)
        self._next = now + TASKS_EVERY
        if self._whole_since is not None and now - self._whole_since >= SILENT_ROUNDS:
            await self._drop_silent()

    async def _drop_silent(self) -> None:
        for name, keys in self.store.silent(int(time.time() * 1000) - SILENT_MS).items():
            log.info(
                "deleting %d records of connector %s from %s: it has written none for 7 days",
                len(keys),
                name,
                self.store.topic,
            )
            await self.store.drop(keys)

    def _missing(
        self, assignment: Assignment, missing: Mapping[TopicPartition, Missing], began_ms: int
    ) -> dict[StoredKey, Value | None]:
        topics: dict[str, list[tuple[int, int, int]]] = {}
        for (topic, partition), count in missing.items():
            topics.setdefault(topic, []).append((partition, count.records, count.since_ms))
        records: dict[StoredKey, Value | None] = {
            ("missing", topic): MissingRecord(began_ms, tuple(sorted(rows))) for topic, rows in topics.items()
        }
        if len(assignment.active) == assignment.task_count:  # else others may look at them
            gone = (name for name in self.store.names(MissingRecord) if name not in topics)
            records |= dict.fromkeys((("missing", name) for name in gone), None)
        return records

    def _with_reason(
        self, name: str, record: GroupRecord | Reason | None, assignment: Assignment, began_ms: int
    ) -> GroupRecord | None:
        """Returns the record to write. For a reason alone, because the group could not be read, the last one with
        it."""
        if not isinstance(record, Reason):
            return None if record is None else replace(record, as_of_ms=began_ms)
        waits = self._due.get(("group", name))
        last = waits if isinstance(waits, GroupRecord) else self.store.get(GroupRecord, name)
        count = assignment.task_count
        if last is None:
            return GroupRecord(began_ms, task_of(name, count), count, "EMPTY", record.value, ())
        task = task_of(name, count)
        return replace(last, as_of_ms=began_ms, task=task, task_count=count, reason=record.value)


class OtherInstances:
    """Publishes reports and missing records that other instances of the connector have written to the topic."""

    def __init__(
        self,
        records: RoundRecords,
        publisher: Publisher,
        reports: Reports,
        forget: Callable[[str], None],
    ) -> None:
        """`forget`: drops what was committed for a group that another instance has."""
        self._records, self._publisher, self._reports = records, publisher, reports
        self._forget = forget
        self._shown: set[str] = set()
        self._missing: dict[TopicPartition, Missing] = {}
        self._assignment: Assignment | None = None

    def show(self, assignment: Assignment) -> None:
        """Publishes what is new in the topic about groups of tasks that don't run here."""
        store, reports = self._records.store, self._reports
        names: Collection[str] = store.drain_changed()
        if assignment != self._assignment:
            names = {*store.names(GroupRecord), *self._shown}
            self._assignment = assignment
        changed: dict[str, GroupReport | None] = {}
        for name in names:
            record, shown = store.get(GroupRecord, name), name in self._shown
            own = task_of(name, assignment.task_count) in assignment.active
            if record is not None and not own:
                reports.forget(name)
                self._forget(name)
                changed[name] = reports.recorded(name, record)
                self._shown.add(name)
            elif shown:
                self._shown.discard(name)
                if record is None:
                    changed[name] = None
                else:
                    # Its task comes here: what is shown stays until a round reports the group, or finds it gone.
                    reports.adopt(name, record)
        if changed:
            self._publisher.groups(changed)

    def missing(
        self, own: Collection[TopicPartition], *, others: bool
    ) -> dict[TopicPartition, Missing | None]:
        """Returns what has changed of the missing records of partitions that are not among this instance's own.
        `others`: whether another instance looks at some."""
        now = self._records.missing(own) if others else {}
        changed: dict[TopicPartition, Missing | None] = {
            tp: missing for tp, missing in now.items() if self._missing.get(tp) != missing
        }
        changed |= {tp: None for tp in self._missing.keys() - now.keys() if tp not in own}
        self._missing = now
        return changed

    async def recall(
        self,
        assignment: Assignment,
        tasks: Collection[int],
        groups: ListedGroups,
        rounds: GroupRounds,
        reason: Reason,
    ) -> None:
        """Restores the state of these tasks' groups, which this instance has not looked at, from the topic: rounds
        without the source go on from there."""
        store, count = self._records.store, assignment.task_count
        names = [name for name in store.names(GroupRecord) if task_of(name, count) in tasks]
        for start in range(0, len(names), _PORTION):
            records: dict[str, GroupRecord] = {}
            for name in names[start : start + _PORTION]:
                record = store.get(GroupRecord, name)
                if record is None or not groups.recall(name, _type(record)):
                    continue
                records[name] = record
                if record.reason not in _UNREADABLE:
                    not_begun = tuple(map(NotBegun._make, record.not_begun))
                    rounds.recall(name, committed_of(record), written_of(record), not_begun)
            if records:
                self._reports.recalled(records, reason)
            await asyncio.sleep(0)


def _type(record: GroupRecord) -> str:
    return "unsupported" if record.reason == Reason.GROUP_TYPE_UNSUPPORTED else "classic"


class ReadinessTopic:
    """The readiness topic in the rounds of one instance. Adds to summaries what other instances have written."""

    def __init__(
        self,
        records: RoundRecords,
        publisher: Publisher,
        groups: ListedGroups,
        rounds: GroupRounds,
        reports: Reports,
        backlog: Backlog,
    ) -> None:
        self._records = records
        self._others = OtherInstances(self._records, publisher, reports, rounds.forget_written)
        self._publisher, self._groups, self._rounds = publisher, groups, rounds
        self._reports, self._backlog = reports, backlog
        rounds.take_over(self._written)
        self._furthest = rounds.note_furthest(self.store)
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
        as_of_ms = min([*as_of, *(record.as_of_ms for record in records.values())])
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
