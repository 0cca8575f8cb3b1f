"""What there is to compare, without a cluster: partitions that do not answer, tasks, samples."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from bridge.audit.stretches import LogPair, Offsets, Rules, Stretch
from bridge.errors import KafkaFailure, KafkaFault
from bridge.model.values import Bounds, TopicPartition
from bridge.spark.auditing import collecting
from bridge.spark.auditing.collecting import Work
from bridge.spark.auditing.options import read_options
from bridge.spark.auditing.running import TASK_BYTES, divided

CONFIG = {
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "a:9092",
    "target.cluster.bootstrap.servers": "b:9092",
}
ONE, OTHER, THIRD = (TopicPartition("orders", number) for number in range(3))


class Client:
    """Of a cluster that is asked again for topics."""

    def __init__(self) -> None:
        self.asked = 0

    async def metadata(self, topics: Sequence[str]) -> None:
        self.asked += 1


def work(count: int, size: int) -> list[Work]:
    sides = LogPair(ONE, "a", ONE, "b")
    spans = np.empty((4, 0), np.int64)
    return [
        Work(Stretch(sides, n, Offsets(n, n + 1), Offsets(n, n + 1), spans), Rules(1), size)
        for n in range(count)
    ]


def test_a_partition_without_an_answer_keeps_nobody_from_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    away = KafkaFailure(KafkaFault.LEADER_MOVED, "read orders-1: no leader", retriable=True)
    denied = KafkaFailure(KafkaFault.NOT_AUTHORIZED, "READ on topic orders is denied", retriable=False)

    async def bounds(
        client: Client, tps: Sequence[TopicPartition], *, committed_only: bool
    ) -> Mapping[TopicPartition, Bounds | KafkaFailure]:
        answers: dict[TopicPartition, Bounds | KafkaFailure] = {ONE: Bounds(0, 9), OTHER: away, THIRD: denied}
        return {tp: answers[tp] for tp in tps}

    monkeypatch.setattr(collecting, "bounds", bounds)
    monkeypatch.setattr(collecting, "LEADERLESS_SECONDS", 0.05)
    monkeypatch.setattr(collecting, "PAUSE_SECONDS", 0.02)
    client = Client()
    collection = collecting.AuditCollection(read_options(CONFIG), client, client)  # type: ignore[arg-type]
    logs = asyncio.run(collection.readable_bounds(client, [ONE, OTHER, THIRD], committed_only=True))  # type: ignore[arg-type]
    assert logs == {ONE: Bounds(0, 9)}
    assert sorted(collection.result.failures) == sorted(map(str, (away, denied)))
    assert client.asked > 0


def test_a_sample_is_the_same_each_time_and_never_empty() -> None:
    some = work(2000, 10)
    chosen = collecting.share_of(some, 0.05)
    assert chosen == collecting.share_of(some, 0.05)
    assert 60 < len(chosen) < 140
    assert len(collecting.share_of(some[:1], 0.000001)) == 1
    assert collecting.share_of([], 0.5) == []


def test_tasks_have_neighbours_of_about_the_same_bytes() -> None:
    some = work(100, TASK_BYTES // 10)
    tasks = divided(some, range(100), 2)
    assert [each for task in tasks for each in task] == list(range(100))
    assert {len(task) for task in tasks} == {10}
    # A few are shared by all cores.
    assert [len(task) for task in divided(work(10, 100), range(10), 2)] == [5, 5]
    assert divided([], range(0), 2) == []
