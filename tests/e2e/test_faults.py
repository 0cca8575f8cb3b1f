"""Killed with SIGKILL, one after the other, while groups go on committing: service, worker, source, target.

Throughout: no task FAILED, no target offset moves back, none goes past what its group has committed. After each fault
every group is current again within two intervals of the thing being back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from bridge.local import Broker, LocalStack
from tests.e2e.ground import SHIFT, Ground
from tests.support import connector, eventually, unique

INTERVAL = 3
GROUPS = 6
PARTITIONS = 2
RECORDS = 20_000
AWAY_SECONDS = 30.0
"""How long the service is gone; the other things are as long away as their restart takes, and a little more."""


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
        found = self._consumer.committed(self._places, timeout=2.0)
        for place in found:
            if place.error is not None:
                raise KafkaException(place.error)
        return [max(place.offset, -1) for place in found]

    def close(self) -> None:
        self._consumer.close()


class Committers:
    """Threads apart from the test's: one commits on the source, steadily, wherever that is possible."""

    def __init__(self, ground: Ground, topic: str, groups: list[str]) -> None:
        self._ground, self._topic, self._groups = ground, topic, groups
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._tried = dict.fromkeys(groups, 0)
        self._done = dict.fromkeys(groups, 0)
        self._members = {group: Member(ground.source.bootstrap, group, topic) for group in groups}
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
        self, ground: Ground, name: str, committers: Committers, watched: Mapping[str, Member]
    ) -> None:
        self._ground, self._name, self._committers, self._watched = ground, name, committers, watched
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=run) for run in (self._statuses, self._offsets)]
        self.wrong: list[str] = []
        self.statuses = 0
        self.readings = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._ended.set()
            for thread in self._threads:
                thread.join(60)

    def _statuses(self) -> None:
        url = f"{self._ground.worker.url}/connectors/{self._name}/status"
        while not self._ended.wait(0.2):
            with suppress(httpx.HTTPError):  # the worker is gone at times
                answer = httpx.get(url, timeout=5.0)
                if answer.status_code != httpx.codes.OK:  # it is starting, and knows nothing yet
                    continue
                status = answer.json()
                parts = (status["connector"], *status["tasks"])
                self.wrong += [f"{part}" for part in parts if part["state"] == "FAILED"]
                self.statuses += 1

    def _offsets(self) -> None:
        seen = {group: [-1] * PARTITIONS for group in self._watched}
        while not self._ended.wait(0.05):
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


def _kill_service(ground: Ground, _: LocalStack) -> None:
    ground.process.kill()
    _pass(AWAY_SECONDS)
    ground.process.start()


def _kill_worker(ground: Ground, _: LocalStack) -> None:
    ground.worker.kill()
    ground.worker.start()
    # Its tasks start when the group has noticed that the dead member does not come back.
    ground.worker.rest.wait_running(next(iter(ground.worker.rest.connectors())), tasks=2)


def _kill_source(ground: Ground, _: LocalStack) -> None:
    _bounce(ground.source)


def _kill_target(ground: Ground, _: LocalStack) -> None:
    _bounce(ground.target)


def _bounce(broker: object) -> None:
    assert isinstance(broker, Broker)
    broker.kill()
    _pass(5.0)
    broker.start()


def _pass(seconds: float) -> None:
    """The length of the fault is part of the test."""
    threading.Event().wait(seconds)


FAULTS: dict[str, Callable[[Ground, LocalStack], None]] = {
    "service": _kill_service,
    "worker": _kill_worker,
    "source": _kill_source,
    "target": _kill_target,
}


@pytest.mark.timeout(420)
def test_every_fault_heals_within_two_intervals(
    new_stack: Callable[..., LocalStack],
    record_property: Callable[[str, object], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    stack = new_stack()
    stack.start_clusters()
    ground = Ground(stack.source, stack.target, stack.worker(), stack.service())
    topic = ground.topic(RECORDS, partitions=PARTITIONS)
    mark = unique("fault")
    groups = [f"{mark}-{number}" for number in range(GROUPS)]
    config = ground.config(f"{mark}-.*", tasks_max=2, sync_group_offsets_interval_seconds=INTERVAL)
    committers = Committers(ground, topic, groups)
    healed: dict[str, float] = {}
    with connector(ground.worker, config, mark) as name, committers.running():
        there = {group: Member(ground.target.bootstrap, group, ground.remote(topic)) for group in groups}
        watch = Watch(ground, name, committers, there)
        with watch.running():
            _current(ground, there, committers, 30.0, "at first")
            for what, fault in FAULTS.items():
                fault(ground, stack)
                healed[what] = _current(ground, there, committers, 60.0, f"after the {what} is back")
                assert not watch.wrong, f"{what}: {watch.wrong[:5]}"
            status = ground.service.status(name)
            assert (status["state"], status["errors"], status["failure"]) == ("running", [], None)
            assert [task["state"] for task in status["tasks"]] == ["active", "active"]
            committers.end()
            _current(ground, there, committers, 30.0, "at last")
            last = {group: [offset + SHIFT] * PARTITIONS for group, offset in committers.done().items()}
            assert {group: there[group].committed() for group in groups} == last
        assert not watch.wrong, watch.wrong[:5]
        assert watch.statuses > 100
        assert watch.readings > 1000
    for what, seconds in healed.items():
        record_property(f"seconds until current after {what}", round(seconds, 2))
    with capsys.disabled():
        told = ", ".join(f"{what} {seconds:.1f} s" for what, seconds in healed.items())
        print(f"\nevery group current again after: {told} (interval {INTERVAL} s)")
    late = {what: seconds for what, seconds in healed.items() if seconds > 2 * INTERVAL}
    assert not late, f"current again, but not within two intervals of {INTERVAL} s: {late}"
    _no_traceback(ground.process.process.log)


def _current(
    ground: Ground, there: Mapping[str, Member], committers: Committers, timeout: float, what: str
) -> float:
    """Seconds until every group stands at or past what it had committed when we began."""
    began = time.monotonic()
    expected = committers.done()

    def caught_up() -> None:
        for group, offset in expected.items():
            stands = there[group].committed()
            assert min(stands) >= offset + SHIFT, (
                f"{group} stands at {stands}, committed {offset}; {ground.service.health()}"
            )

    eventually(caught_up, timeout, what=f"every group is current {what}", watched=ground.watched)
    return time.monotonic() - began


def _no_traceback(log: Path) -> None:
    text = log.read_text()
    assert "Traceback" not in text, text[text.index("Traceback") :][:3000]
