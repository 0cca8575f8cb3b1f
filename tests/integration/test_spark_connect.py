"""The copy on a Spark Connect server: the driver has no JVM, and the server nothing of ours but what it is sent."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bridge.local import Cluster
from bridge.local.processes import ManagedProcess
from bridge.model.copying import PipelineState
from bridge.spark import audit, register, translate_offsets
from bridge.spark.rejected import SourceRejected
from tests.integration.copy_flow import CopyFlow
from tests.integration.drivers import (
    connect_server,
    copied,
    driven,
    python_workers,
    server,
    until,
)
from tests.support import create_topic, produce, read, unique
from tests.support.processes import processes
from tests.support.records import varied
from tests.support.topics import wait_transactions_ended

pytestmark = pytest.mark.long
__all__ = ["server"]


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


def test_tables_the_sink_and_positions_in_a_session_of_spark_connect(
    source: Cluster, target: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the server's Python has this package."""
    # PySpark sets it for good: every later session of this process would have to be one of Spark Connect, too.
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    flow = CopyFlow(source, target)
    topic = flow.topic()
    produce(source.bootstrap, topic, varied(50, 0))
    flow.copy()
    replayed = create_topic(target.bootstrap, unique("replayed"))
    config = {
        "connector.class": "MirrorGroupOffsetConnector",
        "source.cluster.alias": flow.alias,
        "source.cluster.bootstrap.servers": source.bootstrap,
        "target.cluster.bootstrap.servers": target.bootstrap,
    }
    with connect_server(tmp_path, Path(sys.executable), Path()) as (_, address):
        spark = SparkSession.builder.remote(address).create()
        try:
            register(spark)
            brokers = {"kafka.bootstrap.servers": source.bootstrap}
            records = spark.read.format("mirror-records").options(**brokers).option("subscribe", topic).load()
            assert records.count() == 50
            written = records.select("key", "value", "headers", "timestamp").write.format("mirror-records")
            written.options(**{"kafka.bootstrap.servers": target.bootstrap, "topic": replayed}).mode(
                "append"
            ).save()
            positions = spark.createDataFrame([(topic, 0, 7)], "topic string, partition int, offset long")
            (answer,) = translate_offsets(positions, config).collect()
            assert (answer.target_topic, answer.verdict) == (flow.remote(topic), "exact")
            with pytest.raises(SourceRejected, match="needs a classic Spark session"):
                audit(spark, config)
        finally:
            spark.stop()
    wait_transactions_ended(target.bootstrap, replayed)
    copies = read(target.bootstrap, replayed, committed_only=True)
    assert [each.value for each in copies] == [each.value for each in read(source.bootstrap, topic)]
