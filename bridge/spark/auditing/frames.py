"""`audit(spark, config)`: an audit as DataFrames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from bridge.audit.report import (
    DIFFERENCES,
    SUMMARY,
    AuditReport,
    AuditVerdict,
    difference_rows,
    schema,
    summary_rows,
)
from bridge.spark.auditing.options import AuditOptions
from bridge.spark.auditing.running import audited
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


def audit_frames(spark: SparkSession, options: AuditOptions) -> Audit:
    """Audits in this session. Raises SourceRejected in Spark Connect."""
    if type(spark).__module__.startswith("pyspark.sql.connect."):
        raise SourceRejected("audit() needs a classic Spark session; this one is of Spark Connect")
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
