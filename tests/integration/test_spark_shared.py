"""Two connectors of one process in one Spark, which is lost and found again."""

from __future__ import annotations

import asyncio
import os
import signal
from functools import partial

import pytest

from bridge.local import Cluster
from bridge.model.copying import PipelineState
from bridge.pipeline.driver.launch import DriverPipeline, DriverPipelines
from tests.integration.copy_flow import CopyFlow
from tests.integration.drivers import copied, until
from tests.support import produce
from tests.support.processes import processes
from tests.support.records import varied

pytestmark = pytest.mark.long

_SHARED = {"spark.shared": "true"}


def jvms() -> list[int]:
    """Of the Sparks that connectors share here: a session of another test, in this process, may have left its own."""
    return [
        jvm
        for shared in processes(os.getpid(), "bridge.pipeline.driver.shared_spark_main")
        for jvm in processes(shared, "org.apache.spark")
    ]


def _has(pipeline: DriverPipeline, records: int) -> bool:
    return copied(pipeline) == records


async def _copy(flows: list[CopyFlow], topics: list[str], pipelines: list[DriverPipeline]) -> None:
    async def more(start: int, of: int = 2) -> None:
        for flow, topic in list(zip(flows, topics, strict=True))[:of]:
            await asyncio.to_thread(produce, flow.source.bootstrap, topic, varied(100, start))
        for pipeline in pipelines[:of]:
            await until(partial(_has, pipeline, start + 100), pipeline)

    first, second = pipelines
    await more(0)
    (jvm,) = jvms()
    assert second.pid is not None
    os.kill(second.pid, signal.SIGKILL)
    await more(100)
    assert [each.status.restarts for each in pipelines] == [0, 1]
    assert jvms() == [jvm]
    os.kill(jvm, signal.SIGKILL)
    await more(200)
    assert [each.status.restarts for each in pipelines] == [1, 2]
    assert len(jvms()) == 1
    await second.stop()
    assert second.status.state is PipelineState.STOPPED
    await more(300, of=1)
    assert first.status.restarts == 1


def test_two_connectors_copy_in_one_spark_and_one_goes_on_without_the_other(
    source: Cluster, target: Cluster
) -> None:
    flows = [CopyFlow(source, target, props=_SHARED) for _ in range(2)]
    topics = [flow.topic() for flow in flows]
    partitions = [flow.partitions() for flow in flows]

    async def run() -> None:
        launched = DriverPipelines()
        pipelines = [launched.start(flow.spec) for flow in flows]
        try:
            for pipeline, assigned in zip(pipelines, partitions, strict=True):
                pipeline.assign(assigned)
            await _copy(flows, topics, pipelines)
        finally:
            for pipeline in pipelines:
                await pipeline.stop()

    asyncio.run(run())
    for flow in flows:
        flow.assert_copied()
        flow.assert_runs_true()
    assert not jvms()
    assert not processes(os.getpid(), "bridge.pipeline.")
