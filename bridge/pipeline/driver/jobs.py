"""Runs layouts as Spark jobs. Spark plans, places, retries and reports; records never cross the JVM.

Slices are partitions of an RDD. With Spark's UI they are rows of a DataFrame instead, and yield rows of what they have
copied, which the UI counts: a session for that takes seconds and 130 MB more (docs/decisions/0057).

How the driver's JVM logs: one JSON object a line, as the driver itself does (see bridge.logs.forward).
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from bridge.errors import ConfigError, ConfigRejected
from bridge.kafka.config.oauth import login_modules
from bridge.model.addresses import REMOTE
from bridge.pipeline.driver import archive, submitting
from bridge.pipeline.driver.spark_problem import SparkProblem, error_line, missing_package, reach_master
from bridge.pipeline.driver.spark_settings import (
    DAEMON_MODULE,
    JAVA_OPTIONS,
    MASTER,
    UI,
    is_shared,
    own_slots,
    shows_ui,
    sockets,
    spark_settings,
)
from bridge.pipeline.driver.submitting import is_submitted
from bridge.pipeline.layouts.slots import Slice
from bridge.pipeline.slices.early_daemon import ADDRESS, EarlyDaemon
from bridge.pipeline.slices.workers import MODULE as WORKERS

if TYPE_CHECKING:
    from pyspark import SparkContext


VARIABLE = "LOG4J_CONFIGURATION_FILE"
_OPTIONS = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
_LINE = ",".join(
    (
        "{\"time\":\"%d{yyyy-MM-dd'T'HH:mm:ss.SSS'Z'}{UTC}\"",
        '"level":"%p"',
        '"process":"jvm"',
        '"logger":"%c"',
        '"message":"%enc{%m}{JSON}"',
        '"traceback":"%enc{%ex}{JSON}"}%n',
    )
)
_CONFIGURATION = f"""\
status = error
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.alwaysWriteExceptions = false
appender.stderr.layout.pattern = {_LINE}
"""
T = TypeVar("T")
R = TypeVar("R")
_LOCAL_ADDRESS = "SPARK_LOCAL_IP"
_OF_CONNECT = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_LOCAL_REMOTE")
"""Make PySpark refuse a Spark of this process's own. Whoever starts us may have them for sessions of their own; here
`spark.remote` says that there is a server."""
_ARROW = "pyarrow"
_EXECUTOR_ENVIRONMENT = "spark.executorEnv."
_NOTHING: Mapping[str, str] = MappingProxyType({})


def configuration(settings: Mapping[str, str], environment: Mapping[str, str], folder: Path) -> Path | None:
    """The file, written to `folder`; None where an operator has chosen another configuration of log4j."""
    chosen = VARIABLE in environment or any("log4j" in settings.get(option, "") for option in _OPTIONS)
    if chosen:
        return None
    file = folder / "log4j2.properties"
    file.write_text(_CONFIGURATION, "utf-8")
    return file


class RowJobs(Protocol):
    """Runs layouts as queries; see bridge.pipeline.queries.rows."""

    def run(self, name: str, slices: Sequence[Slice]) -> list[str]: ...


class SparkStart:
    """A SparkContext, and the folder that it needs for as long as it runs."""

    def __init__(
        self,
        name: str,
        props: Mapping[str, str],
        functions: Sequence[str] = (),
        defaults: Mapping[str, str] = _NOTHING,
    ) -> None:
        """`functions`: the transforms that tasks call. `defaults` hold where `props` have no other value. Raises
        SparkProblem, and ConfigRejected."""
        if REMOTE in props:
            why = f"this runs in a Spark of its own: {REMOTE} is for copying; give spark.master, or leave it out"
            raise ConfigRejected([ConfigError(REMOTE, why)])
        settings = spark_settings(name, {**defaults, **props})
        self._local = local = settings[MASTER].startswith("local")
        if not is_submitted():
            reach_master(settings[MASTER])
        for variable in _OF_CONNECT:
            os.environ.pop(variable, None)
        self._temporary = tempfile.TemporaryDirectory(prefix="mirror-bridge-")
        if not local and "spark.archives" not in settings:
            packed = Path(self._temporary.name) / f"{archive.NAME}.tar.gz"
            arrow = [_ARROW] if shows_ui(settings) else []
            archive.build(packed, functions, [*login_modules(props), *arrow])
            settings |= archive.settings(packed)
        if (file := configuration(settings, os.environ, Path(self._temporary.name))) is not None:
            os.environ[VARIABLE] = str(file)
        os.environ["PYSPARK_PYTHON"] = settings.get(
            "spark.pyspark.python", sys.executable if local else archive.python()
        )
        if local:
            settings = sockets(self._temporary.name) | settings
            # Where Spark's UI listens, if there is one.
            os.environ.setdefault(_LOCAL_ADDRESS, "127.0.0.1")
        self.shows_ui = shows_ui(settings)
        folder = Path(self._temporary.name)
        self._early = early_daemon(settings, folder)
        try:
            with submitting.environment(ADDRESS, self._early.address if self._early is not None else ""):
                self.context: SparkContext = submitting.start(settings, JAVA_OPTIONS, folder, job_tag(name))
        except Exception as error:  # whatever Spark, or the way to it, raises
            if self._early is not None:
                self._early.kill()
            self._temporary.cleanup()
            line = f"Spark did not start with {MASTER}={settings[MASTER]}: {error_line(error)}"
            raise SparkProblem(line, ends=True) from error

    def close(self) -> None:
        """Gives executors of a cluster back. A JVM on this machine ends with this process, and cleans up by itself: a
        second sooner."""
        if not self._local:
            with contextlib.suppress(Exception):  # its JVM may be gone, and executors with it
                self.context.stop()
        if self._early is not None:
            self._early.close()
        self._temporary.cleanup()


def early_daemon(settings: Mapping[str, str], folder: Path) -> EarlyDaemon | None:
    """Starts one where Spark is going to run its own daemon of slices on this machine, by this Python and in this
    environment; `PYSPARK_PYTHON` is set."""
    here = settings[MASTER].startswith("local") and not is_submitted() and sockets(str(folder))
    of_slices = settings[DAEMON_MODULE] == WORKERS and os.environ["PYSPARK_PYTHON"] == sys.executable
    # Variables for executors would be set after the imports, and some count only before (NUMBA_CACHE_DIR).
    other_environment = any(key.startswith(_EXECUTOR_ENVIRONMENT) for key in settings)
    if not here or not of_slices or other_environment:
        return None
    try:
        return EarlyDaemon(WORKERS, folder)
    except OSError:  # Spark starts without it
        return None


class SparkJobs:
    """One SparkContext. Blocking calls are made in threads of their own."""

    def __init__(self, name: str, props: Mapping[str, str], functions: Sequence[str] = ()) -> None:
        """`functions`: the transforms that slices call. Raises SparkProblem, and ConfigRejected."""
        self._name, self._tag = name, job_tag(name)
        if shows_ui(spark_settings(name, props)) and find_spec(_ARROW) is None:
            why = f"{UI}=true needs {_ARROW}, which is not installed: pip install {_ARROW}"
            raise SparkProblem(why, permanent=True)
        self._start = SparkStart(name, props, functions)
        self._context = self._start.context
        self._slots = own_slots(props) if is_shared(props) else self._context.defaultParallelism
        self._rows = self._with_session() if self._start.shows_ui else None

    def _with_session(self) -> RowJobs:
        from bridge.pipeline.queries.rows import ClassicRowJobs  # not without: Arrow takes its time

        return ClassicRowJobs(self._context)

    @property
    def slots(self) -> int:
        """How many slices run at a time: spark.default.parallelism, or the cores that Spark has."""
        return self._slots

    @property
    def ui(self) -> str:
        """The address of Spark's UI; "" where there is none."""
        return self._context.uiWebUrl or ""

    def start(self, slices: Sequence[Slice]) -> Future[list[str]]:
        """Starts a layout's job; its result is why each slice has ended, its exception what Spark says of a failed
        job."""
        group = f"{self._name}, layout {slices[0].layout}"
        rows = self._rows

        def run() -> list[str]:
            self._context.addJobTag(self._tag)
            self._context.setJobGroup(group, f"{group}: {len(slices)} slice(s)", interruptOnCancel=False)
            if rows is not None:
                return _with_packages(rows, group, slices)
            return self._context.parallelize(slices, len(slices)).mapPartitions(_run).collect()

        return in_thread(group, run)

    def results(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Runs a function on each item, a task for each, and waits; returns the results in their order."""
        return self._context.parallelize(items, len(items)).map(work).collect()

    def cancel(self) -> None:
        """Kills the Python workers of what still runs, without any `finally` of theirs."""
        self._context.cancelJobsWithTag(self._tag)

    def lost(self) -> str:
        """Its JVM may have been killed, for its memory for one, or Spark have stopped the application, as it does when
        a cluster has removed it. Neither comes back in this process."""
        try:
            stopped = cast("Any", self._context)._jsc.sc().isStopped()
        except Exception:
            return "Spark's JVM has ended"
        return "Spark has stopped the application" if stopped else ""

    def close(self) -> None:
        self._start.close()


def job_tag(connector: str) -> str:
    """The tag of a connector's jobs in Spark, which allows no commas in it."""
    return f"mirror-bridge {connector.replace('%', '%25').replace(',', '%2C')}"


def in_thread(name: str, run: Callable[[], list[str]]) -> Future[list[str]]:
    """Runs it in a thread that the end of the process does not wait for."""
    future: Future[list[str]] = Future()

    def call() -> None:
        try:
            future.set_result(run())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=call, name=name, daemon=True).start()
    return future


def _with_packages(rows: RowJobs, name: str, slices: Sequence[Slice]) -> list[str]:
    try:
        return rows.run(name, slices)
    except Exception as error:
        if package := missing_package(error):
            why = f"{UI}=true needs {package}, and the Python of Spark's workers has none"
            remedy = (
                f"pip install {package} for the one that spark.pyspark.python or PYSPARK_PYTHON names there"
            )
            raise SparkProblem(f"{why}: {remedy}") from None
        raise


def _run(slices: Iterable[Slice]) -> Iterator[str]:
    from bridge.pipeline.slices.tasks import (
        run_slices,
    )  # not in the driver, which needs nothing of what slices import

    return run_slices(slices)
