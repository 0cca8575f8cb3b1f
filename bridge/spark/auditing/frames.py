"""`audit(spark, config)`: an audit as DataFrames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bridge.audit.report import AuditReport, AuditVerdict
from bridge.audit.rows import DIFFERENCES, SUMMARY, difference_rows, schema, summary_rows
from bridge.spark.auditing.options import LISTED, read_options
from bridge.spark.auditing.running import audited
from bridge.spark.group_options import connector_config
from bridge.spark.rejected import SourceRejected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Audit(NamedTuple):
    """An audit as DataFrames. `summary`: a row for each partition and time window. `differences`: a row for each.
    `failures`: of what could not be compared at all."""

    verdict: AuditVerdict
    summary: DataFrame
    differences: DataFrame
    failures: Sequence[str]


def audit(
    spark: SparkSession,
    config: Mapping[str, str] | str | Path,
    *,
    topics: str | Sequence[str] = (),
    since: str | datetime | None = None,
    until: str | datetime | None = None,
    sample: float | None = None,
    window: str = "1d",
    listed: int = LISTED,
) -> Audit:
    """See bridge.spark.audit."""
    if type(spark).__module__.startswith("pyspark.sql.connect."):
        raise SourceRejected("audit() needs a classic Spark session; this one is of Spark Connect")
    options = read_options(
        connector_config(config),
        topics=topics,
        since=since,
        until=until,
        sample=sample,
        window=window,
        listed=listed,
    )
    return frames(spark, audited(spark, options))


def frames(spark: SparkSession, report: AuditReport) -> Audit:
    def frame(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> DataFrame:
        return spark.createDataFrame([tuple(row.values()) for row in rows], schema(columns))

    return Audit(
        report.verdict,
        frame(summary_rows(report), SUMMARY),
        frame(difference_rows(report), DIFFERENCES),
        report.failures,
    )
