"""Data sources for Spark: clusters and the internal topics of mirrors as DataFrames.

    from bridge.spark import register

    register(spark)
    spark.read.format("mirror-records").option("kafka.bootstrap.servers", "a:9092").option("subscribe", "orders").load()

docs/spark.md has each source with its schema and options.
"""

from __future__ import annotations

from bridge.spark.registering import register

__all__ = ["register"]
