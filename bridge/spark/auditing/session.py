"""The Spark session that `mirror-bridge audit` runs in, by the `spark.*` keys of the connector's configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bridge.pipeline.driver.jobs import SparkStart

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEFAULTS = {
    "spark.python.daemon.module": "bridge.spark.auditing.workers",
    "spark.sql.session.timeZone": "UTC",
}


@contextmanager
def session(props: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session for the time of the block."""
    from pyspark.sql import SparkSession

    started = SparkStart("audit", props, defaults=_DEFAULTS)
    try:
        yield SparkSession(started.context)
    finally:
        started.close()
