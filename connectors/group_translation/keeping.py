"""What a connector of groups keeps in the readiness topic after its rounds, and what it learns there."""

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

log = logging.getLogger(__name__)

TASKS_EVERY = 5.0
"""Seconds between two records of a task at least."""
WITHIN = 10.0
"""Seconds that writing, or the first reading, may hold up the rounds; the rest is done after the next one."""
PORTION = 200
"""Records that are written together: what is written by the time counts."""
SILENT_MS = 7 * 86_400_000
"""Records of another connector are taken back when nothing was written of it for so long,"""
SILENT_ROUNDS = 3_600.0
"""nor in so many seconds of rounds of ours that both clusters have answered without a break."""


class Keeping:
    """`store`: the readiness topic. What could not be written waits for the end of the next round."""

    def __init__(self, connector: str, options: GroupOptions, target: Cluster, interval: float) -> None:
        self.store = StoredState(connector, options, target)
        self.writer = uuid.uuid4().hex
        """Of records of tasks: which instance has looked at the groups."""
        self._interval = interval
        self._due: dict[StoredKey, Value | None] = {}
        self._next = 0.0
        """When records of tasks are due (monotonic seconds)."""
        self._whole_since: float | None = None
        """Since when all rounds were answered by both clusters."""
        self._lost = 0

    # -- learning --------------------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Reads the topic, if that is done in time; whatever is wrong, the rounds say it."""
        try:
            async with asyncio.timeout(WITHIN):
                await self.store.follow()
        except (ClusterAway, TimeoutError) as problem:
            log.debug("the readiness topic can't be read yet: %s", problem)

    def lost(self) -> bool:
        """Whether what the topic held was gone since the last call."""
        lost, self._lost = self._lost != self.store.lost, self.store.lost
        return lost

    def looked_at(self, assignment: Assignment, tasks: Collection[int]) -> dict[int, TaskRecord]:
        """Records of these tasks, as far as there are any for as many tasks as there are now."""
        found = {task: self.store.get(TaskRecord, str(task)) for task in tasks}
        return {
            task: record
            for task, record in found.items()
            if record is not None and record.task_count == assignment.task_count
        }

    def elsewhere(self, assignment: Assignment) -> dict[int, tuple[int, int]]:
        """Tasks that other services look after: when they were looked at last, and after how long they are again."""
        others = [task for task in range(assignment.task_count) if task not in assignment.active]
        return {
            task: (record.as_of_ms, record.interval_ms)
            for task, record in self.looked_at(assignment, others).items()
            if record.writer != self.writer
        }

    def missing(self, own: Collection[TopicPartition]) -> dict[TopicPartition, Missing]:
        """Of source partitions that this instance does not look at."""
        return {
            place: Missing(records, since_ms)
            for topic, record in self.store.all(MissingRecord)
            for partition, records, since_ms in record.rows
            if (place := TopicPartition(topic, partition)) not in own
        }

    # -- writing ---------------------------------------------------------------------------------------------------

    def broke_off(self) -> None:
        """A round that a cluster did not answer."""
        self._whole_since = None

    async def ended(
        self,
        assignment: Assignment,
        changed: Mapping[str, GroupRecord | Reason | None],
        stay: Collection[str],
        missing: Mapping[TopicPartition, Missing],
        began_ms: int,
    ) -> None:
        """After a round that both clusters have answered: its groups, then its tasks. `stay`: all groups that are
        there. Raises nothing: what lasts is a remark of the store."""
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
            log.debug("the readiness topic can't be written now: %s", problem)

    async def _write(
        self, assignment: Assignment, missing: Mapping[TopicPartition, Missing], began_ms: int, now: float
    ) -> None:
        if not self.store.whole:
            await self.store.follow()  # what means the same as what stands there is not written again
        while self._due:
            due = dict(islice(self._due.items(), PORTION))
            await self.store.put(due)
            for place in due:
                del self._due[place]
        if now < self._next:
            return
        lasted_ms = int((time.monotonic() - now) * 1000) + int(time.time() * 1000) - began_ms
        interval_ms = max(int(1000 * max(self._interval, TASKS_EVERY)), lasted_ms)
        count = assignment.task_count
        tasks: dict[StoredKey, Value | None] = {
            ("task", str(task)): TaskRecord(began_ms, count, interval_ms, self.writer)
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
            log.info("%s: %d records of connector %s are taken back", self.store.topic, len(keys), name)
            await self.store.drop(keys)

    def _missing(
        self, assignment: Assignment, missing: Mapping[TopicPartition, Missing], began_ms: int
    ) -> dict[StoredKey, Value | None]:
        topics: dict[str, list[tuple[int, int, int]]] = {}
        for (topic, partition), each in missing.items():
            topics.setdefault(topic, []).append((partition, each.records, each.since_ms))
        found: dict[StoredKey, Value | None] = {
            ("missing", topic): MissingRecord(began_ms, tuple(sorted(rows))) for topic, rows in topics.items()
        }
        if len(assignment.active) == assignment.task_count:  # else others may look at them
            gone = (name for name in self.store.names(MissingRecord) if name not in topics)
            found |= dict.fromkeys((("missing", name) for name in gone), None)
        return found

    def _with_reason(
        self, name: str, record: GroupRecord | Reason | None, assignment: Assignment, began_ms: int
    ) -> GroupRecord | None:
        """A reason alone: the group could not be looked at, and what was known of it stays."""
        if not isinstance(record, Reason):
            return None if record is None else replace(record, as_of_ms=began_ms)
        waits = self._due.get(("group", name))
        known = waits if isinstance(waits, GroupRecord) else self.store.get(GroupRecord, name)
        count = assignment.task_count
        rows, state = ((), "EMPTY") if known is None else (known.rows, known.state)
        return GroupRecord(began_ms, task_of(name, count), count, state, record.value, rows)
