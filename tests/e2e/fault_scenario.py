"""What tests of faults run: groups of a group-offset connector and of a checkpoint connector that go on
committing, heartbeats, and what arrives of all that on the target."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer
from confluent_kafka import TopicPartition as Place

from bridge.local import ConnectWorker, LocalStack
from bridge.mm2.records import Checkpoint, Heartbeat, OffsetSync
from bridge.model.values import TopicPartition
from tests.e2e.control import checkpoints_topic, our_control, syncs_topic
from tests.e2e.faults import PARTITIONS, RECORDS, Committers, Member, Watch
from tests.e2e.flow import SHIFT, Flow, stays
from tests.support import Record, admin, connector, create_topic, eventually, produce, unique
from tests.support.background import in_background
from tests.support.waits import WAIT

INTERVAL = 3
"""Of checkpoints and of group sync, in seconds; heartbeats come every second."""
_GROUPS = 4
"""Of each connector."""


class Arrivals:
    """What arrives in the checkpoints topic and in heartbeats, read by a consumer that outlives its broker."""

    def __init__(self, flow: Flow, committers: Committers) -> None:
        self._committers = committers
        self._checkpoints = checkpoints_topic(flow)
        self._consumer = Consumer(
            {
                "bootstrap.servers": flow.target.bootstrap,
                "group.id": unique("arrivals"),
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        self._consumer.assign(
            [Place(self._checkpoints, 0, OFFSET_BEGINNING), Place("heartbeats", 0, OFFSET_END)]
        )
        self.last: dict[tuple[str, int], Checkpoint] = {}
        """By group and partition."""
        self.last_beat = 0
        """Milliseconds since the epoch."""
        self.back = 0
        """Checkpoints that were older than the one before them."""
        self.wrong: list[str] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        with closing(self._consumer), in_background(self._run, "arrivals"):
            yield

    def _run(self, end: threading.Event) -> None:
        while not end.is_set():
            message = self._consumer.poll(0.1)
            if message is None or message.error() is not None:  # the broker is gone at times
                continue
            if message.topic() == self._checkpoints:
                self._checkpoint(Checkpoint.decode(message.key(), message.value()))
            else:
                self.last_beat = Heartbeat.decode(message.key(), message.value()).timestamp

    def _checkpoint(self, checkpoint: Checkpoint) -> None:
        if checkpoint.group not in self._committers.done():  # of another test
            return
        place = (checkpoint.group, checkpoint.topic_partition.partition)
        before = self.last.get(place)
        self.back += before is not None and checkpoint.upstream_offset < before.upstream_offset
        self.last[place] = checkpoint
        if checkpoint.downstream_offset != checkpoint.upstream_offset + SHIFT:
            self.wrong.append(f"{checkpoint} is not exact")
        if checkpoint.upstream_offset > self._committers.tried(checkpoint.group):
            self.wrong.append(f"{checkpoint} was never committed")


@dataclass(frozen=True)
class Running:
    """The connectors at work, with everything that looks at them."""

    flow: Flow
    offsets: str
    checkpoints: str
    heartbeats: str
    checkpointed: Collection[str]
    """Groups that have checkpoints."""
    committers: Committers
    there: Mapping[str, Member]
    arrivals: Arrivals
    watch: Watch

    @property
    def names(self) -> tuple[str, str, str]:
        return self.offsets, self.checkpoints, self.heartbeats

    @property
    def grouped(self) -> tuple[str, str]:
        """The connectors whose tasks have groups."""
        return self.offsets, self.checkpoints

    def current(self, what: str, timeout: float = 120.0) -> float:
        """Seconds until offsets and checkpoints stand at or past what the groups had committed when we began, and there
        is a heartbeat of after that."""
        began, began_ms = time.monotonic(), time.time() * 1000
        expected = self.committers.done()

        def caught_up() -> None:
            for group, offset in expected.items():
                stands = self.there[group].committed()
                assert min(stands) >= offset + SHIFT, f"{group} stands at {stands}, committed {offset}"
                for partition in range(PARTITIONS) if group in self.checkpointed else ():
                    last = self.arrivals.last.get((group, partition))
                    assert last is not None, f"no checkpoint of {group}"
                    assert last.upstream_offset >= offset, f"{last}, committed {offset}"
            assert self.arrivals.last_beat > began_ms, "no heartbeat since"

        eventually(caught_up, timeout, what=f"all is current {what}", watched=self.flow.watched)
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
            if group in self.checkpointed and any(
                self.arrivals.last[group, at].upstream_offset != offset for at in range(PARTITIONS)
            ):
                return False
        return True

    def settle(self) -> None:
        """Ends the commits; then all becomes exact, and stays so."""
        self.committers.end()
        self.current("at last")
        eventually(self.exact, WAIT, what="all is exact", watched=self.flow.watched)
        stays(self.exact, 2.0, what="exact")
        self.sound("at last")
        for name in self.names:
            status = self.flow.service.status(name)
            assert (status["state"], status["errors"], status["failure"]) == ("running", [], None)
            assert {task["state"] for task in status["tasks"]} == {"active"}


@dataclass(frozen=True)
class FaultScenario:
    """A stack of this module's own: everything in it may be killed."""

    stack: LocalStack
    flow: Flow
    topic: str

    def second(self) -> ConnectWorker:
        """Another worker of the same group."""
        return self.stack.worker("second", group_id=self.flow.worker.group_id)

    @contextmanager
    def running(self, tasks: int) -> Iterator[Running]:
        flow, mark = self.flow, unique("fault")
        synced, checkpointed = ([f"{mark}-{kind}-{number}" for number in range(_GROUPS)] for kind in "ab")
        groups = [*synced, *checkpointed]
        committers = Committers(flow, self.topic, groups)
        there = {group: Member(flow.target.bootstrap, group, flow.remote(self.topic)) for group in groups}
        offsets = flow.config(f"{mark}-a-.*", tasks_max=tasks, sync_group_offsets_interval_seconds=INTERVAL)
        checkpoint = our_control(
            "Checkpoint",
            flow,
            groups=f"{mark}-b-.*",
            tasks_max=tasks,
            emit_checkpoints_interval_seconds=INTERVAL,
            sync_group_offsets_interval_seconds=INTERVAL,
            sync_group_offsets_enabled="true",
        )
        heartbeat = our_control("Heartbeat", flow, emit_heartbeats_interval_seconds=1)
        names = (unique("offsets"), unique("checkpoints"), unique("heart"))
        with (
            connector(flow.worker, offsets, names[0]),
            connector(flow.worker, checkpoint, names[1]),
            connector(flow.worker, heartbeat, names[2]),
            committers.running(),
        ):
            eventually(
                lambda: (
                    {checkpoints_topic(flow), "heartbeats"}
                    <= set(admin(flow.target.bootstrap).list_topics(timeout=10).topics)
                ),
                WAIT,
                what="internal topics",
                watched=flow.watched,
            )
            arrivals, watch = Arrivals(flow, committers), Watch(flow, names, committers, there)
            with arrivals.running(), watch.running():
                result = Running(flow, *names, checkpointed, committers, there, arrivals, watch)
                result.current("at first")
                yield result
        for member in there.values():
            member.close()


def give_syncs(flow: Flow, topic: str) -> None:
    """As many as stock's source connector writes by default; it is not here, so that nothing else can go wrong."""
    syncs = [
        OffsetSync(TopicPartition(topic, partition), at, at + SHIFT)
        for at in range(0, RECORDS, 101)
        for partition in range(PARTITIONS)
    ]
    name = create_topic(flow.source.bootstrap, syncs_topic(flow), configs={"cleanup.policy": "compact"})
    produce(flow.source.bootstrap, name, [Record(each.value(), key=each.key()) for each in syncs])
