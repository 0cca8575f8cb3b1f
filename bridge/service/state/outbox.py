"""Records that wait for Connect, and those that it was given and has not written yet. Pure: no clock, no I/O.

A record waits; a poll of its affinity's task takes it, and it is in flight for that session of the task; Connect writes
it and the session acknowledges it, which is the end of it. Laws (tests/unit/service/state/test_outbox.py holds
them for any order of calls):
  A. Of one line (topic and key) only the newest waits. Every record is written, or a newer one of its line is.
  B. A line is in flight for one task at a time, and what a task is given of a line never goes back to an older record.
  C. A batch that the next poll does not say it has read is handed out again, whole and under the same number, before
     anything else. As long as that is so the answer is the same, however often and in whatever order polls arrive.
  D. A new session of a task is given what the old one had in flight, unless a newer record of the line waits; when the
     number of tasks changes, all is dealt anew.
  E. An acknowledgement names a source partition and a timestamp: it counts for that record and for all of the
     partition that were taken before it. So two records of one partition and one timestamp are never in flight at once.
  F. A later generation of the connector's instance leaves nothing of the earlier ones.

Memory is bounded by the number of lines, and per task by MOST_IN_FLIGHT.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from bridge.model.assignment import task_of
from bridge.service.ipc.checkpoint_records import AFFINITY, LINE, PLACE, SINCE, TEXT, TIMESTAMP, PackedRecord

MOST_IN_FLIGHT = 10_000
"""Source partitions that a task has in flight: the shim keeps as many acknowledgements (AckQueue.LIMIT). Of one more it
would forget the oldest, and that record would seem to be unwritten for ever."""


class Batch(NamedTuple):
    """What a poll takes: JSON texts of records. The shim repeats `number` when it has read them."""

    number: int
    texts: tuple[bytes, ...]


class Written(NamedTuple):
    """What an acknowledgement ended: `timestamp` is that of the record which it names, `records` counts those before
    it as well."""

    affinity: str
    timestamp: int
    records: int


class Counts(NamedTuple):
    """`since`: when the longest waiting record, or one before it of its line, was made (ms since the epoch)."""

    waiting: int
    in_flight: int
    since: int | None


@dataclass(slots=True)
class _Lane:
    """One task's records. A line is in `again` or in `waiting`, never in both."""

    session: str = ""
    number: int = 0
    last: tuple[bytes, ...] = ()
    """Texts of batch `number`, until a poll has said that it was read."""
    again: dict[bytes, PackedRecord] = field(default_factory=dict)
    """By line: was in flight in an earlier session. Goes first."""
    waiting: dict[bytes, PackedRecord] = field(default_factory=dict)
    """By line, in order of arrival; a newer record takes the place in the queue of the one that it supersedes."""
    flying: dict[bytes, tuple[PackedRecord, ...]] = field(default_factory=dict)
    """By place, in the order in which they were taken; timestamps differ."""

    def offer(self, parcel: PackedRecord) -> None:
        line = parcel[LINE]
        older = self.again.pop(line, None) or self.waiting.get(line)
        if older is not None:
            parcel = (*parcel[:SINCE], older[SINCE], parcel[TEXT])
        self.waiting[line] = parcel

    def take(self, session: str, seen: int, most: int) -> Batch:
        if session != self.session:
            self.give_back()
            self.session, self.number, self.last = session, 0, ()
        if seen < self.number:
            return Batch(self.number, self.last)
        self.number, self.last = seen, ()  # a service that was started anew goes on from where the session is
        taken = self._pick(min(most, MOST_IN_FLIGHT - len(self.flying)))
        if taken:
            self.number, self.last = seen + 1, tuple(taken)
        return Batch(self.number, self.last)

    def _pick(self, most: int) -> list[bytes]:
        texts: list[bytes] = []
        for queue in (self.again, self.waiting):
            taken: list[bytes] = []
            for line, parcel in queue.items():
                if len(texts) >= most:
                    break
                flying = self.flying.get(parcel[PLACE], ())
                if all(other[TIMESTAMP] != parcel[TIMESTAMP] for other in flying):
                    self.flying[parcel[PLACE]] = (*flying, parcel)
                    taken.append(line)
                    texts.append(parcel[TEXT])
            for line in taken:
                del queue[line]
        return texts

    def give_back(self) -> None:
        """Everything in flight is to be handed out again. The newest of each line: what is flying is newer than what
        was given back before, and what waits is newer still."""
        for parcels in self.flying.values():
            self.again.update(
                {parcel[LINE]: parcel for parcel in parcels if parcel[LINE] not in self.waiting}
            )
        self.flying = {}

    def ack(self, place: bytes, timestamp: int) -> Written | None:
        flying = self.flying.get(place, ())
        for at, parcel in enumerate(flying, start=1):
            if parcel[TIMESTAMP] == timestamp:
                if at < len(flying):
                    self.flying[place] = flying[at:]
                else:
                    del self.flying[place]
                return Written(parcel[AFFINITY], timestamp, at)
        return None

    def parcels(self) -> Iterator[PackedRecord]:
        yield from self.again.values()
        yield from self.waiting.values()


class _Box:
    """One connector's records, dealt to its tasks."""

    def __init__(self, generation: int, task_count: int) -> None:
        self.generation = generation
        self.task_count = task_count
        self.lanes: dict[int, _Lane] = {}

    def lane(self, task: int) -> _Lane:
        return self.lanes.setdefault(task, _Lane())

    def deal(self, parcels: Iterable[PackedRecord]) -> None:
        lanes: dict[
            str, _Lane
        ] = {}  # the hash costs more than the rest, and records of a group come together
        for parcel in parcels:
            affinity = parcel[AFFINITY]
            lane = lanes.get(affinity)
            if lane is None:
                lane = lanes[affinity] = self.lane(task_of(affinity, self.task_count))
            lane.offer(parcel)

    def redeal(self, task_count: int) -> None:
        lanes, self.lanes, self.task_count = self.lanes, {}, task_count
        for lane in lanes.values():
            lane.give_back()
            self.deal(lane.parcels())


class Outbox:
    """The records of all connectors. Whoever calls has made sure that session, task and task count are the ruling
    ones (TaskTable)."""

    def __init__(self) -> None:
        self._boxes: dict[str, _Box] = {}

    def offer(self, name: str, generation: int, task_count: int, parcels: Iterable[PackedRecord]) -> None:
        """What the instance of this generation wants written; that of an earlier one is not heard."""
        box = self._box(name, generation, task_count)
        if box is not None:
            box.deal(parcels)

    def take(
        self,
        name: str,
        generation: int,
        task_count: int,
        task: int,
        session: str,
        seen: int | None,
        most: int,
    ) -> Batch:
        """At most `most` records, unless a batch that got lost had more. `seen` is the number of the last batch that
        the session has read, None for none so far."""
        box = self._box(name, generation, task_count)
        return Batch(seen or 0, ()) if box is None else box.lane(task).take(session, seen or 0, most)

    def ack(self, name: str, task: int, session: str, place: bytes, timestamp: int) -> Written | None:
        """None for a record that is not in flight: it was acknowledged before, or handed out again since."""
        box = self._boxes.get(name)
        lane = box.lanes.get(task) if box is not None else None
        return lane.ack(place, timestamp) if lane is not None and lane.session == session else None

    def counts(self, name: str) -> Counts:
        """Source partitions count once each, however many of their records are in flight."""
        box = self._boxes.get(name)
        lanes = list(box.lanes.values()) if box is not None else []
        first = [queue for lane in lanes for queue in (lane.again, lane.waiting) if queue]
        return Counts(
            sum(len(queue) for queue in first),
            sum(len(lane.flying) for lane in lanes),
            min((next(iter(queue.values()))[SINCE] for queue in first), default=None),
        )

    def forget(self, name: str) -> None:
        self._boxes.pop(name, None)

    def _box(self, name: str, generation: int, task_count: int) -> _Box | None:
        box = self._boxes.get(name)
        if box is None or generation > box.generation:
            box = self._boxes[name] = _Box(generation, task_count)
        elif generation < box.generation:
            return None
        elif task_count != box.task_count:
            box.redeal(task_count)
        return box
