"""Layouts as Spark jobs. Spark plans, places, retries and reports; records never cross the JVM."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

from bridge.pipeline import archive, jvm_logs
from bridge.pipeline.layouts import Slice

if TYPE_CHECKING:
    from pyspark import SparkContext

MASTER = "spark.master"
_LOCAL = re.compile(r"local(?:\[(?P<cores>\*|\d+)\])?")
_RETRIES = 4
_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    "spark.python.daemon.module": "bridge.pipeline.workers",
}
_ON_THIS_MACHINE = {
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""With a local master nobody else has to reach the driver; and no record crosses its JVM, so what a JVM does to become
fast would only take processors from the slices beside it."""


def spark_settings(name: str, props: Mapping[str, str]) -> dict[str, str]:
    """The `spark.*` keys of a configuration, over our defaults. Pure.

    `local[N]` becomes `local[N,4]`: with plain `local[N]` one lost worker ends the whole job.
    """
    given = {key: value for key, value in props.items() if key.startswith("spark.")}
    master = given.get(MASTER, "local[*]")
    settings = {**_DEFAULTS, "spark.app.name": f"mirror-bridge {name}"}
    settings |= (_ON_THIS_MACHINE if master.startswith("local") else {}) | given
    local = _LOCAL.fullmatch(master)
    if local is not None:
        settings[MASTER] = f"local[{local['cores'] or 1},{_RETRIES}]"
    # A second attempt beside the first one would fence it, and be fenced by it.
    settings["spark.speculation"] = "false"
    return settings


class SparkJobs:
    """One SparkContext. Blocking calls are made in threads of their own."""

    def __init__(self, name: str, props: Mapping[str, str], functions: Sequence[str] = ()) -> None:
        """`functions`: the transforms that slices call."""
        from pyspark import SparkConf, SparkContext

        settings = spark_settings(name, props)
        self._local = local = settings[MASTER].startswith("local")
        self._temporary = tempfile.TemporaryDirectory(prefix="mirror-bridge-")
        if not local and "spark.archives" not in settings:
            packed = Path(self._temporary.name) / f"{archive.NAME}.tar.gz"
            archive.build(packed, functions)
            settings |= archive.settings(packed)
        if (file := jvm_logs.configuration(settings, os.environ, Path(self._temporary.name))) is not None:
            os.environ[jvm_logs.VARIABLE] = str(file)
        os.environ["PYSPARK_PYTHON"] = settings.get(
            "spark.pyspark.python", sys.executable if local else archive.python()
        )
        conf = SparkConf().setAll(list(settings.items()))
        self._context: SparkContext = SparkContext(conf=conf)

    @property
    def slots(self) -> int:
        """How many slices run at a time: spark.default.parallelism, or the cores that Spark has."""
        return self._context.defaultParallelism

    def start(self, slices: Sequence[Slice]) -> Future[list[str]]:
        """Why each slice has ended; raises what Spark says of a job that broke."""
        future: Future[list[str]] = Future()
        group = f"layout-{slices[0].layout}"

        def run() -> None:
            try:
                self._context.setJobGroup(group, group, interruptOnCancel=False)
                data = self._context.parallelize(slices, len(slices))
                future.set_result(data.mapPartitions(_run).collect())
            except Exception as error:
                future.set_exception(error)

        threading.Thread(target=run, name=group, daemon=True).start()
        return future

    def cancel(self) -> None:
        """Kills the Python workers of what still runs, without any `finally` of theirs."""
        self._context.cancelAllJobs()

    def close(self) -> None:
        """Gives executors of a cluster back. A JVM on this machine ends with this process, and cleans up by itself: a
        second sooner."""
        if not self._local:
            self._context.stop()
        self._temporary.cleanup()


def _run(slices: Iterable[Slice]) -> Iterator[str]:
    from bridge.pipeline.slices import (
        run_slices,
    )  # not in the driver, which needs nothing of what slices import

    return run_slices(slices)
