"""`audit`: records a second that an audit compares, on equal logs, beside the rate of the copy in the same run.

A record counts once, and is read on both sides. Records of 120 bytes and of 1 KB in 10 partitions; batches of 16 KB,
uncompressed and of zstd. The copy is ours, on two cores; the audit has two cores and a session that runs already; what
counts is the median of all audits but the first, in which Python workers start. Each row says how long a terabyte of
source takes at its rate: on two cores, if rates stay what they are for logs of this size, which are in the page cache.
"""

from __future__ import annotations

import statistics
import time
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from bridge.audit.report import AuditVerdict
from bridge.local import LocalStack
from bridge.spark.auditing.options import read_options
from bridge.spark.auditing.running import audited
from tests.perf.loads import SCALE, Load, filled
from tests.perf.mirrors import Scene, ours
from tests.perf.results import write
from tests.support import delete_topic
from tests.support.spark import spark_session

RECORDS = {120: 4_000_000, 1000: 800_000}
"""Bytes of a record, and how many."""
TIMES = 4
TERABYTE = 1e12


def audit_seconds(
    spark: SparkSession, scene: Scene, topic: str, load: Load, seconds: list[float], _: str, remote: str
) -> None:
    """Adds how long each of several audits has taken."""
    config = {
        "source.cluster.alias": remote.removesuffix(f".{topic}"),
        "target.cluster.alias": "target",
        "source.cluster.bootstrap.servers": scene.near_source,
        "target.cluster.bootstrap.servers": scene.near_target,
        "topics": topic,
    }
    for _number in range(TIMES):
        began = time.perf_counter()
        report = audited(spark, read_options(config))
        seconds.append(time.perf_counter() - began)
        assert report.verdict is AuditVerdict.EQUAL, report.failures
        same = [each.same for part in report.partitions for each in part.findings.windows.values()]
        assert sum(same) == load.total
        assert all(part.by_runs for part in report.partitions)


def test_audit(copy_stack: LocalStack, tmp_path: Path) -> None:
    scene = Scene.of(copy_stack)
    rows: list[dict[str, object]] = []
    rates: list[tuple[float, float]] = []
    settings = {"spark.python.daemon.module": "bridge.spark.auditing.workers"}
    for size, records in RECORDS.items():
        for codec in ("none", "zstd"):
            load = Load(int(records * SCALE), size, codec=codec)
            topic = filled(scene.near_source, load)
            seconds: list[float] = []
            with spark_session(tmp_path, settings) as spark:
                check = partial(audit_seconds, spark, scene, topic, load, seconds)
                copied = ours(scene, topic, load, check=check)
            delete_topic(scene.near_source, topic)
            rate = load.total / statistics.median(seconds[1:])
            rates.append((rate, copied.rate))
            figures = {
                "audit": round(rate),
                "copy": round(copied.rate),
                "ratio": round(rate / copied.rate, 2),
                "hours_for_1_TB": round(TERABYTE / size / rate / 3600, 2),
            }
            rows.append(load.row() | figures)
            print(rows[-1], flush=True)
    write("audit", ours=rates[0][0], other=rates[0][1], unit="records/s", better="more", rows=rows)
    assert all(rate >= copied / 4 for rate, copied in rates), rows
