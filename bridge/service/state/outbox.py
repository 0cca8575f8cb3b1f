"""Keeps the records that wait for Connect, and those in flight: delivered to Connect and not acknowledged. Pure: no
clock, no I/O.

A record waits until a poll of the task that its affinity belongs to. Then it is in flight for that session of the task,
until Connect has written it and the session acknowledges it. Laws (tests/unit/service/state/test_outbox.py holds them
for any order of calls):
  A. Of one key (topic and record key) only the newest record waits. Each record is written, or a newer one of its key.
  B. Records of a key are in flight for one task at a time, and a task never gets an older record of a key after a newer
     one.
  C. A batch that the next poll does not confirm is delivered again, whole and under the same number, before anything
     else, however often and in whatever order polls arrive.
  D. A new session of a task gets what the old one had in flight, unless a newer record of the key waits. When the
     number of tasks changes, all records are distributed again.
  E. An acknowledgement names a source partition and a timestamp. It counts for that record and all that were delivered
     before it of the partition. So two records of one partition and one timestamp are never in flight at once.
  F. A later generation of the connector's instance drops the records of earlier ones.

Memory is bounded by the number of keys, and per task by MOST_IN_FLIGHT.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from bridge.model.values import task_of
from bridge.service.ipc.checkpoint_records import (
    AFFINITY,
    KEY,
    PARTITION,
    TEXT,
    TIMESTAMP,
    WAITING_SINCE,
    PackedRecord,
)

MOST_IN_FLIGHT = 10_000
"""Source partitions that a task may have in flight: the shim keeps as many acknowledgements (AckQueue.LIMIT). With one
more it would drop the oldest acknowledgement, and that record would stay in flight for ever."""


class Batch(NamedTuple):
    """The records that one poll delivers, as JSON texts. The shim repeats `number` in its next poll when it has read
    them."""

    number: int
    texts: tuple[bytes, ...]


class Written(NamedTuple):
    """The records that an acknowledgement covers: `timestamp` is that of the record which it names, `records` counts it
    and those before it."""

    affinity: str
    timestamp: int
    records: int


class Counts(NamedTuple):
    """How many records wait and are in flight. `since`: timestamp of the oldest waiting record, or of one of its key
    that it replaced (ms since the epoch)."""

    waiting: int
    in_flight: int
    since: int | None


@dataclass(slots=True)
class _TaskQueue:
    """The records of one task. A key is in `redelivery` or in `waiting`, never in both."""

    session: str = ""
    number: int = 0
    last: tuple[bytes, ...] = ()
    """Texts of batch `number`, until a poll confirms it."""
    redelivery: dict[bytes, PackedRecord] = field(default_factory=dict)
    """By key, records that were in flight in an earlier session. They are delivered first."""
    waiting: dict[bytes, PackedRecord] = field(default_factory=dict)
    """By key, in order of arrival; a newer record keeps the place in the queue of the one that it replaces."""
    in_flight: dict[bytes, tuple[PackedRecord, ...]] = field(default_factory=dict)
    """By source partition, in the order of delivery; timestamps differ."""

    def offer(self, record: PackedRecord) -> None:
        key = record[KEY]
        older = self.redelivery.pop(key, None) or self.waiting.get(key)
        if older is not None:
            record = (*record[:WAITING_SINCE], older[WAITING_SINCE], record[TEXT])
        self.waiting[key] = record

    def next_batch(self, session: str, seen: int, most: int) -> Batch:
        """Moves up to `most` records to in flight, or repeats the last batch while `seen` does not confirm it."""
        if session != self.session:
            self.requeue()
            self.session, self.number, self.last = session, 0, ()
        if seen < self.number:
            return Batch(self.number, self.last)
        self.number, self.last = (
            seen,
            (),
        )  # after a restart of the service, numbering continues where the session is
        taken = self._pick(min(most, MOST_IN_FLIGHT - len(self.in_flight)))
        if taken:
            self.number, self.last = seen + 1, tuple(taken)
        return Batch(self.number, self.last)

    def _pick(self, most: int) -> list[bytes]:
        texts: list[bytes] = []
        for queue in (self.redelivery, self.waiting):
            taken: list[bytes] = []
            for key, record in queue.items():
                if len(texts) >= most:
                    break
                in_flight = self.in_flight.get(record[PARTITION], ())
                if all(other[TIMESTAMP] != record[TIMESTAMP] for other in in_flight):
                    self.in_flight[record[PARTITION]] = (*in_flight, record)
                    taken.append(key)
                    texts.append(record[TEXT])
            for key in taken:
                del queue[key]
        return texts

    def requeue(self) -> None:
        """Queues everything in flight for redelivery, the newest record of each key: what is in flight is newer than
        what was queued for redelivery before, and what waits is newer still."""
        for records in self.in_flight.values():
            self.redelivery.update(
                {record[KEY]: record for record in records if record[KEY] not in self.waiting}
            )
        self.in_flight = {}

    def ack(self, partition: bytes, timestamp: int) -> Written | None:
        in_flight = self.in_flight.get(partition, ())
        for index, record in enumerate(in_flight, start=1):
            if record[TIMESTAMP] == timestamp:
                if index < len(in_flight):
                    self.in_flight[partition] = in_flight[index:]
                else:
                    del self.in_flight[partition]
                return Written(record[AFFINITY], timestamp, index)
        return None

    def undelivered(self) -> Iterator[PackedRecord]:
        yield from self.redelivery.values()
        yield from self.waiting.values()


class _ConnectorQueues:
    """The records of one connector, distributed over its tasks."""

    def __init__(self, generation: int, task_count: int) -> None:
        self.generation = generation
        self.task_count = task_count
        self.tasks: dict[int, _TaskQueue] = {}

    def task(self, index: int) -> _TaskQueue:
        return self.tasks.setdefault(index, _TaskQueue())

    def distribute(self, records: Iterable[PackedRecord]) -> None:
        """Queues each record for the task of its affinity."""
        # Hashing costs more than the rest, and records of one group come together.
        queues: dict[str, _TaskQueue] = {}
        for record in records:
            affinity = record[AFFINITY]
            queue = queues.get(affinity)
            if queue is None:
                queue = queues[affinity] = self.task(task_of(affinity, self.task_count))
            queue.offer(record)

    def redistribute(self, task_count: int) -> None:
        queues, self.tasks, self.task_count = self.tasks, {}, task_count
        for queue in queues.values():
            queue.requeue()
            self.distribute(queue.undelivered())


class Outbox:
    """The records of all connectors. Callers have made sure that session, task and task count are the current ones
    (TaskTable)."""

    def __init__(self) -> None:
        self._connectors: dict[str, _ConnectorQueues] = {}

    def offer(self, name: str, generation: int, task_count: int, records: Iterable[PackedRecord]) -> None:
        """Queues records of an instance; those of an earlier generation are dropped."""
        connector = self._connector(name, generation, task_count)
        if connector is not None:
            connector.distribute(records)

    def drain(
        self,
        name: str,
        generation: int,
        task_count: int,
        task: int,
        session: str,
        seen: int | None,
        most: int,
    ) -> Batch:
        """Delivers at most `most` records to a session, or its last batch again. `seen` is the number of the last batch
        that the session has read, None before the first."""
        connector = self._connector(name, generation, task_count)
        if connector is None:
            return Batch(seen or 0, ())
        return connector.task(task).next_batch(session, seen or 0, most)

    def ack(self, name: str, task: int, session: str, partition: bytes, timestamp: int) -> Written | None:
        """Ends what an acknowledgement covers. None for a record that is not in flight: it was acknowledged before, or
        queued for redelivery since."""
        connector = self._connectors.get(name)
        queue = connector.tasks.get(task) if connector is not None else None
        return queue.ack(partition, timestamp) if queue is not None and queue.session == session else None

    def counts(self, name: str) -> Counts:
        """Counts waiting records, and records in flight."""
        connector = self._connectors.get(name)
        tasks = list(connector.tasks.values()) if connector is not None else []
        waiting = [queue for task in tasks for queue in (task.redelivery, task.waiting) if queue]
        return Counts(
            sum(len(queue) for queue in waiting),
            sum(len(records) for task in tasks for records in task.in_flight.values()),
            min((next(iter(queue.values()))[WAITING_SINCE] for queue in waiting), default=None),
        )

    def forget(self, name: str) -> None:
        self._connectors.pop(name, None)

    def _connector(self, name: str, generation: int, task_count: int) -> _ConnectorQueues | None:
        """The queues of a connector for this generation; None when a later one has begun."""
        connector = self._connectors.get(name)
        if connector is None or generation > connector.generation:
            connector = self._connectors[name] = _ConnectorQueues(generation, task_count)
        elif generation < connector.generation:
            return None
        elif task_count != connector.task_count:
            connector.redistribute(task_count)
        return connector
