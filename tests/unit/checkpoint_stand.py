"""The checkpoint connector over clusters in memory, with a Connect that writes what it is given."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from bridge.translation.mm2_records import Checkpoint, OffsetSync
from bridge.translation.model import TopicPartition
from connectors.base import Assignment, CheckedOnOpen, EmittedRecord, Summary
from connectors.checkpoint.options import CheckpointOptions
from connectors.checkpoint.task import CheckpointInstance
from tests.unit.fake_clusters import FakeCluster, FakeClusters, Log, Row
from tests.unit.test_task_instance import ALONE, Published

TOPIC, SYNCS = "A.checkpoints.internal", "mm2-offset-syncs.B.internal"
PROPS = {
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "a:1",
    "target.cluster.bootstrap.servers": "b:1",
}
Script = Callable[[CheckpointInstance], Awaitable[None]]


class Connected(Published):
    """Writes records into the topics of the target at once, or, while it is held up, when it goes on."""

    def __init__(self, target: FakeCluster) -> None:
        super().__init__()
        self._target = target
        self._waiting: list[EmittedRecord] = []
        self.held_up = False
        self.emitted: list[EmittedRecord] = []

    def records(self, records: Sequence[EmittedRecord]) -> None:
        self.emitted += records
        self._waiting += records
        if not self.held_up:
            self.go_on()

    def go_on(self) -> None:
        self.held_up = False
        for record in self._waiting:
            put(self._target, record.topic, record.key, record.value, record.timestamp)
        self._waiting = []

    @property
    def checkpoints(self) -> list[Checkpoint]:
        return [Checkpoint.decode(record.key, record.value) for record in self.emitted]

    @property
    def offsets(self) -> list[tuple[int, int]]:
        """Upstream and downstream, as emitted."""
        return [(each.upstream_offset, each.downstream_offset) for each in self.checkpoints]


class CheckpointStand:
    """An instance that runs for the time of `play`; both intervals are a few hundredths of a second unless given."""

    def __init__(
        self,
        source: FakeCluster,
        target: FakeCluster,
        *,
        emit_interval: float = 0.02,
        sync_interval: float = 0.02,
        **given: str,
    ) -> None:
        self.source, self.target = source, target
        self.clusters = FakeClusters(source, target)
        self.published = Connected(target)
        settings = {name.replace("_", "."): value for name, value in given.items()}
        chosen = CheckpointOptions.from_props(PROPS | settings, CheckedOnOpen())
        self.options = replace(
            chosen, emit_interval=emit_interval, sync_interval=sync_interval, refresh_groups_interval=0.02
        )

    def play(self, script: Script, assignment: Assignment = ALONE) -> Connected:
        async def go() -> None:
            instance = CheckpointInstance("c", self.options, self.clusters, {}, self.published)
            instance.assign(assignment)
            running = asyncio.create_task(instance.run())
            try:
                await asyncio.wait_for(script(instance), 10)
                assert not running.done(), running.exception()
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
                await instance.close()

        asyncio.run(go())
        return self.published

    def play_rounds(self, count: int = 3) -> Connected:
        async def script(_: CheckpointInstance) -> None:
            await self.rounds(count)

        return self.play(script)

    async def rounds(self, more: int = 3) -> Summary:
        """Waits for `more` rounds to end well; with three, one has begun after now and was acted on."""
        before = self.published.summaries[-1].rounds if self.published.summaries else 0
        return await self._until(lambda: self.published.summaries[-1].rounds >= before + more)

    async def summaries(self, more: int) -> Summary:
        """Waits for `more` rounds to end, well or not."""
        goal = len(self.published.summaries) + more
        return await self._until(lambda: len(self.published.summaries) >= goal)

    async def _until(self, done: Callable[[], bool]) -> Summary:
        while not self.published.summaries or not done():
            self.published.more.clear()
            await self.published.more.wait()
        return self.published.summaries[-1]


def put(cluster: FakeCluster, topic: str, key: bytes | None, value: bytes | None, timestamp: int = 0) -> None:
    """A record into partition 0 of a topic, which is made where there is none."""
    if topic not in cluster.ids:
        cluster.topic(topic, Log())
    log = cluster.logs[TopicPartition(topic, 0)]
    log.rows.append(Row(log.end, timestamp, key, value))
    log.end += 1


def put_checkpoint(target: FakeCluster, group: str, upstream: int, downstream: int) -> None:
    """A checkpoint that somebody wrote for `A.orders`."""
    checkpoint = Checkpoint(group, TopicPartition("A.orders", 0), upstream, downstream, "")
    put(target, TOPIC, checkpoint.key(), checkpoint.value())


def put_sync(cluster: FakeCluster, upstream: int, downstream: int, topic: str = "orders") -> None:
    sync = OffsetSync(TopicPartition(topic, 0), upstream, downstream)
    put(cluster, SYNCS, sync.key(), sync.value())
