"""Copies on a real Spark: what starts their drivers, and the Python workers below them."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pyspark
import pytest

from bridge import submit
from bridge.local.archives import spark_environment
from bridge.local.processes import ManagedProcess
from bridge.model.copying import Copied, PipelineSpec
from bridge.pipeline.driver.launch import DriverPipeline, DriverPipelines
from tests.integration.copy_flow import CopyFlow
from tests.support.processes import parent, processes
from tests.support.waits import WAIT

_HOME = Path(pyspark.__file__).parent
SUBMIT = str(_HOME / "bin" / "spark-submit")
_LOCAL = ("--master", "local[2,4]")
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_PORT = re.compile(r"Spark Connect server started at: [^\s,]*?:(\d+)")
_NEEDED = ("numpy", "numpy.libs", "pandas", "pyarrow", "dateutil", "pytz", "six.py", "tzdata")
"""What Spark asks of a server's Python for functions over Arrow."""


@asynccontextmanager
async def driven(spec: PipelineSpec, partitions: Sequence[Copied]) -> AsyncIterator[DriverPipeline]:
    """A driver in a process of its own, as the service starts it, for the time of the block."""
    pipeline = DriverPipelines().start(spec)
    pipeline.assign(partitions)
    try:
        yield pipeline
    finally:
        await pipeline.stop()


async def until(holds: Callable[[], bool], pipeline: DriverPipeline) -> None:
    end = time.monotonic() + WAIT
    while not holds():
        assert time.monotonic() < end, pipeline.status
        await asyncio.sleep(0.1)


def copied(pipeline: DriverPipeline) -> int:
    """Positions of all partitions together."""
    return sum(each.position for each in pipeline.status.progress.values())


def python_workers(driver: int, module: str = "bridge.pipeline.slices.workers") -> list[int]:
    """Processes in which Spark runs slices: forks of a Python daemon (`module`) below the driver."""
    daemons = processes(driver, module)
    return [pid for pid in daemons if parent(pid) in daemons]


def config(flow: CopyFlow, topics: str, **more: str) -> Mapping[str, str]:
    """The configuration of a source connector that copies these topics."""
    return {
        "connector.class": "BridgeMirrorSourceConnector",
        "source.cluster.alias": flow.alias,
        "target.cluster.alias": "target",
        "source.cluster.bootstrap.servers": flow.source.bootstrap,
        "target.cluster.bootstrap.servers": flow.target.bootstrap,
        "topics": topics,
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "heartbeats.replication.enabled": "false",
        "spark.master": "local[2]",
        **more,
    }


def submitted(
    folder: Path, props: Mapping[str, str], *arguments: str, options: Sequence[str] = _LOCAL
) -> ManagedProcess:
    """A copy by spark-submit. `arguments`: of the copy; `options`: of spark-submit."""
    file = folder / "mirror.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in props.items()))
    java = f"spark.driver.extraJavaOptions={_SHORT_LIVED}"
    settings = ("--conf", java, "--conf", "spark.driver.host=localhost")
    return ManagedProcess(
        "spark-submit",
        [SUBMIT, *options, *settings, submit.__file__, "--config", str(file), *arguments],
        folder / "submit.log",
        environment={**os.environ, **spark_environment(), "PYSPARK_PYTHON": sys.executable},
    )


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
            SUBMIT,
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
    """A Spark Connect server whose Python has nothing of ours, nor what we need."""
    bare = tmp_path / "packages"
    bare.mkdir()
    for name in _NEEDED:
        (bare / name).symlink_to(_HOME.parent / name)
    python = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    with connect_server(tmp_path, python, bare) as (process, address):
        yield process, address


def python_without(package: str, folder: Path) -> Path:
    """Makes a command that is our Python without a package."""
    hidden = folder / "hidden"
    hidden.mkdir()
    (hidden / f"{package}.py").write_text(
        f"raise ModuleNotFoundError(\"No module named '{package}'\", name='{package}')\n"
    )
    command = folder / "python"
    command.write_text(f'#!/bin/sh\nPYTHONPATH="{hidden}:$PYTHONPATH" exec {sys.executable} "$@"\n')
    command.chmod(0o755)
    return command
