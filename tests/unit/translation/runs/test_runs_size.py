"""How large the runs of a partition get: docs/offset-runs.md says it, whatever the commits are like."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from bridge.model.copying import Copied
from bridge.model.values import TopicPartition
from bridge.translation.runs.markers import MARKER_BYTES
from bridge.translation.runs.partition_runs import PartitionRuns
from bridge.translation.runs.runs import Segment
from tests.support.forms import mostly_long

HISTORIES = int(os.environ.get("MIRROR_BRIDGE_HISTORIES", "8"))
SEGMENTS = 15_000
"""Of a random history."""
FIXED = 2_500_000
"""Bytes, however much is copied."""
PER_GB, PER_GB_WITH_HOLES = 70_000, 300_000
"""More for each GB of the target's log; where the source has holes."""
COPIED = Copied(TopicPartition("orders.of.a.shop", 0), "s" * 22, "A.orders.of.a.shop", "t" * 22)


@dataclass(frozen=True)
class Flow:
    """What commits are like: up to twice `commit` records of `size` bytes, with a hole of the source behind 1 + 1 /
    `holes` of them or so (0: none), and a record of somebody else behind a part `foreign` of the stretches."""

    size: int
    commit: int
    holes: float = 0.0
    foreign: float = 0.0
    epochs: float = 0.0
    """Part of the commits that begin with another leader of the source."""


@dataclass
class Topic:
    """The live records of a runs topic, with one partition's runs."""

    random: random.Random
    owner: PartitionRuns = field(default_factory=PartitionRuns)
    live: dict[bytes, int] = field(default_factory=dict)
    upstream: int = 0
    downstream: int = 0
    epoch: int = 0
    segments: int = 0
    gb: float = 0.0
    """Of the target's log."""

    @property
    def bytes(self) -> int:
        return sum(self.live.values())

    def restart(self) -> None:
        self.owner = PartitionRuns(self.owner.runs)

    def commit(self, flow: Flow) -> None:
        dice = self.random
        self.epoch += dice.random() < flow.epochs
        result = list(self._segments(flow, dice.randint(1, 2 * flow.commit)))
        for key, value in self.owner.commit(result, self.upstream, COPIED):
            if value is None:
                self.live.pop(key, None)
            else:
                self.live[key] = len(key) + len(value)
        self.downstream += 1
        self.segments += len(result)
        self.gb += (sum(each.size for each in result) + MARKER_BYTES) / 1e9

    def _segments(self, flow: Flow, left: int) -> Iterator[Segment]:
        dice, covered = self.random, self.upstream
        while left:
            count = min(left, 1 + int(dice.expovariate(flow.holes))) if flow.holes else left
            yield Segment(covered, self.upstream, self.downstream, count, self.epoch, 0, count * flow.size)
            left -= count
            self.downstream += count
            covered = self.upstream = self.upstream + count
            if flow.holes:
                self.upstream += dice.choice((1, 1, 1, 3, 200))
            if dice.random() < flow.foreign:
                self.downstream += 1


@pytest.mark.parametrize("seed", mostly_long(range(HISTORIES), 3))
def test_the_runs_of_a_partition_stay_small_whatever_commits_are_like(seed: int) -> None:
    dice = random.Random(seed)
    topic, holes = Topic(dice), False
    while topic.segments < SEGMENTS:
        flow = Flow(
            dice.choice((1, 100, 1000, 10_000, 100_000, 1_000_000)),
            dice.choice((1, 2, 5, 20, 200, 2000)),
            dice.choice((0.0, 0.0, 0.9, 0.5, 0.2, 0.05, 0.01, 0.001)),
            dice.choice((0.0, 0.0, 0.05, 0.5)),
            dice.choice((0.0, 0.0, 0.01, 0.3)),
        )
        holes = holes or flow.holes > 0
        for _ in range(dice.choice((10, 100, 1000))):
            topic.commit(flow)
            most = FIXED + (PER_GB_WITH_HOLES if holes else PER_GB) * topic.gb
            assert topic.bytes <= most, (flow, topic.gb, len(topic.live))
            if topic.segments > SEGMENTS:
                break
        if dice.random() < 0.3:
            topic.restart()


@pytest.mark.parametrize(
    ("commits", "records"), [pytest.param(2600, 200, marks=pytest.mark.long), (10, 30_000)]
)
def test_what_is_listed_and_bounded_has_a_limit(commits: int, records: int) -> None:
    """Hundreds of thousands of records of a byte each, nearly all with a hole behind them: nothing is for the GB."""
    topic = Topic(random.Random(1))
    for _ in range(commits):
        topic.commit(Flow(1, records, holes=5.0))
    assert topic.gb < 0.001
    assert topic.bytes <= FIXED / 2, len(topic.live)


@pytest.mark.parametrize(
    ("flow", "commits", "most"),
    [
        pytest.param(Flow(1000, 90), 20_000, PER_GB, id="commits of 90 KB"),
        pytest.param(Flow(1_000_000, 1), 6000, PER_GB, id="commits of 1 MB"),
        pytest.param(Flow(1000, 20_000), 1000, PER_GB, id="commits of 20 MB"),
        pytest.param(Flow(6000, 200, holes=0.5), 1000, PER_GB_WITH_HOLES, id="a hole behind 12 KB"),
        pytest.param(Flow(100_000, 20, holes=0.5), 1000, PER_GB_WITH_HOLES, id="a hole behind 200 KB"),
    ],
)
def test_so_much_is_added_for_each_gb(flow: Flow, commits: int, most: int) -> None:
    topic = Topic(random.Random(2))
    for _ in range(commits // 2):
        topic.commit(flow)
    size, gb = topic.bytes, topic.gb
    for _ in range(commits // 2):
        topic.commit(flow)
    assert topic.gb > 1
    assert (topic.bytes - size) / (topic.gb - gb) <= most
