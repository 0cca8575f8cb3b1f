"""The checkpoint connector over clusters in memory, with a Connect that writes what it is given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from bridge.mm2.records import Checkpoint, OffsetSync
from bridge.model.values import Committed, TopicPartition
from connectors.base import Assignment, CheckedOnOpen, EmittedRecord
from connectors.checkpoint.options import CheckpointOptions
from connectors.checkpoint.task import CheckpointInstance
from tests.unit.connectors.fake_clusters import FakeCluster, FakeClusters, Log, Row, mirrored
from tests.unit.connectors.run_instance import ALONE, Published, Watching, play

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


class CheckpointHarness(Watching):
    """An instance that runs for the time of `play`; both intervals are a few hundredths of a second unless given."""

    published: Connected
    more = 3
    """One has then begun after now, and was acted on."""

    def __init__(
        self,
        source: FakeCluster,
        target: FakeCluster,
        given: Mapping[str, str] | None = None,
        *,
        emit_interval: float = 0.02,
        sync_interval: float = 0.02,
        **more: str,
    ) -> None:
        self.source, self.target = source, target
        self.clusters = FakeClusters(source, target)
        self.published = Connected(target)
        settings = {name.replace("_", "."): value for name, value in {**(given or {}), **more}.items()}
        chosen = CheckpointOptions.from_props(PROPS | settings, CheckedOnOpen())
        self.options = replace(
            chosen, emit_interval=emit_interval, sync_interval=sync_interval, refresh_groups_interval=0.02
        )

    def play(self, script: Script, assignment: Assignment = ALONE) -> Connected:
        play(
            lambda: CheckpointInstance("c", self.options, self.clusters, {}, self.published),
            script,
            assignment,
        )
        return self.published

    def play_rounds(self, count: int = 3) -> Connected:
        async def script(_: CheckpointInstance) -> None:
            await self.rounds(count)

        return self.play(script)


def put(cluster: FakeCluster, topic: str, key: bytes | None, value: bytes | None, timestamp: int = 0) -> None:
    """A record into partition 0 of a topic, which is made where there is none."""
    if topic not in cluster.ids:
        cluster.compacted(topic)
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


def committed_at(offset: int | Committed, group: str = "g") -> tuple[FakeCluster, FakeCluster]:
    """Both clusters, with one group that has committed this offset of `orders`."""
    source, target = mirrored()
    source.topic(SYNCS, Log())
    source.group(group, {("orders", 0): offset})
    return source, target
