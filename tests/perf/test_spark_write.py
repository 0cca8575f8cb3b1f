"""`spark_write`: records a second that `mirror-records` writes exactly once, beside Spark's own Kafka sink, which
writes them at least once.

Records of 120 bytes and of 1 KB with keys, to 10 partitions, each sink as it is by default. Each has a session of two
cores of its own that writes several times; what counts is the median of all but the first, in which JVM and Python
workers start.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

from bridge.local import LocalStack
from tests.perf.loads import PARTITIONS, SCALE
from tests.perf.results import write
from tests.perf.sparks_source import sparks_source
from tests.support import bounds, create_topic, delete_topic, unique

SIZES = {120: 4_000_000, 1000: 800_000}
"""Bytes of a record, and how many."""
TIMES = 4
WRITER = Path(__file__).with_name("spark_writer.py")
SECONDS = 1200


def seconds(python: Path, bootstrap: str, records: int, size: int, sink: str, *more: str) -> float:
    """How long a write takes, to a topic of its own."""
    topic = create_topic(bootstrap, unique("write"), PARTITIONS)
    arguments = (sink, bootstrap, topic, str(records), str(size), str(TIMES), *more)
    ran = subprocess.run(
        [str(python), str(WRITER), *arguments], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    # Of ours a marker for each transaction stands there, too.
    assert sum(end - start for start, end in bounds(bootstrap, topic).values()) >= records * TIMES
    delete_topic(bootstrap, topic)
    return float(statistics.median(json.loads(ran.stdout.splitlines()[-1])["seconds"][1:]))


def test_spark_write(copy_stack: LocalStack, tmp_path: Path) -> None:
    theirs = sparks_source()
    bootstrap = copy_stack.target.bootstrap
    rows: list[dict[str, object]] = []
    rates: list[tuple[float, float]] = []
    for size, most in SIZES.items():
        records = int(most * SCALE)
        load = (bootstrap, records, size)
        ours = records / seconds(Path(sys.executable), *load, "mirror-records", str(tmp_path))
        spark = records / seconds(theirs.python, *load, "kafka", str(tmp_path), theirs.jars)
        rates.append((ours, spark))
        row = {"records": records, "bytes_each": size, "partitions": PARTITIONS}
        figures = {"ours": round(ours), "sparks": round(spark), "ratio": round(ours / spark, 2)}
        rows.append(row | figures | {"sparks_version": theirs.version})
    write("spark_write", ours=rates[0][0], other=rates[0][1], unit="records/s", better="more", rows=rows)
    behind = [row for row, (ours, spark) in zip(rows, rates, strict=True) if ours < spark]
    assert not behind, f"behind Spark's own sink: {behind}"
