"""The copy on a Spark Connect server: the driver has no JVM, and the server nothing of ours but what it is sent."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from bridge.local import Cluster
from bridge.local.processes import ManagedProcess
from bridge.local.spark_classes import spark_environment
from bridge.model.copying import PipelineState
from tests.integration.test_copying import varied
from tests.integration.test_driver import copied, driven, python_workers, until
from tests.support import produce
from tests.support.pipeline import CopyFlow
from tests.support.planted import processes

_HOME = Path(pyspark.__file__).parent
_PORT = re.compile(r"Spark Connect server started at: [^\s,]*?:(\d+)")
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[ManagedProcess, str]]:
    """A server with two cores, and its address."""
    log = tmp_path / "server.log"
    settings = {
        "spark.master": "local[2,4]",
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": _SHORT_LIVED,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.io.encryption.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.log.level": "INFO",
    }
    process = ManagedProcess(
        "Spark Connect server",
        [
            str(_HOME / "bin" / "spark-submit"),
            *(part for key, value in settings.items() for part in ("--conf", f"{key}={value}")),
            *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
            "spark-internal",
        ],
        log,
        environment={
            **spark_environment(),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": "",
            "SPARK_HOME": str(_HOME),
            "PYSPARK_PYTHON": sys.executable,
        },
    )
    try:
        process.start()
        process.wait_until(lambda: _PORT.search(log.read_text()) is not None, 120, "the server listens")
        match = _PORT.search(log.read_text())
        assert match is not None
        yield process, f"sc://localhost:{match[1]}"
    finally:
        process.stop()


def test_a_connect_server_copies_loses_a_worker_and_comes_back(
    source: Cluster, target: Cluster, server: tuple[ManagedProcess, str], tmp_path: Path
) -> None:
    process, address = server
    flow = CopyFlow(source, target, props={"spark.remote": address, "target.client.id": "planted-f00d"})
    topic = flow.topic(2)
    partitions = flow.partitions()

    async def copy() -> None:
        loop = asyncio.get_running_loop()

        async def more(start: int) -> None:
            await loop.run_in_executor(None, produce, flow.source.bootstrap, topic, varied(200, start))

        async with driven(flow.spec, partitions) as pipeline:
            await more(0)
            await until(lambda: copied(pipeline) == 200, pipeline)
            assert pipeline.pid is not None
            assert not processes(pipeline.pid, "org.apache.spark")
            lost = python_workers(process.pid, "pyspark.daemon")
            assert lost
            for each in lost:
                os.kill(each, signal.SIGKILL)
            await more(200)
            await until(lambda: copied(pipeline) == 400, pipeline)
            assert (pipeline.status.restarts, pipeline.status.layout) == (0, 1)
            process.kill()
            named = f"no Spark Connect server answers at {address}"
            await until(lambda: any(named in each for each in pipeline.status.errors), pipeline)
        assert pipeline.status.state is PipelineState.STOPPED

    asyncio.run(copy())
    flow.assert_copied()
    flow.assert_runs_true()
    said = (tmp_path / "server.log").read_text()
    assert "planted-f00d" not in said
