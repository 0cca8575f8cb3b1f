"""A copy on a Spark Connect server by a driver with `pyspark-client` in the place of `pyspark` (docs/spark.md)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from bridge.local import Cluster
from bridge.local.processes import ManagedProcess
from tests.integration.copy_flow import CopyFlow
from tests.integration.drivers import copied, driven, server, until
from tests.support import produce
from tests.support.records import varied

__all__ = ["server"]


@pytest.fixture
def client(tmp_path: Path) -> Path:
    """The folder of `pyspark-client`, of the version of Spark that is installed here."""
    folder = tmp_path / "client"
    package = f"pyspark-client=={pyspark.__version__}"
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(folder),
        package,
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if "No matching distribution" in ran.stderr:
        pytest.skip(f"the index has no {package}")
    assert ran.returncode == 0, ran.stderr
    assert not (folder / "pyspark" / "jars").exists()
    return folder


def searches_first(pid: int, folder: Path) -> bool:
    """Whether a process looks for modules there before it looks anywhere else."""
    environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return any(each.startswith(f"PYTHONPATH={folder}".encode()) for each in environment)


def test_a_driver_with_the_client_alone_copies(
    source: Cluster,
    target: Cluster,
    server: tuple[ManagedProcess, str],
    client: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, address = server
    flow = CopyFlow(source, target, props={"spark.remote": address})
    topic = flow.topic(2)
    produce(flow.source.bootstrap, topic, varied(200, 0))
    partitions = flow.partitions()
    monkeypatch.syspath_prepend(client)  # children search where this process does

    async def copy() -> None:
        async with driven(flow.spec, partitions) as pipeline:
            await until(lambda: copied(pipeline) == 200, pipeline)
            assert pipeline.pid is not None
            assert searches_first(pipeline.pid, client)

    asyncio.run(copy())
    flow.assert_copied()
    flow.assert_runs_true()
