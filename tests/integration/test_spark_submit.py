"""The copy as an application of spark-submit, which has the JVM, the master and the settings."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from bridge import submit
from bridge.local import Cluster, eventually
from bridge.local.archives import spark_environment
from tests.integration.copy_flow import CopyFlow
from tests.integration.drivers import SUBMIT, config, python_workers, submitted
from tests.support import create_topic, produce, unique
from tests.support.messages import message
from tests.support.processes import processes
from tests.support.records import varied
from tests.support.waits import WAIT

pytestmark = pytest.mark.long


def test_a_submitted_copy_loses_a_worker_and_its_driver_and_ends_with_spark(
    source: Cluster, target: Cluster, tmp_path: Path
) -> None:
    flow, mark = CopyFlow(source, target), unique("orders")
    topic = create_topic(source.bootstrap, mark)
    flow.topics.append(topic)
    props = {**config(flow, mark, name=mark), "refresh.topics.interval.seconds": "1"}
    del props["spark.master"]  # spark-submit has it
    process = submitted(tmp_path, props)

    def more(start: int) -> None:
        produce(source.bootstrap, topic, varied(100, start))
        eventually(flow.assert_copied, WAIT, what=f"{start + 100} records are copied", watched=[process])

    try:
        process.start()
        more(0)
        workers = python_workers(process.pid)
        assert workers
        for each in workers:
            os.kill(each, signal.SIGKILL)
        more(100)
        (driver,) = processes(process.pid, "bridge.pipeline.driver.main")
        os.kill(driver, signal.SIGKILL)
        more(200)
        ours = [*processes(process.pid, "bridge.pipeline.driver.main"), *processes(process.pid, "submit.py")]
        assert len(processes(process.pid, "org.apache.spark")) <= 1, "one JVM for all drivers"
    finally:
        process.stop()
    eventually(
        lambda: not any(Path(f"/proc/{each}").exists() for each in ours), WAIT, what="all ends with Spark"
    )
    flow.assert_runs_true()


def test_spark_refuses_cluster_mode_on_a_standalone_master() -> None:
    """As docs/spark.md says: should that end, it is one way more to run a copy."""
    done = subprocess.run(
        [
            SUBMIT,
            "--master",
            "spark://localhost:1",
            "--deploy-mode",
            "cluster",
            submit.__file__,
            "--config",
            "none",
        ],
        capture_output=True,
        text=True,
        env={**os.environ, **spark_environment()},
        timeout=WAIT,
        check=False,
    )
    assert done.returncode != 0
    assert message("spark.no_cluster_mode") in done.stderr
