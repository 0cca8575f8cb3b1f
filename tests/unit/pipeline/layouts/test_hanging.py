"""Transactions that a broker has left open: how each partition's ends."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.model.copying import Copied
from bridge.model.values import TopicPartition
from bridge.pipeline.layouts import fencing
from bridge.pipeline.layouts.fencing import end_in_copies, end_of_left_ids
from bridge.translation.runs.partition_runs import PartitionRuns
from bridge.translation.runs.runs import Segment
from tests.support.pipeline_spec import SPEC


class Ending:
    """Notes how transactions are ended."""

    def __init__(self) -> None:
        self.ended: dict[bool, set[TopicPartition]] = {}

    async def end_hanging(self, tps: Collection[TopicPartition], *, commit: bool) -> None:
        self.ended[commit] = set(tps)


def copied(partition: int, topic_id: str = "there") -> Copied:
    return Copied(TopicPartition("orders", partition), "here", "A.orders", topic_id, None)


def run(copy: Copied, end: int) -> PartitionRuns:
    """Runs that tell of copies up to offset `end` of the remote partition."""
    runs = PartitionRuns([])
    segment = Segment(0, 0, 0, end, 0, 1, 10)
    runs.commit([segment], end, copy, 0, b"", lost_from=None)
    return runs


def test_a_copy_ends_as_its_run_says() -> None:
    """The run is in the transaction of its records. One of a topic that is no more says nothing of the new one."""
    covered, behind, unknown, anew = copied(0), copied(1), copied(2), copied(3, "another")
    runs = {covered.id: run(covered, 8), behind.id: run(behind, 5), anew.id: run(copied(3), 8)}
    begin = {copy.remote: 5 for copy in (covered, behind, unknown, anew)}
    ending: Any = Ending()
    asyncio.run(end_in_copies(ending, begin, [covered, behind, unknown, anew, copied(4)], runs))
    assert ending.ended == {True: {covered.remote}, False: {behind.remote, unknown.remote, anew.remote}}


@pytest.mark.parametrize(
    ("fault", "seen"),
    [(KafkaFault.FENCED, KafkaFault.OTHER), (KafkaFault.UNREACHABLE, KafkaFault.UNREACHABLE)],
)
def test_who_is_shut_out_of_a_left_id_tries_again_and_makes_no_new_layout(
    fault: KafkaFault, seen: KafkaFault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slice that is fenced by its own id ends, and its layout with it."""
    closed, spec = list[str](), replace(SPEC, props={"target.cluster.bootstrap.servers": "b:1"})

    class Producer:
        def __init__(self, _: object, name: str) -> None:
            self.name = name

        async def start(self) -> None:
            raise KafkaFailure(
                fault, "there is a newer producer with the same transactional id", retriable=False
            )

        async def close(self) -> None:
            closed.append(self.name)

    monkeypatch.setattr(fencing, "TransactionalProducer", Producer)
    with pytest.raises(KafkaFailure) as failed:
        asyncio.run(end_of_left_ids(spec, ["left-0"], {}, [], {}))
    assert failed.value.fault is seen
    assert closed == ["left-0"]
