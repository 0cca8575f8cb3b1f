"""Writes what a round found to the readiness topic, and reads what other instances have written there."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import islice

from bridge.errors import KafkaFailure
from bridge.model.assignment import task_of
from bridge.model.state_records.group_record import GroupRecord
from bridge.model.state_records.readiness_records import MissingRecord, TaskRecord
from bridge.model.state_records.state_value import Value
from bridge.model.values import Reason, TopicPartition
from connectors.base import Assignment, Missing
from connectors.cluster_away import ClusterAway
from connectors.group_translation.checks import GroupOptions
from connectors.group_translation.stored import StoredKey, StoredState
from connectors.ports import Cluster
from connectors.writer import PROCESS

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
        for (topic, partition), each in missing.items():
            topics.setdefault(topic, []).append((partition, each.records, each.since_ms))
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
