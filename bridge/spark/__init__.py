"""Data sources for Spark: clusters and the internal topics of mirrors as DataFrames; and audits of mirrors.

    from bridge.spark import audit, register

    register(spark)
    spark.read.format("mirror-records").option("kafka.bootstrap.servers", "a:9092").option("subscribe", "orders").load()
    audit(spark, config).differences.show()

docs/spark.md has each source with its schema and options, docs/audit.md the audit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bridge.spark.registering import register
from bridge.spark.translating.entry import translate_offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["audit", "register", "translate_offsets"]


def audit(spark: SparkSession, config: Mapping[str, str], **asked: Any) -> Any:
    """Compares the topics of a mirror with their copies (bridge.spark.auditing.frames.audit).

    Needs the connectors' configuration, which executors do not have: it is imported here."""
    from bridge.spark.auditing import frames

    return frames.audit(spark, config, **asked)
