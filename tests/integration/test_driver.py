"""The driver process on real Spark, as the service starts it."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from bridge.local import Cluster
from bridge.model.copying import Copied, PipelineSpec, PipelineState
from bridge.pipeline.launch import DriverPipeline, DriverPipelines
from tests.integration.test_copying import varied
from tests.support import produce
from tests.support.pipeline import CopyFlow

SECONDS = 180.0


@asynccontextmanager
async def driven(spec: PipelineSpec, partitions: Sequence[Copied]) -> AsyncIterator[DriverPipeline]:
    pipeline = DriverPipelines().start(spec)
    pipeline.assign(partitions)
    try:
        yield pipeline
    finally:
        await pipeline.stop()


async def until(holds: Callable[[], bool], pipeline: DriverPipeline) -> None:
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end, pipeline.status
        await asyncio.sleep(0.1)


def copied(pipeline: DriverPipeline) -> int:
    """Positions of all partitions together."""
    return sum(each.position for each in pipeline.status.progress.values())


def python_workers(driver: int) -> list[int]:
    """Processes in which Spark runs slices: forks of its Python daemon, below the driver's JVM."""
    parents: dict[int, int] = {}
    daemons: set[int] = set()
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            parents[int(each.name)] = int((each / "stat").read_text().rpartition(")")[2].split()[1])
            if b"bridge.pipeline.workers" in (each / "cmdline").read_bytes():
                daemons.add(int(each.name))

    def ours(pid: int) -> bool:
        return pid == driver or (pid in parents and ours(parents[pid]))

    return [pid for pid in daemons if parents.get(pid) in daemons and ours(pid)]


async def _copy_through_kills(flow: CopyFlow, topic: str, partitions: Sequence[Copied]) -> None:
    loop = asyncio.get_running_loop()

    async def more(start: int) -> None:
        await loop.run_in_executor(None, produce, flow.source.bootstrap, topic, varied(200, start))

    async with driven(flow.spec, partitions) as pipeline:
        await more(0)
        await until(lambda: copied(pipeline) == 200, pipeline)
        assert pipeline.status.state is PipelineState.COPYING
        assert pipeline.pid is not None
        workers = python_workers(pipeline.pid)
        assert workers
        for each in workers:
            os.kill(each, signal.SIGKILL)
        await more(200)
        await until(lambda: copied(pipeline) == 400, pipeline)
        # Spark has tried the slice again: no job of ours has ended.
        assert (pipeline.status.restarts, pipeline.status.layout) == (0, 1)
        os.kill(pipeline.pid, signal.SIGKILL)
        await more(400)
        await until(lambda: copied(pipeline) == 600, pipeline)
        assert pipeline.status.restarts == 1
    stopped = pipeline.status
    assert stopped.state is PipelineState.STOPPED


def test_a_worker_and_a_driver_are_killed_and_others_go_on(source: Cluster, target: Cluster) -> None:
    flow = CopyFlow(source, target)
    topic = flow.topic()
    asyncio.run(_copy_through_kills(flow, topic, flow.partitions()))
    flow.assert_copied()
    flow.assert_runs_true()
