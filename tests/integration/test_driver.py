"""The driver process on real Spark, as the service starts it."""

from __future__ import annotations

import asyncio
import html
import json
import os
import re
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from bridge.local import NO_AUTHORITIES, Cluster
from bridge.model.copying import Copied, PipelineState
from tests.integration.copy_flow import CopyFlow
from tests.integration.drivers import copied, driven, python_without, python_workers, until
from tests.support import eventually, produce
from tests.support.messages import message
from tests.support.processes import parent, processes
from tests.support.records import varied
from tests.support.waits import WAIT


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
        # Of the early daemon, which is the driver's own child.
        assert {parent(parent(each)) for each in workers} == {pipeline.pid}
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
        (jvm,) = processes(pipeline.pid, "org.apache.spark")
        os.kill(jvm, signal.SIGKILL)
        await more(600)
        await until(lambda: copied(pipeline) == 800, pipeline)
        assert pipeline.status.restarts == 2
    stopped = pipeline.status
    assert stopped.state is PipelineState.STOPPED


def test_a_worker_a_driver_and_a_jvm_are_killed_and_others_go_on(
    source: Cluster, target: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of whoever starts the service: what they have for sessions of Spark Connect of their own is not for its drivers.
    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost:1")
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    flow = CopyFlow(source, target)
    topic = flow.topic()
    asyncio.run(_copy_through_kills(flow, topic, flow.partitions()))
    flow.assert_copied()
    flow.assert_runs_true()


async def _copy_under_a_session(flow: CopyFlow, topic: str, partitions: Sequence[Copied]) -> None:
    loop = asyncio.get_running_loop()

    async def more(start: int) -> None:
        await loop.run_in_executor(None, produce, flow.source.bootstrap, topic, varied(200, start))

    async with driven(flow.spec, partitions) as pipeline:
        await more(0)
        await until(lambda: copied(pipeline) == 200, pipeline)
        assert pipeline.pid is not None
        for each in python_workers(pipeline.pid):
            os.kill(each, signal.SIGKILL)
        await more(200)
        await until(lambda: copied(pipeline) == 400, pipeline)
        assert (pipeline.status.restarts, pipeline.status.layout) == (0, 1)
        ui = pipeline.status.spark_ui
        query = await loop.run_in_executor(None, eventually_shown, ui)
    name = f"{flow.spec.name}, layout 1"
    assert query["description"] == f"{name}: 1 slice(s)"
    assert f"MapInArrow {name}(" in query["page"]
    assert flow.target.bootstrap not in str(query)
    assert pipeline.status.state is PipelineState.STOPPED


def eventually_shown(ui: str) -> dict[str, Any]:
    """The query that runs, once its rows are counted while it does."""
    query: dict[str, Any] = {}

    def shown() -> None:
        with httpx.Client(base_url=f"{ui}/api/v1/applications", timeout=60.0, verify=NO_AUTHORITIES) as api:
            (application,) = api.get("").json()
            (query_now,) = api.get(f"/{application['id']}/sql?details=true&planDescription=true").json()
            # The API has the counts of queries that have ended only.
            page = html.unescape(api.get(f"{ui}/SQL/execution/?id={query_now['id']}").text)
        query.update(query_now, page=page)
        assert query["status"] == "RUNNING"
        metrics = re.search(r'"name":"MapInArrow".*?"metrics":(\[.*?\])', page)
        assert metrics is not None, page
        counted = {each["name"]: each["value"] for each in json.loads(metrics[1])}
        assert counted.get("number of output rows", "0") != "0", counted
        assert counted.get("data returned from Python workers", "0.0 B") != "0.0 B", counted

    eventually(shown, WAIT, what="Spark's UI counts rows")
    return query


@pytest.mark.long
def test_sparks_ui_shows_what_is_copied_and_a_lost_worker_ends_nothing(
    source: Cluster, target: Cluster
) -> None:
    ui = {"spark.ui.enabled": "true", "spark.ui.port": "0", "spark.executor.heartbeatInterval": "1s"}
    flow = CopyFlow(source, target, props=ui)
    topic = flow.topic()
    asyncio.run(_copy_under_a_session(flow, topic, flow.partitions()))
    flow.assert_copied()
    flow.assert_runs_true()


@pytest.mark.long
def test_workers_without_pyarrow_are_named_where_sparks_ui_needs_it(
    source: Cluster, target: Cluster, tmp_path: Path
) -> None:
    python = python_without("pyarrow", tmp_path)
    flow = CopyFlow(
        source,
        target,
        props={"spark.ui.enabled": "true", "spark.ui.port": "0", "spark.pyspark.python": str(python)},
    )
    flow.topic()
    partitions = flow.partitions()

    async def copy() -> None:
        async with driven(flow.spec, partitions) as pipeline:
            await until(lambda: bool(pipeline.status.errors), pipeline)
            said = message("copying.spark_failed", layout=1, why=message("copying.no_pyarrow"))
            assert pipeline.status.errors == [said]

    asyncio.run(copy())
