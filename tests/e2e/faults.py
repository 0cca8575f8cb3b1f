"""What tests of faults share: groups that go on committing, eyes on what must hold throughout, and the faults."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
from confluent_kafka import Consumer, KafkaException, TopicPartition

from bridge.local import NO_AUTHORITIES, Broker, Cluster, ConnectWorker
from tests.e2e.flow import SHIFT, Flow
from tests.support import eventually
from tests.support.background import in_background
from tests.support.waits import WAIT

PARTITIONS = 2
RECORDS = 20_000


class Member:
    """Commits and reads a group's offsets without joining it. By a consumer: librdkafka's admin client aborts the
    whole process when the broker dies that it waits for (confluentinc/librdkafka#4605)."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, "log_level": 0}
        )

    def commit(self, offset: int) -> None:
        places = [TopicPartition(place.topic, place.partition, offset) for place in self._places]
        for done in self._consumer.commit(offsets=places, asynchronous=False):
            if done.error is not None:
                raise KafkaException(done.error)

    def committed(self) -> list[int]:
        """By partition; -1 for none."""
        result = self._consumer.committed(self._places, timeout=5.0)
        for place in result:
            if place.error is not None:
                raise KafkaException(place.error)
        return [max(place.offset, -1) for place in result]

    def close(self) -> None:
        self._consumer.close()


class Committers:
    """Threads apart from the test's: one commits on the source, steadily, wherever that is possible."""

    def __init__(self, flow: Flow, topic: str, groups: list[str]) -> None:
        self._ground, self._topic, self._groups = flow, topic, groups
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._tried = dict.fromkeys(groups, 0)
        self._done = dict.fromkeys(groups, 0)
        self._members = {group: Member(flow.source.bootstrap, group, topic) for group in groups}
        self._thread = threading.Thread(target=self._run, name="committers")

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self.end()
            for member in self._members.values():
                member.close()

    def end(self) -> None:
        self._ended.set()
        self._thread.join(60)

    def tried(self, group: str) -> int:
        """What the group may have committed at most."""
        with self._lock:
            return self._tried[group]

    def done(self) -> dict[str, int]:
        """What every group has committed for sure."""
        with self._lock:
            return dict(self._done)

    def _run(self) -> None:
        offset = 10
        while not self._ended.is_set():
            offset += 7
            for group, member in self._members.items():
                with self._lock:
                    self._tried[group] = offset
                with suppress(KafkaException):  # the source may be gone: then nothing was committed
                    member.commit(offset)
                    with self._lock:
                        self._done[group] = offset
            self._ended.wait(0.2)


class Watch:
    """Looks at everything that must hold throughout; what did not is in `wrong`."""

    def __init__(
        self, flow: Flow, names: Sequence[str], committers: Committers, watched: Mapping[str, Member]
    ) -> None:
        self._ground, self._names, self._committers, self._watched = flow, names, committers, watched
        self.wrong: list[str] = []
        self.statuses = 0
        self.readings = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        with in_background(self._statuses, "statuses"), in_background(self._offsets, "offsets"):
            yield

    def _statuses(self, end: threading.Event) -> None:
        while not end.wait(0.2):
            for name in self._names:
                self._status(f"{self._ground.worker.url}/connectors/{name}/status")

    def _status(self, url: str) -> None:
        with suppress(httpx.HTTPError):  # the worker is gone at times
            answer = httpx.get(url, timeout=5.0, verify=NO_AUTHORITIES)
            if answer.status_code == httpx.codes.OK:  # else it is starting, and knows nothing yet
                status = answer.json()
                parts = (status["connector"], *status["tasks"])
                self.wrong += [f"{part}" for part in parts if part["state"] == "FAILED"]
                self.statuses += 1

    def _offsets(self, end: threading.Event) -> None:
        seen = {group: [-1] * PARTITIONS for group in self._watched}
        while not end.wait(0.05):
            for group, member in self._watched.items():
                try:
                    now = member.committed()
                except KafkaException:  # the target is gone at times
                    continue
                most = self._committers.tried(group) + SHIFT
                if any(later < before for later, before in zip(now, seen[group], strict=True)):
                    self.wrong.append(f"{group} moved back from {seen[group]} to {now}")
                if max(now) > most:
                    self.wrong.append(f"{group} is at {now}, past {most}")
                seen[group] = now
                self.readings += 1


def bounce(broker: Cluster) -> None:
    assert isinstance(broker, Broker)
    broker.kill()
    let_pass(5.0)
    broker.start()


def let_pass(seconds: float) -> None:
    """The length of the fault is part of the test."""
    threading.Event().wait(seconds)


def no_traceback(log: Path) -> None:
    text = log.read_text()
    assert "Traceback" not in text, text[text.index("Traceback") :][:3000]


Task = tuple[str, int]
"""A connector's name, and the number of its task."""


def _homes(worker: ConnectWorker, names: Sequence[str]) -> dict[Task, str]:
    """Which worker every running task runs on."""
    return {
        (name, task["id"]): task["worker_id"]
        for name in names
        for task in worker.rest.status(name)["tasks"]
        if task["state"] == "RUNNING"
    }


def spread_over(worker: ConnectWorker, names: Sequence[str], workers: int, tasks: int = 4) -> dict[Task, str]:
    """Once all tasks of these connectors (`tasks` of each) run on so many workers: where. A connector's own tasks may
    all be on one: Connect counts tasks, whosever they are."""

    def spread() -> dict[Task, str]:
        homes = _homes(worker, names)
        assert len(homes) == tasks * len(names), homes
        assert len(set(homes.values())) == workers, homes
        return homes

    return eventually(spread, WAIT, what=f"{', '.join(names)} run on {workers} workers")


def lines_of(worker: ConnectWorker, *words: str) -> list[str]:
    """Lines of the worker's log with all these words; raises when there is none."""
    lines = worker.process.log.read_text().splitlines()
    result = [line for line in lines if all(word in line for word in words)]
    assert result, f"no line of the log of {worker.name} says {words}"
    return result
