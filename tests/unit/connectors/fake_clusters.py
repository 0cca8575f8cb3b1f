"""Clusters in memory behind connectors.ports.Cluster: plain logs, groups, trouble on demand, and every call counted."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from bridge.errors import KafkaFailure, KafkaFault
from bridge.model.lookups import LookupResult, Need, Read, Scan, Scanned, Window
from bridge.model.values import (
    Bounds,
    Committed,
    GroupListing,
    GroupState,
    LogRecord,
    Side,
    TailPart,
    TopicInfo,
    TopicPartition,
)
from tests.unit.connectors.fake_topic_admin import FakeTopicAdmin

Answer = LookupResult | KafkaFailure


@dataclass(frozen=True, slots=True)
class Row:
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: object = ()


@dataclass
class Log:
    """One partition. What `rows` lacks below the end are control records."""

    rows: list[Row] = field(default_factory=list)
    start: int = 0
    end: int = 0
    epoch: int = 0

    def rows_from(self, offset: int) -> list[Row]:
        return self.rows[bisect_left(self.rows, offset, key=attrgetter("offset")) :]

    def append(self, count: int, *, first: int = 0, junk: bool = False) -> None:
        """Records `first…`, the same on every cluster; or junk, the same nowhere."""
        for number in range(first, first + count):
            value = b"junk-%d-%d" % (id(self), self.end) if junk else b"value-%d" % number
            self.rows.append(Row(self.end, 1000 + number, b"key", value))
            self.end += 1


class FakeTail:
    """Partition 0 of a topic of a FakeCluster, all that is new at once; the rules of
    bridge.kafka.consumer.topic_tail by topic id and log bounds."""

    def __init__(self, cluster: FakeCluster, topic: str) -> None:
        self.topic = topic
        self._cluster = cluster
        self._id = ""
        self._began = self._next = 0
        self._restarted = False

    async def read(self) -> TailPart:
        self._cluster.called("tail")
        if self.topic in self._cluster.topic_trouble:
            raise self._cluster.topic_trouble[self.topic]
        if self.topic not in self._cluster.ids:
            self._begin_anew("")
            raise KafkaFailure(KafkaFault.UNKNOWN_TOPIC, f"no topic {self.topic}")
        topic_id, log = self._cluster.ids[self.topic], self._cluster.logs[TopicPartition(self.topic, 0)]
        if topic_id != self._id or self._next > log.end or log.start >= self._next > self._began:
            self._begin_anew(topic_id)
        if self._next < log.start:
            self._began = self._next = log.start
        rows = log.rows_from(self._next)
        restarted, self._restarted, self._next = self._restarted, False, log.end
        records = [LogRecord(row.offset, row.timestamp, row.key, row.value) for row in rows]
        return TailPart(records, restarted, at_end=True)

    def _begin_anew(self, topic_id: str) -> None:
        replaced = bool(self._id and topic_id) and topic_id != self._id
        self._restarted = self._restarted or replaced or self._next > self._began
        self._id, self._began, self._next = topic_id, 0, 0


class FakeCluster:
    def __init__(self) -> None:
        self.logs: dict[TopicPartition, Log] = {}
        self.ids: dict[str, str] = {}
        self.own_id = f"cluster-{id(self)}"
        self.append_time: set[str] = set()
        self.stamped: set[str] = set()
        """Topics whose batches say that brokers have overwritten timestamps, before the configs are described."""
        self.compacted_topics: set[str] = set()
        self.listed: dict[str, GroupListing] = {}
        self.offsets: dict[str, dict[TopicPartition, Committed]] = {}
        self.states: dict[str, GroupState] = {}
        """What is answered when a state is asked for; by the listing where not given."""
        self.away: KafkaFailure | None = None
        """Raised by every call."""
        self.group_trouble: dict[str, KafkaFailure] = {}
        self.topic_trouble: dict[str, KafkaFailure] = {}
        self.bounds_trouble: dict[TopicPartition, KafkaFailure] = {}
        self.answer_trouble: dict[TopicPartition, KafkaFailure] = {}
        self.alter_trouble: dict[TopicPartition, KafkaFailure] = {}
        self.before: Callable[[str], None] = lambda _call: None
        """Told of each call before it is answered."""
        self.calls: Counter[str] = Counter()
        self.altered: list[tuple[str, dict[TopicPartition, Committed]]] = []
        self.asked: list[tuple[TopicPartition, Need]] = []
        self.isolation: set[tuple[str, bool]] = set()
        self.create_trouble: dict[str, KafkaFailure] = {}
        self.append_trouble: dict[str, KafkaFailure] = {}
        self.append_ms = 0
        """The time of appended records; 0 for now."""
        self.created: list[tuple[str, int]] = []
        """Names and replication factors of compacted topics that were asked for."""
        self.topic_admin = FakeTopicAdmin(self)

    def topic(self, name: str, *logs: Log, topic_id: str | None = None) -> None:
        self.ids[name] = topic_id or f"id-of-{name}"
        for number, log in enumerate(logs):
            self.logs[TopicPartition(name, number)] = log

    def compacted(self, name: str) -> None:
        """An internal topic, empty, as it has to be."""
        self.topic(name, Log())
        self.topic_admin.overrides[name] = {"cleanup.policy": "compact"}

    def grow(self, name: str, partitions: int) -> None:
        """A topic with as many partitions at least, made if need be."""
        self.ids.setdefault(name, f"id-of-{name}")
        for number in range(partitions):
            self.logs.setdefault(TopicPartition(name, number), Log())

    def group(
        self,
        name: str,
        offsets: Mapping[tuple[str, int], int | Committed],
        state: GroupState = GroupState.EMPTY,
        kind: str = "classic",
        protocol: str = "consumer",
    ) -> None:
        self.listed[name] = GroupListing(name, state, kind, protocol)
        self.offsets[name] = {
            TopicPartition(*place): each if isinstance(each, Committed) else Committed(each)
            for place, each in offsets.items()
        }

    def delete_group(self, name: str) -> None:
        del self.listed[name], self.offsets[name]

    def called(self, call: str) -> None:
        self.calls[call] += 1
        self.before(call)
        if self.away is not None:
            raise self.away

    async def list_groups(self) -> dict[str, GroupListing]:
        self.called("list_groups")
        return dict(self.listed)

    async def committed(
        self, groups: Sequence[str], *, right: str = ""
    ) -> dict[str, Mapping[TopicPartition, Committed] | KafkaFailure]:
        self.called("committed")
        return {group: self.group_trouble.get(group) or dict(self.offsets.get(group, {})) for group in groups}

    async def group_states(self, groups: Sequence[str]) -> dict[str, GroupState]:
        self.called("group_states")
        absent = GroupListing("", GroupState.NOT_FOUND, "classic")
        return {group: self.states.get(group, self.listed.get(group, absent).state) for group in groups}

    async def topics(self, names: Sequence[str], *, right: str = "") -> dict[str, TopicInfo | KafkaFailure]:
        self.called("topics")
        collected: dict[str, TopicInfo | KafkaFailure] = {}
        for name in names:
            partitions = sum(place.topic == name for place in self.logs)
            if name in self.topic_trouble:
                collected[name] = self.topic_trouble[name]
            elif name not in self.ids:
                collected[name] = KafkaFailure(KafkaFault.UNKNOWN_TOPIC, f"no topic {name}")
            else:
                collected[name] = TopicInfo(
                    name,
                    self.ids[name],
                    partitions,
                    name in self.append_time,
                    compacted=name in self.compacted_topics,
                    sets_append_time=name in self.append_time,
                )
        return collected

    async def bounds(
        self, partitions: Sequence[TopicPartition], *, committed_only: bool
    ) -> dict[TopicPartition, Bounds | KafkaFailure]:
        self.called("bounds")
        self.isolation.add(("bounds", committed_only))
        return {
            place: self.bounds_trouble.get(place)
            or Bounds(self.logs[place].start, self.logs[place].end, self.logs[place].epoch)
            for place in partitions
        }

    async def answer(
        self, needs: Mapping[TopicPartition, Sequence[Need]], *, committed_only: bool
    ) -> dict[TopicPartition, dict[Need, Answer]]:
        self.called("answer")
        self.isolation.add(("answer", committed_only))
        self.asked += [(place, need) for place, some in needs.items() for need in some]
        return {place: {need: self._answer(place, need) for need in some} for place, some in needs.items()}

    def _answer(self, place: TopicPartition, need: Need) -> Answer:
        if place in self.answer_trouble:
            return self.answer_trouble[place]
        log = self.logs[place]
        if isinstance(need, Scan):
            here = {row.offset for row in log.rows}
            end = min(log.end, need.offset + need.max_bytes)  # a byte each
            empty = [(at, at + 1) for at in range(max(need.offset, log.start), end) if at not in here]
            return Scanned(need.offset, end, empty, end - need.offset)
        if isinstance(need, Read):
            rows = log.rows_from(max(need.offset, log.start))
            stamped = place.topic in self.stamped
            return Window(need.offset, max(need.offset, log.end), rows, log.epoch, append_time=stamped)
        return next((row.offset for row in log.rows if row.timestamp >= need.timestamp), None)

    def forget_windows(self) -> None:
        self.calls["forget_windows"] += 1

    @property
    def fetches(self) -> int:
        return self.calls["answer"]

    async def alter(
        self, group: str, offsets: Mapping[TopicPartition, Committed]
    ) -> dict[TopicPartition, KafkaFailure | None]:
        self.called("alter")
        self.altered.append((group, dict(offsets)))
        result = {place: self.alter_trouble.get(place) for place in offsets}
        written = {place: each for place, each in offsets.items() if result[place] is None}
        self.offsets.setdefault(group, {}).update(written)
        self.listed.setdefault(group, GroupListing(group, GroupState.EMPTY, "classic", ""))
        return result

    async def cluster_id(self) -> str:
        self.called("cluster_id")
        return self.own_id

    async def topic_names(self) -> list[str]:
        self.called("topic_names")
        return list(self.ids)

    async def create_compacted_topic(self, name: str, replication_factor: int) -> KafkaFailure | None:
        self.called("create_compacted_topic")
        self.created.append((name, replication_factor))
        if name not in self.ids and name not in self.create_trouble:
            self.compacted(name)
        return self.create_trouble.get(name)

    async def append(self, topic: str, records: Sequence[tuple[bytes | None, bytes | None]]) -> None:
        self.called("append")
        if topic in self.append_trouble:
            raise self.append_trouble[topic]
        if topic not in self.ids:
            raise KafkaFailure(KafkaFault.UNKNOWN_TOPIC, f"no topic {topic}")
        log = self.logs[TopicPartition(topic, 0)]
        for key, value in records:
            log.rows.append(Row(log.end, self.append_ms or int(time.time() * 1000), key, value))
            log.end += 1

    def tail(self, topic: str, *, committed_only: bool = False) -> FakeTail:
        self.isolation.add((topic, committed_only))
        return FakeTail(self, topic)


class FakeClusters:
    """Hands out the two that it was made with."""

    def __init__(self, source: FakeCluster, target: FakeCluster) -> None:
        self.sides = {Side.SOURCE: source, Side.TARGET: target}
        self.released: list[object] = []

    def open(self, side: Side, props: Mapping[str, str]) -> FakeCluster:
        return self.sides[side]

    async def release(self, cluster: object) -> None:
        self.released.append(cluster)


JUNK = 7
"""Records that each target log begins with, so that no offset is right by being the source's."""


def mirrored(
    count: int = 20, *, topics: Sequence[str] = ("orders",), partitions: int = 1
) -> tuple[FakeCluster, FakeCluster]:
    """Two clusters; the second holds a copy of the first's topics under `A.`, JUNK offsets further on."""
    source, target = FakeCluster(), FakeCluster()
    for topic in topics:
        originals, copies = [], []
        for number in range(partitions):
            original, copy = Log(epoch=3), Log(epoch=5)
            original.append(count, first=100 * number)
            copy.append(JUNK, first=-JUNK, junk=True)
            copy.append(count, first=100 * number)
            originals.append(original)
            copies.append(copy)
        source.topic(topic, *originals)
        target.topic(f"A.{topic}", *copies)
    return source, target
