"""What connectors remember of topics between rounds ends with the topics: thousands of them come and go here."""

from __future__ import annotations

import asyncio
import os

from bridge.model.copying import Copied
from bridge.model.values import CopyId, TopicPartition
from bridge.translation.runs.runs import OffsetRun
from connectors.group_translation.translating.followed_topics import FollowedRuns
from connectors.source.discovery import DiscoveredTopics
from connectors.source.take_over import TakeOver
from tests.unit.connectors.checkpoint.checkpoint_harness import put
from tests.unit.connectors.fake_clusters import JUNK, FakeCluster, Log
from tests.unit.connectors.group_translation.group_rounds import options, rounds, run

A_ROUND = 100
ROUNDS = int(os.environ.get("MIRROR_BRIDGE_TOPICS", "2000")) // A_ROUND
RUNS = "mm2-offset-runs.A.internal"


def topics_of(number: int) -> list[str]:
    return [f"t-{number}-{each}" for each in range(A_ROUND)]


def test_rounds_remember_the_topics_that_groups_are_at() -> None:
    """One group that lives for ever reads a hundred topics at a time, which are deleted then; another stays."""
    source, target = FakeCluster(), FakeCluster()
    kept, most = rounds(source, target), 0
    original, copy = Log(epoch=3), Log(epoch=5)
    original.append(20)
    copy.append(JUNK, first=-JUNK, junk=True)
    copy.append(20)
    for number in range(ROUNDS):
        for cluster in (source, target):
            cluster.ids.clear()
            cluster.logs.clear()
        names = [*topics_of(number), "stays"]
        for name in names:
            source.topic(name, original)
            target.topic(f"A.{name}", copy)
        source.group("reader", {(name, 0): 12 for name in names})
        source.group("other", {("stays", 0): 5})
        target.offsets.clear()
        outcome = run(kept, source)
        assert len(outcome.plans["reader"].rows) == A_ROUND + 1
        most = max(most, kept.remembered)
    # Of this round and the last one: pairs, verdicts, and what was written for each group.
    assert most <= 2 * 3 * (A_ROUND + 2), most
    assert kept.remembered > 0


def test_runs_of_topics_that_have_none_are_not_remembered() -> None:
    target = FakeCluster()
    runs = FollowedRuns(options(), target)
    run_ = OffsetRun(TopicPartition("stays", 0), "s", "A.stays", "t", 0, 0, 0, 9, 0, 0, 1, 9, 1)

    async def work() -> None:
        put(target, RUNS, run_.key(), run_.value())
        for number in range(ROUNDS):
            for name in topics_of(number):
                copied = run_._replace(source=TopicPartition(name, 0), target_topic=f"A.{name}")
                put(target, RUNS, copied.key(), copied.value())
            await runs.follow()
            for name in topics_of(number):
                assert runs.get_runs(CopyId(TopicPartition(name, 0), f"A.{name}")).last is not None
                assert runs.get_runs(CopyId(TopicPartition(name, 1), f"A.{name}")).last is None
            assert runs.get_runs(run_.copy).last == run_
            for name in topics_of(number):
                copied = run_._replace(source=TopicPartition(name, 0), target_topic=f"A.{name}")
                put(target, RUNS, copied.key(), None)
            await runs.follow()
            assert runs.remembered <= 2

    asyncio.run(work())


def test_positions_of_a_stock_mirror_are_remembered_of_topics_that_are_there() -> None:
    asked = 0

    async def ask(partitions: object) -> list[None]:
        nonlocal asked
        asked += len(partitions)  # type: ignore[arg-type]
        return [None] * len(partitions)  # type: ignore[arg-type]

    async def work() -> None:
        take_over = TakeOver("A", ask)
        for number in range(ROUNDS):
            names = [*topics_of(number), "stays"]
            copied = [Copied(TopicPartition(name, 0), "s", f"A.{name}", "t") for name in names]
            assert len((await take_over.begun(DiscoveredTopics(copied))).copied) == A_ROUND + 1
            assert take_over.remembered == A_ROUND + 1

    asyncio.run(work())
    assert asked == ROUNDS * A_ROUND + 1, "each once"
