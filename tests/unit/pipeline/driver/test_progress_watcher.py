"""What a driver reads of its slices goes on, whatever changes or fails meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from bridge.kafka.config.settings import client_settings
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol.log_requests import TopicMetadata
from bridge.model.values import Bounds, Side, TopicPartition
from bridge.pipeline.driver import progress_watcher
from bridge.pipeline.driver.progress_watcher import Watcher
from tests.support.waiting import until
from tests.unit.pipeline.values import copied, spec

NOWHERE = {
    "source.cluster.bootstrap.servers": "127.0.0.1:1",
    "target.cluster.bootstrap.servers": "127.0.0.1:1",
}


class Quiet(Watcher):
    """Its clusters have no record of a run, no gap and no report."""

    async def read_runs(self) -> None:
        pass

    async def _read_gaps(self) -> None:
        pass

    async def _read_reports(self) -> None:
        pass


class Source(NetworkClient):
    """Describes no topic, and asks nobody."""

    def __init__(self) -> None:
        super().__init__(client_settings(Side.SOURCE, NOWHERE).raw)

    async def metadata(self, topics: Sequence[str]) -> dict[str, TopicMetadata]:
        return {}


@pytest.fixture
def watcher() -> Quiet:
    return Quiet(spec(NOWHERE), Source(), NetworkClient(client_settings(Side.TARGET, NOWHERE).raw))


def test_a_layout_that_comes_while_ends_are_asked_for_is_watched(
    watcher: Quiet, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Sequence[TopicPartition]] = []
    monkeypatch.setattr(progress_watcher, "LOOK", 0.0)
    monkeypatch.setattr(progress_watcher, "QUIET", 0.0)
    monkeypatch.setattr(progress_watcher, "ENDS_EVERY", 0.0)

    async def bounds(
        client: NetworkClient, tps: Sequence[TopicPartition], *, committed_only: bool
    ) -> dict[TopicPartition, Bounds]:
        asked.append(tps)
        if len(asked) == 1:
            watcher.new_layout(2, [copied(0), copied(1)], set())
        return {tp: Bounds(0, 10, 0) for tp in tps}

    monkeypatch.setattr(progress_watcher, "bounds", bounds)

    async def watching() -> None:
        watcher.new_layout(1, [copied(0)], set())
        task = asyncio.create_task(watcher.run())
        await until(lambda: len(asked) >= 3 or task.done())
        task.cancel()
        await asyncio.wait({task})

    asyncio.run(watching())
    assert asked[1:3] == [[TopicPartition("orders", 0), TopicPartition("orders", 1)]] * 2
    assert watcher.errors == []


def test_what_nobody_expects_is_an_error_until_it_is_over(
    watcher: Quiet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watcher that ended in silence would show a copy that stands still and knows no error."""
    shown: list[list[str]] = []
    monkeypatch.setattr(progress_watcher, "LOOK", 0.0)
    monkeypatch.setattr(progress_watcher, "QUIET", 0.0)

    async def broken() -> None:
        shown.append(watcher.errors)
        if len(shown) == 1:
            raise ValueError("no such thing")

    monkeypatch.setattr(watcher, "read_runs", broken)

    async def watching() -> None:
        task = asyncio.create_task(watcher.run())
        await until(lambda: len(shown) >= 3 or task.done())
        task.cancel()
        await asyncio.wait({task})

    asyncio.run(watching())
    assert shown[:3] == [[], ["progress can't be read: ValueError: no such thing"], []]
