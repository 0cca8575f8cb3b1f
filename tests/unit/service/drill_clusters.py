"""Two clusters in memory with a mirror between them, and the truth about both at any time."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Awaitable, Callable
from typing import NamedTuple, ParamSpec, TypeVar

from bridge.errors import KafkaFailure, KafkaFault
from bridge.model.copying import Copied
from bridge.model.values import Committed, TailPart, TopicPartition
from bridge.translation.runs.partition_runs import PartitionRuns
from bridge.translation.runs.runs import Segment
from tests.unit.connectors.checkpoint.checkpoint_harness import put
from tests.unit.connectors.fake_clusters import FakeCluster, FakeTail, Log, Row

TOPIC, COPY, RUNS = "orders", "A.orders", "mm2-offset-runs.A.internal"
PARTITIONS = 2
P = ParamSpec("P")
R = TypeVar("R")
_AWAY = KafkaFailure(KafkaFault.UNREACHABLE, "Connection refused")
_ASYNC = [
    "list_groups",
    "committed",
    "group_states",
    "topics",
    "bounds",
    "answer",
    "alter",
    "topic_names",
    "append",
]


class DrillTail(FakeTail):
    """As the cluster: without an answer while that hangs."""

    def __init__(self, cluster: DrillCluster, topic: str) -> None:
        super().__init__(cluster, topic)
        self._request = cluster.answered(super().read)

    async def read(self) -> TailPart:
        return await self._request()


class DrillCluster(FakeCluster):
    """A cluster that may also leave requests without an answer."""

    def __init__(self) -> None:
        super().__init__()
        self._answers = asyncio.Event()
        self._answers.set()
        for name in _ASYNC:
            setattr(self, name, self.answered(getattr(self, name)))

    @property
    def well(self) -> bool:
        return self.away is None and self._answers.is_set()

    def die(self) -> None:
        self.away = _AWAY

    def hang(self) -> None:
        self._answers.clear()

    def come_back(self) -> None:
        self.away = None
        self._answers.set()

    def tail(self, topic: str, *, committed_only: bool = False) -> FakeTail:
        self.isolation.add((topic, committed_only))
        return DrillTail(self, topic)

    def answered(self, call: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
        async def wait(*given: P.args, **named: P.kwargs) -> R:
            await self._answers.wait()
            return await call(*given, **named)

        # A request that was sent is under way, whether its caller lives to await it or not.
        return lambda *given, **named: asyncio.ensure_future(wait(*given, **named))


class Position(NamedTuple):
    """What was committed on the source at a time (virtual seconds)."""

    at: float
    offset: int


class Mirrored:
    """The topic `orders` on A, its copy on B with other offsets, and the groups on both."""

    def __init__(self, *, runs: bool = True) -> None:
        """`runs`: whether the mirror leaves offset runs; stock's leaves none."""
        self.a, self.b, self.runs = DrillCluster(), DrillCluster(), runs
        self.a.topic(TOPIC, *(Log(epoch=1) for _ in range(PARTITIONS)))
        self.committed: dict[tuple[str, int], list[Position]] = {}
        self.ends: dict[int, list[Position]] = {number: [] for number in range(PARTITIONS)}
        """The source's ends, and up to where they are copied, as they were at a time."""
        self.copies: dict[int, list[Position]] = {number: [] for number in range(PARTITIONS)}
        self.deleted_at = -1000.0
        self._made = 0
        self._runs = [PartitionRuns() for _ in range(PARTITIONS)]
        self.make_copy(0.0)

    def make_copy(self, at: float) -> None:
        """Makes the target topic, empty but for control records."""
        self._made += 1
        self.topic_id = f"copy-{self._made}"
        self.b.topic(COPY, *(Log(epoch=1, end=3) for _ in range(PARTITIONS)), topic_id=self.topic_id)
        self.upstream: list[list[tuple[int, int]]] = [[] for _ in range(PARTITIONS)]
        """By partition of the copy: the offset of each record there, and on the source."""
        self._copied = [0] * PARTITIONS
        for number in range(PARTITIONS):
            self.copies[number].append(Position(at, 0))

    def delete_offsets(self, at: float) -> None:
        """Deletes the groups' offsets on the target."""
        self.deleted_at = at
        for offsets in self.b.offsets.values():
            for place in [place for place in offsets if place.topic == COPY]:
                del offsets[place]

    def delete_copy(self, at: float) -> None:
        """Deletes the target topic; Kafka drops the groups' offsets with it."""
        self.delete_offsets(at)
        self.b.ids.pop(COPY, None)
        for number in range(PARTITIONS):
            self.b.logs.pop(TopicPartition(COPY, number), None)

    def produce(self, at: float, partition: int, count: int) -> None:
        log = self.a.logs[TopicPartition(TOPIC, partition)]
        log.append(count, first=log.end)
        self.ends[partition].append(Position(at, log.end))

    def copy(self, at: float, most: int) -> None:
        """Copies up to `most` records of each partition in a transaction, whose marker takes an offset."""
        if COPY not in self.b.ids:
            self.make_copy(at)
        for number in range(PARTITIONS):
            original = self.a.logs[TopicPartition(TOPIC, number)]
            begin, copy = self._copied[number], self.b.logs[TopicPartition(COPY, number)]
            rows = original.rows_from(begin)[:most]
            if not rows:
                continue
            segment = Segment(begin, begin, copy.end, len(rows), last_timestamp=rows[-1].timestamp)
            for row in rows:
                self.upstream[number].append((copy.end, row.offset))
                copy.rows.append(Row(copy.end, row.timestamp, row.key, row.value))
                copy.end += 1
            copy.end += 1
            place = TopicPartition(TOPIC, number)
            copied = Copied(place, f"id-of-{TOPIC}", COPY, self.topic_id)
            for key, value in self._runs[number].commit([segment], segment.upstream_end, copied):
                if self.runs:
                    put(self.b, RUNS, key, value)
            self._copied[number] = segment.upstream_end
            self.copies[number].append(Position(at, segment.upstream_end))

    def waiting_since(self, partition: int) -> float | None:
        """Since when records wait to be copied and none is; None where none waits."""
        copied = self.copies[partition][-1]
        behind = [end.at for end in self.ends[partition] if end.offset > copied.offset]
        return max(behind[0], copied.at) if behind else None

    def commit(self, at: float, group: str, partition: int, offset: int) -> None:
        self.committed.setdefault((group, partition), []).append(Position(at, offset))
        there = {
            (TOPIC, number): places[-1].offset
            for (name, number), places in self.committed.items()
            if name == group
        }
        self.a.group(group, there)

    def resumes_at(self, group: str, partition: int) -> int | None:
        """The source's record at which the group resumes on B; None where it has no offset or there is no copy."""
        place = TopicPartition(COPY, partition)
        standing: Committed | None = self.b.offsets.get(group, {}).get(place)
        if standing is None or place not in self.b.logs:
            return None
        before = bisect_left(self.upstream[partition], (standing.offset,))
        return self.upstream[partition][before - 1][1] + 1 if before else 0


def between(positions: list[Position], since: float, until: float) -> list[int]:
    """The offsets that were valid at some time in between."""
    before = [each.offset for each in positions if each.at <= since][-1:]
    return before + [each.offset for each in positions if since < each.at <= until]
