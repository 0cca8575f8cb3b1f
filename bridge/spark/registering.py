"""Makes the data sources known to a session."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from bridge.spark.rejected import SourceRejected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession) -> None:
    """Registers the data sources with the session, and lets Spark push filters down to Python sources
    (spark.sql.python.filterPushdown.enabled), which it does not by default. Raises SourceRejected without pyarrow."""
    if find_spec("pyarrow") is None:
        raise SourceRejected("bridge.spark needs pyarrow, which is not installed: pip install pyarrow")
    from bridge.spark.internal_topics import SOURCES
    from bridge.spark.records import MirrorRecords

    spark.conf.set(_PUSHDOWN, "true")
    for source in (MirrorRecords, *SOURCES):
        spark.dataSource.register(source)
