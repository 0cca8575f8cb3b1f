"""Faults while groups commit and checkpoints are on their way: killed, hung, moved to another worker, fenced.

Throughout: no task FAILED, no group offset on the target moves back, none goes past what its group has committed, and
every checkpoint that anybody ever reads is exact. After each fault every checkpoint in the topic, every group and the
heartbeats are current again within two intervals of the thing being back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer
from confluent_kafka import TopicPartition as Place

from bridge.local import Broker, Cluster, ConnectWorker, LocalStack
from bridge.translation.mm2_records import Checkpoint, Heartbeat, OffsetSync
from bridge.translation.model import TopicPartition
from tests.e2e.control import checkpoints_topic, our_control, syncs_topic
from tests.e2e.faults import (
    MOVE_SECONDS,
    PARTITIONS,
    RECORDS,
    Committers,
    Member,
    Watch,
    bounce,
    let_pass,
    lines_of,
    no_traceback,
    spread_over,
)
from tests.e2e.ground import SHIFT, WAIT, Ground, stays
from tests.support import Record, admin, connector, create_topic, eventually, produce, unique

INTERVAL = 3
"""Of checkpoints and of group sync; heartbeats come every second."""
GROUPS = 6
AWAY_SECONDS = 10.0
"""How long the service is gone, and how long something hangs: past the lease and the worker's session timeout."""


class Arrivals:
    """What arrives in the checkpoints topic and in heartbeats, read by a consumer that outlives its broker."""

    def __init__(self, ground: Ground, committers: Committers) -> None:
        self._committers = committers
        self._checkpoints = checkpoints_topic(ground)
        self._consumer = Consumer(
            {
                "bootstrap.servers": ground.target.bootstrap,
                "group.id": unique("arrivals"),
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        self._consumer.assign(
            [Place(self._checkpoints, 0, OFFSET_BEGINNING), Place("heartbeats", 0, OFFSET_END)]
        )
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="arrivals")
        self.last: dict[tuple[str, int], Checkpoint] = {}
        """By group and partition."""
        self.last_beat = 0
        """Milliseconds since the epoch."""
        self.back = 0
        """Checkpoints that were older than the one before them."""
        self.wrong: list[str] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._ended.set()
            self._thread.join(60)
            self._consumer.close()

    def _run(self) -> None:
        while not self._ended.is_set():
            message = self._consumer.poll(0.1)
            if message is None or message.error() is not None:  # the broker is gone at times
                continue
            if message.topic() == self._checkpoints:
                self._checkpoint(Checkpoint.decode(message.key(), message.value()))
            else:
                self.last_beat = Heartbeat.decode(message.key(), message.value()).timestamp

    def _checkpoint(self, found: Checkpoint) -> None:
        if found.group not in self._committers.done():  # of another test
            return
        place = (found.group, found.topic_partition.partition)
        before = self.last.get(place)
        self.back += before is not None and found.upstream_offset < before.upstream_offset
        self.last[place] = found
        if found.downstream_offset != found.upstream_offset + SHIFT:
            self.wrong.append(f"{found} is not exact")
        if found.upstream_offset > self._committers.tried(found.group):
            self.wrong.append(f"{found} was never committed")


@dataclass(frozen=True)
class Running:
    """Both connectors at work, with everything that looks at them."""

    ground: Ground
    names: tuple[str, str]
    committers: Committers
    there: Mapping[str, Member]
    arrivals: Arrivals
    watch: Watch

    def current(self, what: str, timeout: float = 60.0) -> float:
        """Seconds until offsets and checkpoints stand at or past what the groups had committed when we began, and there
        is a heartbeat of after that."""
        began, began_ms = time.monotonic(), time.time() * 1000
        expected = self.committers.done()

        def caught_up() -> None:
            for group, offset in expected.items():
                stands = self.there[group].committed()
                assert min(stands) >= offset + SHIFT, f"{group} stands at {stands}, committed {offset}"
                for partition in range(PARTITIONS):
                    last = self.arrivals.last.get((group, partition))
                    assert last is not None, f"no checkpoint of {group}"
                    assert last.upstream_offset >= offset, f"{last}, committed {offset}"
            assert self.arrivals.last_beat > began_ms, "no heartbeat since"

        eventually(caught_up, timeout, what=f"all is current {what}", watched=self.ground.watched)
        took = time.monotonic() - began
        self.sound(what)
        return took

    def sound(self, what: str) -> None:
        assert not self.watch.wrong, f"{what}: {self.watch.wrong[:5]}"
        assert not self.arrivals.wrong, f"{what}: {self.arrivals.wrong[:5]}"

    def exact(self) -> bool:
        """With nobody committing any more: all stand at their last offset."""
        for group, offset in self.committers.done().items():
            if self.there[group].committed() != [offset + SHIFT] * PARTITIONS:
                return False
            if any(self.arrivals.last[group, at].upstream_offset != offset for at in range(PARTITIONS)):
                return False
        return True

    def settle(self) -> None:
        """Ends the commits; then all becomes exact, and stays so."""
        self.committers.end()
        self.current("at last")
        eventually(self.exact, WAIT, what="all is exact", watched=self.ground.watched)
        stays(self.exact, 2.0, what="exact")
        self.sound("at last")
        for name in self.names:
            status = self.ground.service.status(name)
            assert (status["state"], status["errors"], status["failure"]) == ("running", [], None)
            assert {task["state"] for task in status["tasks"]} == {"active"}


@dataclass(frozen=True)
class Stand:
    """A stack of this module's own: everything in it may be killed."""

    stack: LocalStack
    ground: Ground
    topic: str

    def second(self) -> ConnectWorker:
        """Another worker of the same group."""
        return self.stack.worker("second", group_id=self.ground.worker.group_id)

    @contextmanager
    def running(self, tasks: int) -> Iterator[Running]:
        ground, mark = self.ground, unique("fault")
        groups = [f"{mark}-{number}" for number in range(GROUPS)]
        committers = Committers(ground, self.topic, groups)
        there = {group: Member(ground.target.bootstrap, group, ground.remote(self.topic)) for group in groups}
        names = (unique("checkpoints"), unique("heart"))
        intervals = {
            "emit_checkpoints_interval_seconds": INTERVAL,
            "sync_group_offsets_interval_seconds": INTERVAL,
            "sync_group_offsets_enabled": "true",
        }
        checkpoint = our_control("Checkpoint", ground, groups=f"{mark}-.*", tasks_max=tasks, **intervals)
        heartbeat = our_control("Heartbeat", ground, emit_heartbeats_interval_seconds=1)
        with (
            connector(ground.worker, checkpoint, names[0]),
            connector(ground.worker, heartbeat, names[1]),
            committers.running(),
        ):
            eventually(
                lambda: (
                    {checkpoints_topic(ground), "heartbeats"}
                    <= set(admin(ground.target.bootstrap).list_topics(timeout=10).topics)
                ),
                WAIT,
                what="internal topics",
                watched=ground.watched,
            )
            arrivals, watch = Arrivals(ground, committers), Watch(ground, names, committers, there)
            with arrivals.running(), watch.running():
                found = Running(ground, names, committers, there, arrivals, watch)
                found.current("at first")
                yield found
        for member in there.values():
            member.close()


@pytest.fixture(scope="module")
def stand(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    if request.config.getoption("--kafka-source") or request.config.getoption("--kafka") == "testcontainers":
        pytest.skip("kills brokers, so it needs brokers from jars")
    with LocalStack(tmp_path_factory.mktemp("faults")) as stack:
        stack.start_clusters()
        worker = stack.worker("first", group_id=unique("faults"))
        ground = Ground(stack.source, stack.target, worker, stack.service())
        topic = ground.topic(RECORDS, partitions=PARTITIONS)
        _give_syncs(ground, topic)
        yield Stand(stack, ground, topic)


def _give_syncs(ground: Ground, topic: str) -> None:
    """As many as stock's source connector writes by default; it is not here, so that nothing else can go wrong."""
    syncs = [
        OffsetSync(TopicPartition(topic, partition), at, at + SHIFT)
        for at in range(0, RECORDS, 101)
        for partition in range(PARTITIONS)
    ]
    name = create_topic(ground.source.bootstrap, syncs_topic(ground), configs={"cleanup.policy": "compact"})
    produce(ground.source.bootstrap, name, [Record(each.value(), key=each.key()) for each in syncs])


# -- one thing after the other -----------------------------------------------------------------------------------------


def _kill_service(running: Running) -> None:
    running.ground.process.kill()
    let_pass(AWAY_SECONDS)
    running.ground.process.start()


def _kill_worker(running: Running) -> None:
    running.ground.worker.kill()
    running.ground.worker.start()
    # Its tasks start when the group has noticed that the dead member does not come back.
    for name in running.names:
        running.ground.worker.rest.wait_running(name, tasks=None)


def _hang(broker: Cluster) -> None:
    assert isinstance(broker, Broker)
    broker.process.pause()
    try:
        let_pass(AWAY_SECONDS)
    finally:
        broker.process.resume()


FAULTS: dict[str, Callable[[Running], None]] = {
    "kill of the service": _kill_service,
    "kill of the worker": _kill_worker,
    "kill of the source": lambda running: bounce(running.ground.source),
    "kill of the target": lambda running: bounce(running.ground.target),
    "hang of the source": lambda running: _hang(running.ground.source),
    "hang of the target": lambda running: _hang(running.ground.target),
}


@pytest.mark.timeout(420)
def test_after_every_fault_all_is_current_within_two_intervals(
    stand: Stand, record_property: Callable[[str, object], None], capsys: pytest.CaptureFixture[str]
) -> None:
    healed: dict[str, float] = {}
    with stand.running(tasks=2) as running:
        for what, fault in FAULTS.items():
            fault(running)
            healed[what] = running.current(f"after the {what}")
        running.settle()
        assert running.arrivals.back == 0, "one worker writes checkpoints in order, whatever dies"
        assert running.watch.statuses > 100
        assert running.watch.readings > 1000
    for what, seconds in healed.items():
        record_property(f"seconds until current after {what}", round(seconds, 2))
    with capsys.disabled():
        told = ", ".join(f"{what} {seconds:.1f} s" for what, seconds in healed.items())
        print(f"\nall current again after: {told} (interval {INTERVAL} s)")
    late = {what: seconds for what, seconds in healed.items() if seconds > 2 * INTERVAL}
    assert not late, f"current again, but not within two intervals of {INTERVAL} s: {late}"
    no_traceback(stand.ground.process.process.log)


# -- two workers -------------------------------------------------------------------------------------------------------


@pytest.mark.timeout(420)
def test_tasks_that_move_lose_no_checkpoint_and_a_zombie_is_fenced(stand: Stand) -> None:
    """A worker is killed, comes back, and then sleeps past its lease and its session. What it had been given goes to
    the task's new home; what it writes when it wakes up is older, and made good."""
    second, first = stand.second(), stand.ground.worker
    service = stand.ground.service
    with stand.running(tasks=4) as running:
        name = running.names[0]
        spread_over(first, name, 2)
        second.kill()
        spread_over(first, name, 1)
        running.current("after the kill of a worker, by the other one")
        second.start()
        homes = spread_over(first, name, 2)
        running.current("after it came back")

        sleeping = [task for task, home in homes.items() if home == second.url.removeprefix("http://")]
        before = service.sessions(name)
        second.process.pause()
        try:
            eventually(
                lambda: all(service.task_states(name)[task] == "lapsed" for task in sleeping),
                WAIT,
                what="the sleeper's leases have run out",
            )
            spread_over(first, name, 1)
            running.current("while a worker sleeps")
            taken = service.sessions(name)
            assert all(taken[task] > before[task] for task in sleeping)
        finally:
            second.process.resume()
        fenced = "a newer session has taken over"
        eventually(lambda: lines_of(second, name, fenced), WAIT, what="the sleeper says that it is fenced")
        spread_over(first, name, 2)
        running.current("after it woke up")
        running.settle()
        assert not any(service.sessions(name)[task] == before[task] for task in sleeping)


@pytest.mark.timeout(420)
def test_a_worker_stops_in_time_while_the_service_hangs_and_heartbeats_resume(
    stand: Stand, record_property: Callable[[str, object], None]
) -> None:
    second, service = stand.second(), stand.ground.process
    with stand.running(tasks=4) as running:
        spread_over(stand.ground.worker, running.names[0], 2)
        service.process.pause()
        try:
            began = time.monotonic()
            second.stop()
            took = time.monotonic() - began
        finally:
            service.process.resume()
        record_property("seconds to stop a worker while the service hangs", round(took, 2))
        assert second.process.exit_status in (0, 143), "it ended by itself"
        assert took < 8.0, f"the worker took {took:.1f} s to stop"
        eventually(
            lambda: running.ground.service.task_states(running.names[0]) == ["active"] * 4,
            MOVE_SECONDS,
            what="all tasks are served again, by the other worker",
            watched=running.ground.watched,
        )
        running.current("after the service woke up")
        running.settle()
