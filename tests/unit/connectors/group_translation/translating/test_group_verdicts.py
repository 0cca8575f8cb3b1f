"""States of pairs of partitions as both clusters tell them."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Coroutine, Sequence
from typing import Any, cast

import pytest

from bridge.model.values import Bounds, TopicInfo, TopicPartition
from connectors.group_translation.translating.group_verdicts import GroupVerdicts
from connectors.group_translation.translating.strategies import ByRecords
from connectors.ports import Cluster
from tests.unit.connectors.group_translation.group_rounds import options

SOURCE, TARGET = TopicPartition("orders", 0), TopicPartition("A.orders", 0)


class Ending:
    """A cluster; the task that asks it is cancelled when it asks for bounds."""

    asking: asyncio.Task[Any]

    def end(self) -> None:
        self.asking.cancel()

    async def topics(self, names: Sequence[str]) -> dict[str, TopicInfo]:
        return {name: TopicInfo(name, f"id-{name}", 1) for name in names}

    def bounds(
        self, partitions: Sequence[TopicPartition], *, committed_only: bool
    ) -> Coroutine[Any, Any, dict[TopicPartition, Bounds]]:
        asyncio.get_running_loop().call_soon(self.end)

        async def answer() -> dict[TopicPartition, Bounds]:
            return {each: Bounds(0, 0) for each in partitions}

        return answer()


def test_a_round_that_ends_leaves_no_request_that_nobody_awaits() -> None:
    async def go() -> None:
        ending = Ending()
        cluster = cast(Cluster, ending)
        verdicts = GroupVerdicts(options(), cluster, cluster, ByRecords())
        ending.asking = asyncio.create_task(verdicts.states([(SOURCE, TARGET)]))
        with pytest.raises(asyncio.CancelledError):
            await ending.asking

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        asyncio.run(go())
        gc.collect()
    assert [str(each.message) for each in seen] == []
