"""A small local SparkSession for tests."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from bridge.spark import register

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


def _end(spark: SparkSession) -> None:
    """Ends the JVM too: PySpark keeps it for the next session of the process, and other tests would find it."""
    context: Any = SparkContext
    gateway = context._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    context._gateway = context._jvm = None
