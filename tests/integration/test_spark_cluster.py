"""The same job on a standalone master with two workers, which have nothing of ours but what the driver sends them."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyspark
import pytest

from bridge.local import Cluster
from bridge.local.processes import ManagedProcess
from bridge.model.copying import Transform
from bridge.pipeline.archive import python
from tests.integration.test_copying import varied
from tests.integration.test_driver import copied, driven, until
from tests.support import produce
from tests.support.pipeline import CopyFlow

_HOME = Path(pyspark.__file__).parent
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_JAVA = "org.apache.spark.deploy"


def short_lived() -> str:
    """Options of all JVMs of the cluster, with the archive of a driver's classes (`quick_drivers`): they load much the
    same."""
    return f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {os.environ.get('SPARK_SUBMIT_OPTS', '')}".strip()


@pytest.fixture
def master(tmp_path: Path, secret: str) -> Iterator[str]:
    """Address of a master with two workers of one core each, which ask for the secret if there is one. Their Python is
    the one that ours was made from, without our environment."""
    bare = tmp_path / "bin"
    bare.mkdir()
    (bare / python()).symlink_to(Path(sys.base_prefix) / "bin" / python())
    environment = {
        "PATH": os.pathsep.join([str(bare), "/usr/bin", "/bin"]),
        "PYTHONPATH": "",
        "VIRTUAL_ENV": "",
        "SPARK_HOME": str(_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(tmp_path / "work"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": short_lived(),
    }
    command = [str(_HOME / "bin" / "spark-class")]
    own = tmp_path / "spark.properties"
    own.touch(mode=0o600)
    own.write_text(f"spark.authenticate=true\nspark.authenticate.secret={secret}\n" if secret else "")
    log = tmp_path / "master.log"
    ports = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", "--properties-file", str(own)]
    leader = ManagedProcess(
        "Spark master", [*command, f"{_JAVA}.master.Master", *ports], log, environment=environment
    )
    workers: list[ManagedProcess] = []
    try:
        leader.start()
        leader.wait_until(lambda: _MASTER.search(log.read_text()) is not None, 60, "the master listens")
        match = _MASTER.search(log.read_text())
        assert match is not None
        for number in range(2):
            worker = ManagedProcess(
                f"Spark worker {number}",
                [*command, f"{_JAVA}.worker.Worker", *ports, "--cores", "1", "--memory", "1g", match[1]],
                tmp_path / f"worker-{number}.log",
                environment=environment,
            )
            worker.start()
            workers.append(worker)
        leader.wait_until(
            lambda: log.read_text().count("Registering worker") == 2, 60, "both workers are there", workers
        )
        yield match[1]
    finally:
        for process in (*workers, leader):
            process.stop()


TRANSFORM = """
import own_words

def shout(batch):
    return own_words.upper(batch)
"""
WORDS = """
import pyarrow as pa

def upper(batch):
    values = [None if value is None else value.upper() for value in batch.column("value").to_pylist()]
    return batch.set_column(5, "value", pa.array(values, pa.binary()))
"""


def command_lines() -> list[str]:
    """Of all processes of this machine."""
    collected = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            collected.append(each.read_bytes().decode(errors="replace"))
    assert any("org.apache.spark.executor" in each for each in collected)
    return collected


@pytest.mark.parametrize(
    ("shouts", "secret"),
    [(False, "known-to-all-of-them"), (True, "")],
    ids=["as it is, with authentication", "through a transform, without"],
)
def test_slices_run_on_workers_that_have_nothing_of_ours(
    source: Cluster,
    target: Cluster,
    master: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    shouts: bool,
    secret: str,
) -> None:
    """Nor of the user's: modules of transforms come with what they import. Spark's secret is on no command line."""
    props = {
        "spark.master": master,
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.executor.extraJavaOptions": short_lived(),
        "spark.driver.extraJavaOptions": short_lived(),
    }
    if secret:
        props |= {"spark.authenticate": "true", "spark.authenticate.secret": secret}
    flow = CopyFlow(source, target, props=props)
    if shouts:
        own = tmp_path / "own"
        own.mkdir()
        (own / "own_shouting.py").write_text(TRANSFORM)
        (own / "own_words.py").write_text(WORDS)
        monkeypatch.syspath_prepend(own)
        flow.transforms = [Transform("shout", "own_shouting.shout", {})]
    topic = flow.topic(4)
    produce(source.bootstrap, topic, [*varied(100), *(each for each in varied(100, 100))])
    partitions = flow.partitions()

    async def copy() -> None:
        async with driven(flow.spec, partitions) as pipeline:
            await until(lambda: copied(pipeline) == 200, pipeline)
            assert not secret or not [each for each in command_lines() if secret in each]

    asyncio.run(copy())
    if shouts:
        for partition in range(4):
            upper = [each.value and each.value.upper() for each in flow.original(topic, partition)]
            assert [each.value for each in flow.copies(topic, partition)] == upper
    else:
        flow.assert_copied()
    flow.assert_runs_true()
    executors = sorted(path.name for path in (tmp_path / "work").glob("app-*/*") if path.is_dir())
    assert executors == ["0", "1"], "each worker had one"
