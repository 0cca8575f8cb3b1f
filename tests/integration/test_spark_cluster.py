"""The same job on a standalone master with two workers, which have nothing of ours but what the driver sends them."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pyspark
import pytest

from bridge.local import Cluster
from bridge.local.processes import ManagedProcess
from bridge.model.copying import Transform
from bridge.pipeline.driver.archive import python
from tests.integration.copy_flow import CopyFlow
from tests.integration.drivers import config, copied, driven, submitted, until
from tests.support import create_topic, eventually, produce, unique
from tests.support.records import varied
from tests.support.waits import WAIT

pytestmark = pytest.mark.long

_HOME = Path(pyspark.__file__).parent
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_JAVA = "org.apache.spark.deploy"


def short_lived() -> str:
    """Options of all JVMs of the cluster, with the archive of a driver's classes (`quick_drivers`): they load much the
    same."""
    return f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {os.environ.get('SPARK_SUBMIT_OPTS', '')}".strip()


class Standalone(NamedTuple):
    """A master with two workers of one core each. `work`: the folders of executors, by application."""

    address: str
    work: Path
    secrets: Path
    """The file with the settings that all of them share."""
    processes: Sequence[ManagedProcess]


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory, secret: str) -> Iterator[Standalone]:
    """Its processes ask for the secret if there is one. Their Python is the one that ours was made from, without our
    environment."""
    tmp_path = tmp_path_factory.mktemp("standalone")
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
        leader.wait_until(lambda: _MASTER.search(log.read_text()) is not None, WAIT, "the master listens")
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
            lambda: log.read_text().count("Registering worker") == 2, WAIT, "both workers are there", workers
        )
        yield Standalone(match[1], tmp_path / "work", own, [leader, *workers])
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


def executors_of(standalone: Standalone) -> dict[str, int]:
    """Returns process ids of the executors that live, by their names: each has a folder of its own."""
    found = dict[str, int]()
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            folder = (each / "cwd").readlink()
            java = b"CoarseGrainedExecutorBackend" in (each / "cmdline").read_bytes()
            if java and folder.is_relative_to(standalone.work):
                found[folder.name] = int(each.name)
    return found


SECRET = "known-to-all-of-them"


@pytest.mark.parametrize(
    ("shouts", "secret"),
    [
        pytest.param(False, "", id="as it is", marks=pytest.mark.soak),
        pytest.param(True, SECRET, id="through a transform, with authentication"),
    ],
    scope="module",
)
def test_slices_run_on_workers_that_have_nothing_of_ours(
    source: Cluster,
    target: Cluster,
    master: Standalone,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    shouts: bool,
    secret: str,
) -> None:
    """Nor of the user's: modules of transforms come with what they import. Spark's secret is on no command line."""
    props = {
        "spark.master": master.address,
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
            os.kill(executors_of(master)["0"], signal.SIGKILL)
            await asyncio.to_thread(produce, source.bootstrap, topic, varied(200, 200))
            await until(lambda: copied(pipeline) == 400, pipeline)
            assert (pipeline.status.restarts, pipeline.status.layout) == (0, 1), "Spark has tried it again"

    asyncio.run(copy())
    if shouts:
        for partition in range(4):
            upper = [each.value and each.value.upper() for each in flow.original(topic, partition)]
            assert [each.value for each in flow.copies(topic, partition)] == upper
    else:
        flow.assert_copied()
    flow.assert_runs_true()
    executors = sorted(path.name for path in master.work.glob("app-*/*") if path.is_dir())
    assert executors == ["0", "1", "2"], "each worker had one, and one had another"


@pytest.mark.parametrize("secret", [SECRET], ids=["with authentication"], scope="module")
def test_spark_submit_copies_on_a_cluster(
    source: Cluster, target: Cluster, master: Standalone, tmp_path: Path, secret: str
) -> None:
    flow, mark = CopyFlow(source, target), unique("orders")
    topic = create_topic(source.bootstrap, mark, 2)
    flow.topics.append(topic)
    produce(source.bootstrap, topic, [*varied(100), *(replace(each, partition=1) for each in varied(100))])
    props = {
        **config(flow, mark, name=mark),
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.executor.extraJavaOptions": short_lived(),
    }
    del props["spark.master"]  # spark-submit has it
    file = str(master.secrets)
    process = submitted(
        tmp_path, props, "--until-caught-up", options=("--master", master.address, "--properties-file", file)
    )
    try:
        process.start()
        eventually(flow.assert_copied, WAIT, what="all is copied", watched=[process, *master.processes])
        assert not [each for each in command_lines() if secret in each]
    finally:
        process.stop()
    flow.assert_runs_true()
