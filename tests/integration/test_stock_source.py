"""When offset syncs are written, and which topics are copied, against stock's own classes, at random."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import pytest

from bridge.mm2.filters import DefaultTopicFilter, should_replicate_topic
from bridge.mm2.offset_sync_writer import OffsetSyncWriter, PartitionState
from bridge.mm2.records import OffsetSync
from bridge.mm2.replication_policy import DefaultReplicationPolicy, IdentityReplicationPolicy
from bridge.model.values import TopicPartition
from tests.integration.comparison import Comparison, b64, place
from tests.support.java import RECORDED_OR_LIVE, Oracle

LONGEST = 2**63 - 1
UPDATES, STEPS, TOPICS = 100_000, 20_000, 5_000
LAGS = [0, 1, 2, 50, 100, 100, -7, LONGEST]


@pytest.fixture(scope="module", params=RECORDED_OR_LIVE)
def stock(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    source, main = Path(__file__).with_name("StockSource.java"), "org.apache.kafka.connect.mirror.StockSource"
    return Oracle(source, tmp_path_factory.mktemp("stock"), main, live=request.param == "live")


class Copied:
    """Records of one partition as a mirror may write them: gaps on either side, either log cut back, any offset."""

    def __init__(self, rng: random.Random, lag: int) -> None:
        self._rng, self._far = rng, min(max(lag, 1), 200)
        self._upstream = rng.choice([-1, -1, rng.randrange(10**6), LONGEST - rng.randrange(300)])
        self._downstream = rng.choice([-1, rng.randrange(10**6), LONGEST - rng.randrange(300)])

    def next(self) -> tuple[int, int]:
        rng, event = self._rng, self._rng.random()
        up, down = 1, 1
        if event < 0.03:
            up = rng.choice([0, 2, -1, rng.randrange(-50, 50), -self._upstream])
        elif event < 0.06:
            down = rng.choice([0, -1, -self._far, rng.randrange(-50, 50), -self._downstream])
        elif event < 0.12:
            down = self._far + rng.randrange(-2, 3)
        elif event < 0.121:
            up, down = rng.choice([(LONGEST, 1), (1, LONGEST), (LONGEST, LONGEST)])
        self._upstream = min(max(self._upstream + up, 0), LONGEST)
        self._downstream = min(max(self._downstream + down, 0), LONGEST)
        return self._upstream, self._downstream

    def went_on(self, count: int) -> None:
        """So many records more, without an event."""
        self._upstream += count
        self._downstream += count


def shown(state: PartitionState) -> str:
    previous = state.previous_upstream_offset, state.previous_downstream_offset
    flag = str(state.should_sync_offsets).lower()
    return " ".join(map(str, (*previous, state.last_sync_downstream_offset, flag)))


def records(syncs: Iterable[OffsetSync]) -> str:
    return " ".join(f"{sync.key().hex()}:{sync.value().hex()}" for sync in syncs)


def test_writer(stock: Oracle) -> None:
    """States after stretches of records, the records that are sent, in their order, as bytes, and what a commit sends.
    Stock has as many permits as it wants, and is told of each record by itself."""
    comparison = Comparison(stock)
    rng, updates = comparison.rng, 0
    while updates < stock.scaled(UPDATES):
        lag = rng.choice(LAGS)
        copied = {
            TopicPartition(rng.choice("té"), n): Copied(rng, lag) for n in range(rng.choice([1, 2, 14]))
        }
        commits = rng.choice([0.0, 0.02, 0.2])
        writer = OffsetSyncWriter(lag)
        comparison.tell("writer", lag)
        for _ in range(rng.choice([10, 100, 300])):
            topic_partition = rng.choice(list(copied))
            upstream, downstream = copied[topic_partition].next()
            count = min(rng.choice([1, 1, 2, 7, 150]), LONGEST - max(upstream, downstream) + 1)
            updates += count
            copied[topic_partition].went_on(count - 1)
            due = writer.queue_range(topic_partition, upstream, downstream, count)
            ours = f"{records(due)}|{shown(writer.states[topic_partition])}"
            comparison.ask(ours, "stretch", *place(topic_partition), upstream, downstream, count)
            if rng.random() < commits:
                comparison.ask(records(writer.drain_delayed()), "commit")
    comparison.settle()
    assert len(comparison.answers) > updates // 50


def test_partition_state(stock: Oracle) -> None:
    """Where it is not reset after each update too."""
    comparison = Comparison(stock)
    rng = comparison.rng
    while comparison.count < stock.scaled(STEPS):
        lag = rng.choice(LAGS)
        copied, state = Copied(rng, lag), PartitionState(lag)
        comparison.tell("state", lag)
        for _ in range(rng.choice([1, 10, 300])):
            offsets = copied.next()
            due = str(state.update(*offsets)).lower()
            comparison.ask(f"{due} {shown(state)}", "step", *offsets)
            if rng.random() < 0.5:
                state.reset()
                comparison.tell("reset")
    comparison.settle()
    assert len(comparison.answers) > comparison.count // 10


PIECES = [
    "A",
    "B",
    "C",
    "orders",
    "heartbeats",
    "my",
    ".",
    "..",
    "-",
    "__",
    "mm2",
    "checkpoints",
    "internal",
    "",
]


def test_topics(stock: Oracle) -> None:
    """But for B29: where names stay, stock takes all that ends with `heartbeats` for a heartbeats topic of somebody."""
    comparison = Comparison(stock)
    rng, copied = comparison.rng, 0
    count = stock.scaled(TOPICS)
    for _ in range(count):
        kind, separator = rng.choice(["default", "identity"]), rng.choice([None, ".", "-", "__"])
        topics, heartbeats = rng.choice(["", ".*", "A.*,orders", "B.*"]), rng.random() < 0.5
        joined = rng.choice([separator or ".", separator or ".", ""])
        topic = joined.join(rng.choices(PIECES, k=rng.randrange(1, 5)))
        policy = IdentityReplicationPolicy() if kind == "identity" else DefaultReplicationPolicy()
        policy.configure({"source.cluster.alias": "A", "replication.policy.separator": separator})
        if kind == "identity" and topic.endswith("heartbeats") and not policy.is_heartbeats_topic(topic):
            continue
        chosen = DefaultTopicFilter()
        chosen.configure({"topics": topics})
        ours = should_replicate_topic(topic, "B", chosen, policy, heartbeats_replication=heartbeats)
        copied += ours
        given = kind, "-" if separator is None else f"+{separator}", b64(topics), int(heartbeats)
        comparison.ask(str(ours).lower(), "topic", *given, b64(topic))
    comparison.settle()
    assert count // 10 < copied < count - count // 10
