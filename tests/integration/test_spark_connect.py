"""The copy on a Spark Connect server: the driver has no JVM, and the server nothing of ours but what it is sent."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from bridge.local import Cluster
from bridge.local.processes import ManagedProcess
from bridge.local.spark_classes import spark_environment
from bridge.model.copying import PipelineState
from bridge.spark import audit, register, translate_offsets
from bridge.spark.rejected import SourceRejected
from tests.integration.test_copying import varied
from tests.integration.test_driver import copied, driven, python_workers, until
from tests.support import create_topic, produce, read, unique
from tests.support.pipeline import CopyFlow
from tests.support.planted import processes
from tests.support.topics import wait_transactions_ended

pytestmark = pytest.mark.long

_HOME = Path(pyspark.__file__).parent
_PORT = re.compile(r"Spark Connect server started at: [^\s,]*?:(\d+)")
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


_NEEDED = ("numpy", "numpy.libs", "pandas", "pyarrow", "dateutil", "pytz", "six.py", "tzdata")
"""What Spark asks of a server's Python for functions over Arrow."""


@contextmanager
def connect_server(folder: Path, python: Path, packages: Path) -> Iterator[tuple[ManagedProcess, str]]:
    """A server with two cores, and its address. `python`: what runs tasks, with `packages` beside PySpark."""
    log = folder / "server.log"
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
            "PYTHONPATH": str(packages),
            "SPARK_HOME": str(_HOME),
            "PYSPARK_PYTHON": str(python),
        },
        directory=folder,
    )
    try:
        process.start()
        process.wait_until(lambda: _PORT.search(log.read_text()) is not None, 120, "the server listens")
        match = _PORT.search(log.read_text())
        assert match is not None
        yield process, f"sc://localhost:{match[1]}"
    finally:
        process.stop()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[ManagedProcess, str]]:
    """Its Python has nothing of ours, nor what we need."""
    bare = tmp_path / "packages"
    bare.mkdir()
    for name in _NEEDED:
        (bare / name).symlink_to(_HOME.parent / name)
    python = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    with connect_server(tmp_path, python, bare) as (process, address):
        yield process, address


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
