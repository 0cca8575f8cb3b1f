"""Data sources for Spark: clusters and the internal topics of mirrors as DataFrames; and audits of mirrors.

    from bridge.spark import audit, register

    register(spark)
    spark.read.format("mirror-records").option("kafka.bootstrap.servers", "a:9092").option("subscribe", "orders").load()
    audit(spark, config).differences.show()

docs/spark.md has each source with its schema and options, docs/audit.md the audit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bridge.spark.registering import register
from bridge.spark.translating.entry import translate_checkpoint, translate_offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bridge.spark.auditing.frames import Audit

__all__ = ["audit", "register", "translate_checkpoint", "translate_offsets"]


def audit(
    spark: SparkSession,
    config: Mapping[str, str] | str | Path,
    *,
    topics: str | Sequence[str] = (),
    since: str | datetime | None = None,
    until: str | datetime | None = None,
    sample: float | None = None,
    window: str = "1d",
    listed: int = 10_000,
) -> Audit:
    """Compares the topics of a mirror with their copies (docs/audit.md).

        found = audit(spark, "mirror-orders.json", topics="orders.*", since="2026-11-22T21:00:00Z")
        print(found.verdict)
        found.differences.show()

    `config`: the configuration of the source connector, or the .properties or .json file that has it. `topics`: names
    and patterns as in its key `topics`, all of the connector's if not given. `since`, `until`: times of the records
    that are compared, as datetime or ISO 8601; without a time zone they are UTC. `sample`: the share that is compared.
    `window`: what a row of the summary covers, such as 15m, 1h or 1d. `listed`: differences of a stretch of some 32 MB
    that are listed; all are counted. Returns the verdict, and the DataFrames `summary` and `differences`. Raises
    ConfigRejected with all that is wrong, SourceRejected in Spark Connect and for a file that can't be read, and
    KafkaFailure where a cluster does not answer.
    """
    # Needs the connectors' configuration, which executors do not have: they import this package, too.
    from bridge.spark.auditing.frames import audit_frames
    from bridge.spark.auditing.options import read_options
    from bridge.spark.group_options import connector_config

    options = read_options(
        connector_config(config),
        topics=topics,
        since=since,
        until=until,
        sample=sample,
        window=window,
        listed=listed,
    )
    return audit_frames(spark, options)
