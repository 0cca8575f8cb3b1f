"""What a group that fails over now would miss, and read again, by both logs themselves: compared by value, without any
offset run, report or count of ours."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from tests.support import unique

_ANSWER_SECONDS = 2.0
"""For one request: a cluster that takes longer is away for this look, and what it held last counts."""
_PAUSE_SECONDS = 0.2
_LIBRARY: Mapping[str, str | int | bool] = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "log_level": 0,
    "socket.timeout.ms": 2000,
}

Place = tuple[str, int]


@dataclass
class Log:
    """One partition as it stands now. `values`: offsets of committed records by value."""

    start: int
    end: int
    values: dict[bytes, int] = field(default_factory=dict)
    twice: int = 0
    """Values that stand there more than once."""

    def rest(self, offset: int) -> set[bytes]:
        return {value for value, stands in self.values.items() if stands >= offset}


@dataclass(frozen=True)
class GroupTruth:
    """`missed`: records of A that nobody has processed and that the group would not read on B, by partition; all where
    it has no offset on B. `again`: records that it has processed and would read on B once more. `uncommitted`: of
    partitions of its topics for which it has no offset on A, the records that are not on B at all."""

    committed: Mapping[Place, int]
    there: Mapping[Place, int]
    missed: Mapping[Place, int]
    again: Mapping[Place, int]
    unset: Sequence[Place]
    uncommitted: int
    current: bool
    """Whether the newest record of each partition is on B."""

    @property
    def lost(self) -> int:
        return sum(self.missed.values())

    @property
    def whole(self) -> bool:
        """Whether it could fail over now: nothing missed, nothing to be copied, and no offset wrong or missing."""
        return (
            bool(self.committed)
            and self.current
            and not (self.lost or sum(self.again.values()) or self.unset)
        )

    def told(self) -> str:
        missed, again = self.lost, sum(self.again.values())
        text = f"A {_offsets(self.committed)} B {_offsets(self.there)}: misses {missed}, reads {again} again"
        if self.unset:
            text += f", no offset on B for {len(self.unset)}"
        return text + (f", {self.uncommitted} in partitions without offset" if self.uncommitted else "")


def _offsets(places: Mapping[Place, int]) -> str:
    return ",".join(f"{topic[:2]}…{number}@{offset}" for (topic, number), offset in sorted(places.items()))


@dataclass(frozen=True)
class Truth:
    """One look at both clusters, between two times. `alive`: which of them have answered."""

    began: float
    ended: float
    alive: frozenset[str]
    groups: Mapping[str, GroupTruth]


class Side:
    """One cluster: keeps what it held when it answered last."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap, **_LIBRARY})
        self._consumer: Consumer | None = None
        self._groups: dict[str, Consumer] = {}
        self.logs: dict[Place, Log] = {}
        self.offsets: dict[str, dict[Place, int]] = {}

    def close(self) -> None:
        for each in (self._consumer, *self._groups.values()):
            if each is not None:
                each.close()

    def look(self, topics: Sequence[str], groups: Sequence[str]) -> bool:
        """Looks at topics and groups now. Returns whether the cluster has answered all of it."""
        try:
            logs = self._read(topics)
            offsets = {group: self._committed(group, logs) for group in groups}
        except (KafkaException, TimeoutError):
            if self._consumer is not None:
                self._consumer.close()
                self._consumer = None
            return False
        self.logs, self.offsets = logs, offsets
        return True

    def _read(self, topics: Sequence[str]) -> dict[Place, Log]:
        # All of them: describe_topics may crash this process where one is not there.
        known = self._admin.list_topics(timeout=_ANSWER_SECONDS).topics
        places = [
            TopicPartition(topic, n) for topic in topics if topic in known for n in known[topic].partitions
        ]
        if not places:
            return {}
        starts, ends = (self._bounds(places, spec) for spec in (OffsetSpec.earliest(), OffsetSpec.latest()))
        return {place: self._log(place, starts[place], end) for place, end in ends.items()}

    def _bounds(self, places: Sequence[TopicPartition], spec: OffsetSpec) -> dict[Place, int]:
        asked = self._admin.list_offsets(
            dict.fromkeys(places, spec),
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=_ANSWER_SECONDS,
        )
        return {
            (place.topic, place.partition): future.result(_ANSWER_SECONDS + 3).offset
            for place, future in asked.items()
        }

    def _log(self, place: Place, start: int, end: int) -> Log:
        known = self.logs.get(place)
        if known is not None and (known.start, known.end) == (start, end):
            return known
        if self._consumer is not None and (known is None or end < known.end):
            # It may know the topic by an earlier id.
            self._consumer.close()
            self._consumer = None
        log = Log(start, end)
        for value, offset in self._records(place, start, end):
            log.twice += value in log.values
            log.values.setdefault(value, offset)
        return log

    def _records(self, place: Place, since: int, end: int) -> Iterable[tuple[bytes, int]]:
        if since >= end:
            return
        if self._consumer is None:
            self._consumer = Consumer(
                {
                    "bootstrap.servers": self._bootstrap,
                    "group.id": unique("truth"),
                    "enable.auto.commit": False,
                    "enable.partition.eof": True,
                    "fetch.wait.max.ms": 10,
                    "auto.offset.reset": "error",
                    "isolation.level": "read_committed",
                    **_LIBRARY,
                }
            )
        self._consumer.assign([TopicPartition(*place, since)])
        while True:
            message = self._consumer.poll(_ANSWER_SECONDS)
            if message is None:
                raise TimeoutError
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    return
                raise KafkaException(error)
            offset, value = message.offset(), message.value()
            assert offset is not None
            if offset >= end:
                return
            yield value or b"", offset

    def _committed(self, group: str, logs: Iterable[Place]) -> dict[Place, int]:
        """By a consumer: the admin client's call may crash this process while a coordinator is loading."""
        consumer = self._groups.get(group)
        if consumer is None:
            settings = {"bootstrap.servers": self._bootstrap, "group.id": group, "enable.auto.commit": False}
            consumer = self._groups[group] = Consumer({**settings, **_LIBRARY})
        places = [TopicPartition(*place) for place in logs]
        found = consumer.committed(places, timeout=_ANSWER_SECONDS) if places else []
        for each in found:
            if each.error is not None:
                raise KafkaException(each.error)
        return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}


class BothLogs:
    """Looks at both clusters again and again, in a thread."""

    def __init__(self, source: str, target: str, copy_of: Callable[[str], str] = "A.{}".format) -> None:
        """`source` and `target`: bootstrap servers; `copy_of`: the name of a topic's copy."""
        self._source, self._target, self._copy_of = Side(source), Side(target), copy_of
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="truth")
        self.topics: list[str] = []
        self.groups: list[str] = []
        self.looks: list[Truth] = []

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(60)
        for side in (self._source, self._target):
            side.close()

    def _run(self) -> None:
        while not self._stop.wait(_PAUSE_SECONDS):
            with suppress(RuntimeError):  # topics are being added
                self.looks.append(self._look())

    def _look(self) -> Truth:
        topics, groups = list(self.topics), list(self.groups)
        began = time.time()
        answered = {
            "A": self._source.look(topics, groups),
            "B": self._target.look(list(map(self._copy_of, topics)), groups),
        }
        truths = {group: self._of(group) for group in groups}
        return Truth(began, time.time(), frozenset(name for name, did in answered.items() if did), truths)

    def _of(self, group: str) -> GroupTruth:
        here, there = self._source.offsets.get(group, {}), self._target.offsets.get(group, {})
        missed, again, unset = dict[Place, int](), dict[Place, int](), list[Place]()
        for (topic, number), offset in here.items():
            log = self._source.logs.get((topic, number))
            copy_place = (self._copy_of(topic), number)
            copy, stands = self._target.logs.get(copy_place), there.get(copy_place)
            to_read = log.rest(offset) if log is not None else set()
            if stands is None:
                unset.append(copy_place)
                missed[topic, number] = len(to_read)
                continue
            read = copy.rest(stands) if copy is not None else set()
            missed[topic, number] = len(to_read - read)
            done = set(log.values) - to_read if log is not None else set()
            again[topic, number] = len(read & done)
        current = all(self._is_current(place) for place in here)
        subscribed = {topic for topic, _ in here}
        uncommitted = 0
        for (topic, number), log in self._source.logs.items():
            if topic in subscribed and (topic, number) not in here:
                copy = self._target.logs.get((self._copy_of(topic), number))
                uncommitted += len(set(log.values) - set(copy.values if copy is not None else ()))
        return GroupTruth(dict(here), dict(there), missed, again, unset, uncommitted, current)

    def _is_current(self, place: Place) -> bool:
        log, copy = self._source.logs.get(place), self._target.logs.get((self._copy_of(place[0]), place[1]))
        if log is None or not log.values:
            return True
        return copy is not None and max(log.values, key=log.values.__getitem__) in copy.values
