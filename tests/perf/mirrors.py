"""The mirrors that benchmarks of the copy compare: ours, on Spark and without, and stock MirrorSourceConnector."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from unittest import mock

from bridge.local import Cluster, ConnectWorker, GivenCluster, LocalStack
from bridge.local.broker import Broker
from bridge.model.copying import Copied, PipelineState, Transform
from bridge.model.values import TopicPartition
from bridge.pipeline.driver.launch import DriverPipeline
from tests.integration.copy_flow import CopyFlow, topic_id
from tests.perf.loads import SCALE, Load, filled
from tests.perf.watched_copy import Copy, Watch, median
from tests.support import (
    add_partitions,
    connector,
    create_topic,
    delete_topic,
    stock_config,
    unique,
    wait_mirrored,
)

SLOTS = 2
"""Slices of ours, and tasks of stock."""
RUNS = 3
WITHIN = 1800.0
Check = Callable[[str, str], None]
_TRIES = 5
_ROOT = Path(__file__).parents[2]
_DRIVER, _WITHOUT_SPARK = "bridge.pipeline.driver.main", "tests.perf.without_spark"


@contextmanager
def importable_tests() -> Iterator[None]:
    """For processes that are started in the block."""
    with mock.patch.object(sys, "path", [str(_ROOT), *sys.path]):
        yield


@dataclass(frozen=True)
class Scene:
    """Two clusters. `near_…` are addresses for whoever measures, should mirrors have a longer way."""

    source: Cluster
    target: Cluster
    near_source: str
    near_target: str
    brokers: Sequence[int]
    """Process ids."""

    @classmethod
    def of(cls, stack: LocalStack) -> Scene:
        source, target = stack.source, stack.target
        return cls(source, target, source.bootstrap, target.bootstrap, broker_pids(source, target))


def broker_pids(*clusters: Cluster) -> list[int]:
    """Of brokers that are processes of ours."""
    return [each.process.pid for each in clusters if isinstance(each, Broker)]


# -- ours --------------------------------------------------------------------------------------------------------------


class Ours:
    """Our copy of topics, with state topics of its own, as the connector has it by default: offset syncs too."""

    def __init__(
        self,
        scene: Scene,
        transforms: Sequence[Transform] = (),
        props: Mapping[str, str] = MappingProxyType({}),
        **settings: object,
    ) -> None:
        self.scene = scene
        self.flow = CopyFlow(
            scene.source,
            scene.target,
            {"syncs_topic": unique("syncs"), **settings},
            {"spark.master": f"local[{SLOTS}]", **props},
            transforms=transforms,
        )
        self._partitions: list[Copied] = []

    def add(self, topic: str, partitions: int) -> str:
        """Wants the topic; answers its copy, new and empty."""
        remote = create_topic(self.scene.near_target, self.flow.remote(topic), partitions)
        self.want(topic, remote, range(partitions))
        return remote

    def grow(self, topic: str, partitions: int) -> None:
        """Wants the partitions that a topic gets: there are so many then, on both sides."""
        remote, before = self.flow.remote(topic), sum(each.source.topic == topic for each in self._partitions)
        add_partitions(self.scene.near_source, topic, partitions)
        add_partitions(self.scene.near_target, remote, partitions)
        self.want(topic, remote, range(before, partitions))

    def want(self, topic: str, remote: str, numbers: Iterable[int]) -> None:
        here, there = topic_id(self.scene.near_source, topic), topic_id(self.scene.near_target, remote)
        transforms = tuple(range(len(self.flow.transforms)))
        self._partitions += [
            Copied(TopicPartition(topic, number), here, remote, there, transforms=transforms)
            for number in numbers
        ]

    @property
    def partitions(self) -> Sequence[Copied]:
        return tuple(self._partitions)

    @asynccontextmanager
    async def running(self, *, once: bool = False, module: str = _DRIVER) -> AsyncIterator[DriverPipeline]:
        """The driver, for the time of the block; `once`: until it has caught up."""
        with importable_tests():
            pipeline = DriverPipeline(replace(self.flow.spec, until_caught_up=once), module)
            pipeline.assign(self.partitions)
            try:
                yield pipeline
            finally:
                await pipeline.stop()

    def forget(self) -> None:
        """Deletes copies and state."""
        remotes = {each.target_topic for each in self._partitions}
        for topic in (*remotes, *self.flow.state_topics):
            delete_topic(self.scene.near_target, topic)
        delete_topic(self.scene.near_source, self.flow.spec.syncs_topic)

    def runs_bytes(self) -> int:
        """Of keys and values of all runs that were written."""
        runs = self.flow.state(self.flow.spec.runs_topic)
        return sum(len(each.key or b"") + len(each.value or b"") for each in runs)


async def until(holds: Callable[[], bool], pipeline: DriverPipeline, within: float = WITHIN) -> None:
    end = time.monotonic() + within
    while not holds():
        assert pipeline.status.state is not PipelineState.FAILED, pipeline.status.failure
        assert time.monotonic() < end, f"not in time: {pipeline.status.state} {pipeline.status.errors}"
        await asyncio.sleep(0.02)


def roots(pipeline: DriverPipeline) -> list[int]:
    return [pipeline.pid] if pipeline.pid is not None else []


def _done(pipeline: DriverPipeline) -> bool:
    """Only the last status, told when the driver ends, is sure to count all that was committed."""
    return pipeline.status.state is PipelineState.CAUGHT_UP and pipeline.pid is None


def ours(
    scene: Scene,
    topic: str,
    load: Load,
    *,
    spark: bool = True,
    tick: float = 0.05,
    transforms: Sequence[Transform] = (),
    props: Mapping[str, str] = MappingProxyType({}),
    check: Check | None = None,
) -> Copy:
    """Copies what the topic holds, exactly once, on Spark or by the same slices in plain processes. `check`: of the
    target and the copy."""
    copier = Ours(scene, transforms, props)
    remote = copier.add(topic, load.partitions)

    async def copy() -> tuple[Copy, int]:
        async with copier.running(once=True, module=_DRIVER if spark else _WITHOUT_SPARK) as pipeline:
            with Watch(
                scene.near_target, remote, load.partitions, lambda: roots(pipeline), scene.brokers, tick
            ) as watch:
                await until(lambda: _done(pipeline), pipeline)
            status = pipeline.status
            assert status.restarts == 0, status.errors
            assert sum(each.position for each in status.progress.values()) == load.total
            return watch.copied(load.total), sum(each.bytes for each in status.progress.values())

    copied, size = asyncio.run(copy())
    if check is not None:
        check(scene.near_target, remote)
    result = copied._replace(more={"runs_bytes_per_byte": round(copier.runs_bytes() / max(1, size), 6)})
    copier.forget()
    return result


# -- stock -------------------------------------------------------------------------------------------------------------


@contextmanager
def stock_running(
    scene: Scene,
    worker: ConnectWorker,
    topics: str,
    alias: str,
    props: Mapping[str, str] = MappingProxyType({}),
    **settings: object,
) -> Iterator[str]:
    """Stock's connector copies `topics` as `<alias>.<topic>`, for the time of the block."""
    config = stock_config(
        "Source", GivenCluster(alias, scene.source.bootstrap), scene.target, topics=topics, tasks_max=SLOTS
    )
    changed = {name.replace("_", "."): str(value) for name, value in settings.items()}
    with connector(worker, {**config, **changed, **props}) as name:
        yield name


class StockFailed(Exception):
    """A task of stock's has given up: at exactly once a busy broker's InvalidTxnStateException is enough (4.3.1)."""


def failed_tasks(worker: ConnectWorker, name: str) -> list[int]:
    return [each["id"] for each in worker.rest.status(name)["tasks"] if each["state"] == "FAILED"]


def stock(
    scene: Scene,
    worker: ConnectWorker,
    topic: str,
    load: Load,
    *,
    once: bool,
    tick: float = 0.05,
    props: Mapping[str, str] = MappingProxyType({}),
    check: Check | None = None,
) -> Copy:
    """Copies what the topic holds, in a worker that is at least once, or exactly (`once`). A run that stock gives up
    is made again. `check`: of the target and the copy."""
    for failures in range(_TRIES):
        alias = unique("stock")
        remote = create_topic(scene.near_target, f"{alias}.{topic}", load.partitions)
        try:
            copied = _stock(scene, worker, topic, load, alias, once=once, tick=tick, props=props)
            if check is not None:
                check(scene.near_target, remote)
            return copied._replace(more={"failed_runs": failures} if failures else {})
        except StockFailed as failed:
            print(f"stock failed: {failed}", flush=True)
        finally:
            delete_topic(scene.near_target, remote)
    raise StockFailed(f"{_TRIES} times, one after the other")


def _stock(
    scene: Scene,
    worker: ConnectWorker,
    topic: str,
    load: Load,
    alias: str,
    *,
    once: bool,
    tick: float,
    props: Mapping[str, str],
) -> Copy:
    pids, remote = [worker.process.pid], f"{alias}.{topic}"
    with (
        Watch(scene.near_target, remote, load.partitions, lambda: pids, scene.brokers, tick) as watch,
        stock_running(scene, worker, topic, alias, props) as name,
    ):

        def alive() -> None:
            if failed := failed_tasks(worker, name):
                raise StockFailed(f"tasks {failed} of {name}")

        watch.wait_grown(load.total, WITHIN, alive)
        if once:  # markers of transactions are among the offsets
            near = (GivenCluster(alias, scene.near_source), GivenCluster("", scene.near_target))
            wait_mirrored(*near, [topic], worker)
    assert once or watch.offsets == load.total, "stock has copied some records twice"
    return watch.copied(load.total)


def warm(scene: Scene, worker: ConnectWorker, *, once: bool = False) -> None:
    """Lets the worker's JVM, and those of the brokers, compile what copying needs, in both mirrors' ways: in the first
    seconds a broker takes two to four times as long."""
    load = Load(max(100_000, int(1_000_000 * SCALE)), 120)
    topic = filled(scene.near_source, load)
    stock(scene, worker, topic, load, once=once)
    ours(scene, topic, load)
    delete_topic(scene.near_source, topic)


# -- side by side ------------------------------------------------------------------------------------------------------


def in_turns(sides: Mapping[str, Callable[[], Copy]]) -> dict[str, Copy]:
    """Each side as often, one after the other, and the median of each."""
    taken: dict[str, list[Copy]] = {name: [] for name in sides}
    for _ in range(RUNS):
        for name, copy in sides.items():
            taken[name].append(copy())
    return {name: median(copies) for name, copies in taken.items()}
