"""Runs layouts as Spark jobs. Spark plans, places, retries and reports; records never cross the JVM."""

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

from bridge.kafka.config.login_modules import login_modules
from bridge.kafka.config.oauth import HTTP_HOSTS
from bridge.pipeline import archive, jvm_logs, submitting
from bridge.pipeline.layouts import Slice

if TYPE_CHECKING:
    from pyspark import SparkContext

MASTER = "spark.master"
_LOCAL = re.compile(r"local(?:\[(?P<cores>\*|\d+)\])?")
_RETRIES = 4
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_HIDDEN = "(?i)secret|pass(w|phrase)|token|credential|jaas|private|(access|account|api)[._-]?key"
_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    "spark.python.daemon.module": "bridge.pipeline.workers",
    # What Spark hides, by name or value, in its UI, its event log and its own log lines.
    "spark.redaction.regex": _HIDDEN,
    # Slices carry the clients' passwords: without this PySpark hands them to the JVM by a file.
    "spark.io.encryption.enabled": "true",
}
_AUTHENTICATE = "spark.authenticate"
_ON_THIS_MACHINE = {
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": _JAVA_OPTIONS,
}
"""With a local master nobody else has to reach the driver; and no record crosses its JVM, so what a JVM does to become
fast would only take processors from the slices beside it."""
_SOCKETS = "spark.python.unix.domain.socket."
_LONGEST_FOLDER = 60
"""Characters of a folder for sockets: the path of one has 104 at most."""
_LOCAL_ADDRESS = "SPARK_LOCAL_IP"


def spark_settings(name: str, props: Mapping[str, str]) -> dict[str, str]:
    """The `spark.*` keys of a configuration, over our defaults.

    `local[N]` becomes `local[N,4]`: with plain `local[N]` one lost worker ends the whole job.
    """
    given = {key: value for key, value in props.items() if key.startswith("spark.")}
    master = given.get(MASTER, "local[*]")
    settings = {**_DEFAULTS, "spark.app.name": f"mirror-bridge {name}"}
    settings |= (_ON_THIS_MACHINE if master.startswith("local") else {}) | given
    local = _LOCAL.fullmatch(master)
    if local is not None:
        settings[MASTER] = f"local[{local['cores'] or 1},{_RETRIES}]"
    if master == "local" or master.startswith("local["):
        # Spark makes a secret of its own for each driver, and nobody else is told it.
        settings.setdefault(_AUTHENTICATE, "true")
    if settings.get(_AUTHENTICATE, "").strip().lower() == "true":
        settings.setdefault("spark.network.crypto.enabled", "true")
    if (hosts := os.environ.get(HTTP_HOSTS)) and not master.startswith("local"):
        settings.setdefault(f"spark.executorEnv.{HTTP_HOSTS}", hosts)
    # A second attempt beside the first one would fence it, and be fenced by it.
    settings["spark.speculation"] = "false"
    return settings


def _sockets(folder: str) -> dict[str, str]:
    """Lets Python workers be reached by files that nobody else can open, without a token in their environment."""
    if len(folder) > _LONGEST_FOLDER:
        return {}
    return {f"{_SOCKETS}enabled": "true", f"{_SOCKETS}dir": folder}


class SparkJobs:
    """One SparkContext. Blocking calls are made in threads of their own."""

    def __init__(self, name: str, props: Mapping[str, str], functions: Sequence[str] = ()) -> None:
        """`functions`: the transforms that slices call."""
        settings = spark_settings(name, props)
        self._local = local = settings[MASTER].startswith("local")
        self._temporary = tempfile.TemporaryDirectory(prefix="mirror-bridge-")
        if not local and "spark.archives" not in settings:
            packed = Path(self._temporary.name) / f"{archive.NAME}.tar.gz"
            archive.build(packed, functions, login_modules(props))
            settings |= archive.settings(packed)
        if (file := jvm_logs.configuration(settings, os.environ, Path(self._temporary.name))) is not None:
            os.environ[jvm_logs.VARIABLE] = str(file)
        os.environ["PYSPARK_PYTHON"] = settings.get(
            "spark.pyspark.python", sys.executable if local else archive.python()
        )
        if local:
            settings = _sockets(self._temporary.name) | settings
            # Where Spark's UI listens, if there is one.
            os.environ.setdefault(_LOCAL_ADDRESS, "127.0.0.1")
        self._context: SparkContext = submitting.start(settings, _JAVA_OPTIONS, Path(self._temporary.name))

    @property
    def slots(self) -> int:
        """How many slices run at a time: spark.default.parallelism, or the cores that Spark has."""
        return self._context.defaultParallelism

    def start(self, slices: Sequence[Slice]) -> Future[list[str]]:
        """Starts a layout's job; its result is why each slice has ended, its exception what Spark says of a failed
        job."""
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
