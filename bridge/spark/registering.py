"""Makes the data sources known to a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridge.spark.rejected import verify_pyarrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession) -> None:
    """Registers the data sources with the session, and lets Spark push filters down to Python sources
    (spark.sql.python.filterPushdown.enabled), which it does not by default. Raises SourceRejected without pyarrow."""
    verify_pyarrow()
    from bridge.spark.internal_topics import SOURCES
    from bridge.spark.records import MirrorRecords

    spark.conf.set(_PUSHDOWN, "true")
    for source in (MirrorRecords, *SOURCES):
        spark.dataSource.register(source)
