"""`spark_read`: records a second that `mirror-records` reads, beside Spark's own Kafka source.

Records of 120 bytes and of 1 KB in 10 partitions, in batches of 16 KB: to a sink that drops them, and to Parquet. Each
source has a session of two cores of its own that reads the topic several times; what counts is the median of all but
the first, in which JVM and Python workers start. Ours is exactly what `load()` gives, with headers and leader epochs.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

from bridge.local import LocalStack
from tests.perf.loads import SCALE, Load, filled
from tests.perf.results import write
from tests.perf.sparks_source import sparks_source
from tests.support import delete_topic

SIZES = {120: 4_000_000, 1000: 800_000}
"""Bytes of a record, and how many."""
TIMES = 4
READER = Path(__file__).with_name("spark_reader.py")
SECONDS = 1200


def seconds(python: Path, load: Load, *arguments: str) -> float:
    """How long a read takes."""
    ran = subprocess.run(
        [str(python), str(READER), *arguments], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    figures = json.loads(ran.stdout.splitlines()[-1])
    assert figures["rows"] in (None, load.total)
    return float(statistics.median(figures["seconds"][1:]))


def test_spark_read(copy_stack: LocalStack, tmp_path: Path) -> None:
    theirs = sparks_source()
    bootstrap = copy_stack.source.bootstrap
    rows: list[dict[str, object]] = []
    rates: list[tuple[float, float]] = []
    for size, records in SIZES.items():
        load = Load(int(records * SCALE), size)
        topic = filled(bootstrap, load)
        for sink in ("noop", "parquet"):
            common = (bootstrap, topic, sink, str(TIMES))
            ours = load.total / seconds(
                Path(sys.executable), load, "mirror-records", *common, str(tmp_path / f"{size}-{sink}-ours")
            )
            spark = load.total / seconds(
                theirs.python, load, "kafka", *common, str(tmp_path / f"{size}-{sink}-sparks"), theirs.jars
            )
            rates.append((ours, spark))
            row = {"sink": sink, "ours": round(ours), "sparks": round(spark), "ratio": round(ours / spark, 2)}
            rows.append(load.row() | row | {"sparks_version": theirs.version})
        delete_topic(bootstrap, topic)
    write("spark_read", ours=rates[0][0], other=rates[0][1], unit="records/s", better="more", rows=rows)
    behind = [row for row, (ours, spark) in zip(rows, rates, strict=True) if ours <= spark]
    assert not behind, f"behind Spark's own source: {behind}"
