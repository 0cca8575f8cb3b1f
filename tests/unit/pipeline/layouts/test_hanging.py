"""Transactions that a broker has left open: how each partition's ends."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

from bridge.model.copying import Copied
from bridge.model.values import TopicPartition
from bridge.pipeline.layouts.hanging import end_in_copies
from bridge.translation.runs.partition_runs import PartitionRuns
from bridge.translation.runs.runs import Segment


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
