"""A small local SparkSession for tests."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bridge.spark import register
from tests.support.waits import WAIT

_SMALL = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.daemon.module": "bridge.spark.workers",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}


@contextmanager
def spark_session(folder: Path, more: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Two cores of this machine, with our sources."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("tests")
    for key, value in {**_SMALL, "spark.sql.warehouse.dir": str(folder), **(more or {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    register(spark)
    try:
        yield spark
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # sockets of py4j
            _end(spark)


def run_stream(start: Callable[[], StreamingQuery], starts: int = 5) -> None:
    """Runs a query to its end, and again from its checkpoint where its Python process was too slow to start.

    Spark gives the process of a streaming source 10 s to connect (PythonWorkerFactory.createSimpleWorker), and no
    setting changes that; a machine with more to do than it can takes longer.
    """
    for left in reversed(range(starts)):
        try:
            assert start().awaitTermination(int(WAIT)), f"the query has not ended after {WAIT:g} s"
        except StreamingQueryException as error:
            if not left or "Python worker failed to connect back" not in str(error):
                raise
        else:
            return


def _end(spark: SparkSession) -> None:
    """Ends the JVM too: PySpark keeps it for the next session of the process, and other tests would find it."""
    context: Any = SparkContext
    gateway = context._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    context._gateway = context._jvm = None
