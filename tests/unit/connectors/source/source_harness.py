"""An instance of the source connector over fakes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from bridge.model.copying import (
    Copied,
    CopySample,
    PipelineSpec,
    PipelineState,
    PipelineStatus,
)
from bridge.model.partition_states import Skip
from bridge.model.values import TopicPartition
from connectors.base import CheckedOnOpen, Summary
from connectors.source.options import SourceOptions
from connectors.source.task import SourceInstance
from tests.unit.connectors.fake_clusters import FakeCluster, FakeClusters, Log
from tests.unit.connectors.run_instance import ALONE, Published, play

PROPS = {
    "name": "mirror",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "a:9092",
    "target.cluster.bootstrap.servers": "b:9092",
}


class FakePipeline:
    def __init__(self, spec: PipelineSpec) -> None:
        self.spec = spec
        self.assigned: list[Sequence[Copied]] = []
        self.released: list[str] = []
        self.skips: list[Skip] = []
        self.status = PipelineStatus(PipelineState.COPYING)
        self.stopping, self.told = asyncio.Event(), asyncio.Event()

    @property
    def stopped(self) -> bool:
        return self.stopping.is_set()

    def assign(self, partitions: Sequence[Copied]) -> None:
        assert not self.stopped
        self.assigned.append(partitions)

    def release(self, topics: Sequence[str]) -> None:
        self.released = list(topics)
        self.told.set()

    def skip(self, skip: Skip) -> None:
        self.skips.append(skip)

    def drain_samples(self) -> Sequence[CopySample]:
        return ()

    async def stop(self) -> None:
        await asyncio.sleep(0)
        self.stopping.set()


class FakePipelines:
    def __init__(self) -> None:
        self.started: list[FakePipeline] = []

    def start(self, spec: PipelineSpec) -> FakePipeline:
        assert all(pipeline.stopped for pipeline in self.started), "two of one connector at a time"
        self.started.append(FakePipeline(spec))
        return self.started[-1]


class SourceHarness:
    def __init__(self, **given: str) -> None:
        props = PROPS | {key.replace("_", "."): value for key, value in given.items()}
        self.options = SourceOptions.from_props(props, CheckedOnOpen())
        self.source, self.target = FakeCluster(), FakeCluster()
        self.source.topic("orders", Log(), Log())
        self.clusters, self.pipelines = FakeClusters(self.source, self.target), FakePipelines()
        self.published = Published()

    @property
    def pipeline(self) -> FakePipeline:
        return self.pipelines.started[-1]

    @property
    def assigned(self) -> list[tuple[TopicPartition, str]]:
        return [(each.source, each.target_topic) for each in self.pipeline.assigned[-1]]

    def often(self) -> None:
        """All is due again at once."""
        self.options = replace(
            self.options, refresh_interval=0.01, sync_configs_interval=0.01, sync_acls_interval=0.01
        )

    def play(self, script: Callable[[SourceInstance], Awaitable[None]]) -> None:
        def make() -> SourceInstance:
            return SourceInstance(
                "mirror", self.options, self.clusters, self.pipelines, PROPS, self.published
            )

        play(make, script, None)
        assert self.clusters.released == [self.source, self.target]
        assert all(pipeline.stopped for pipeline in self.pipelines.started)

    async def until(self, done: Callable[[Summary], bool]) -> Summary:
        """Looked at with each summary, and now and then: clusters are asked in between."""
        while not self.published.summaries or not done(self.published.summaries[-1]):
            self.published.more.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.005):
                    await self.published.more.wait()
        return self.published.summaries[-1]

    async def begin(self, instance: SourceInstance) -> Summary:
        instance.assign(ALONE)
        return await self.until(lambda summary: summary.rounds > 0)
