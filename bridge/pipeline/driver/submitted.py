"""A JVM that runs already and waits for us: that of spark-submit, with its settings, or one that connectors share."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bridge.errors import ConfigError
from bridge.pipeline.driver.frames import Gateway

if TYPE_CHECKING:
    from pyspark import SparkContext

_PORT = "PYSPARK_GATEWAY_PORT"
"""The variable by which spark-submit says where its JVM listens; the drivers that we start inherit it."""
_SECRET = "PYSPARK_GATEWAY_SECRET"  # noqa: S105
_NAME = "spark.app.name"
_OF_SUBMIT = (_NAME, "spark.app.submitTime", "spark.submit.")
_OF_THE_JVM = (
    *("spark.driver.memory", "spark.driver.memoryOverhead", "spark.driver.extraJavaOptions"),
    *("spark.driver.defaultJavaOptions", "spark.driver.extraClassPath", "spark.driver.extraLibraryPath"),
)


def is_submitted() -> bool:
    return _PORT in os.environ


def submitted_settings() -> dict[str, str]:
    """The `spark.*` settings that spark-submit was given, on its command line and in its files. Blocking."""
    from pyspark import SparkConf

    gateway = _gateway()
    return dict(SparkConf(_jvm=gateway.jvm).getAll())


def contradictions(config: Mapping[str, str], submitted: Mapping[str, str]) -> list[ConfigError]:
    """Returns an error for each `spark.*` key that has another value for spark-submit, or that a running JVM can no
    longer take. Pure."""
    given = {key: value for key, value in config.items() if key.startswith("spark.")}
    errors = [
        ConfigError(
            key,
            f"{key} has one value for spark-submit and another in the configuration: give it in one place",
        )
        for key, value in sorted(given.items())
        if key in submitted and not key.startswith(_OF_SUBMIT) and submitted[key] != value
    ]
    return errors + [
        ConfigError(
            key, f"{key} is for a JVM that runs already: give it to spark-submit, not in the configuration"
        )
        for key in _OF_THE_JVM
        if key in given and key not in submitted
    ]


def merged(config: Mapping[str, str], submitted: Mapping[str, str]) -> dict[str, str]:
    """A configuration with what spark-submit was given besides. Pure."""
    more = {key: value for key, value in submitted.items() if not key.startswith(_OF_SUBMIT)}
    return {**more, **config}


def use(gateway: Gateway) -> None:
    """Makes PySpark connect to this JVM instead of starting one. Sets variables of this process only, so that no
    secret shows in /proc."""
    os.environ[_PORT], os.environ[_SECRET] = str(gateway.port), gateway.secret


def context(settings: Mapping[str, str], tag: str) -> SparkContext:
    """A context in a JVM that runs already; that of a driver before this one goes on, without its jobs, which have
    `tag`."""
    from pyspark import SparkConf, SparkContext

    gateway = _gateway()
    # The object of Scala's that has it: the class does not.
    active = getattr(getattr(gateway.jvm.org.apache.spark, "SparkContext$"), "MODULE$").getActive()
    if not active.isDefined():
        return SparkContext(gateway=gateway, conf=SparkConf(_jvm=gateway.jvm).setAll(list(settings.items())))
    running = gateway.jvm.JavaSparkContext(active.get())
    running.sc().cancelJobsWithTag(tag)
    return SparkContext(gateway=gateway, jsc=running, conf=SparkConf(_jconf=running.getConf()))


def _gateway() -> Any:
    from pyspark.java_gateway import launch_gateway

    launch: Any = launch_gateway
    return launch()
