"""`mirror-records` beside Spark's own Kafka source: the same options over the same topics, by both."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bridge.local import Cluster
from tests import ROOT
from tests.integration.spark_cases import TIME
from tests.perf.sparks_source import sparks_source
from tests.support import Record, create_topic, delete_records, produce, produce_transaction, unique
from tests.support.waits import WAIT

pytestmark = pytest.mark.long

REFUSED_HERE = {
    "groupIdPrefix",
    "kafka.group.id",
    "maxOffsetsPerTrigger",
    "an unknown option",
}
"""What Spark's own source takes without effect, or for a group that we do not join: see docs/spark.md."""

ERRORS = {
    *(
        "startingTimestamp, none as late",
        "what is gone",
        "end before start",
        "no selection",
        "two selections",
    ),
    *(
        "startingOffsets latest",
        "endingOffsets earliest",
        "a partition without an offset",
        "auto.offset.reset",
    ),
    *("enable.auto.commit", "key.deserializer", "minPartitions no number"),
    *("stream, what is gone", "stream, endingOffsets", "stream, min above max", "stream, maxTriggerDelay"),
    "stream, a partition without an offset",
}
"""Cases that both refuse."""


@pytest.fixture(scope="module")
def topic(source: Cluster) -> str:
    name = create_topic(source.bootstrap, unique("beside"), 3)
    for partition, count in ((0, 30), (1, 10)):
        records = [
            Record(
                b"value-%d" % number,
                key=b"key-%d" % number,
                timestamp=TIME + 1000 * number,
                headers=(("h", b"%d" % number),) if number % 2 else (),
                partition=partition,
            )
            for number in range(count)
        ]
        produce(source.bootstrap, name, records)
    delete_records(source.bootstrap, name, {0: 5})
    create_topic(source.bootstrap, f"{name}-2", 1)
    for number in range(4):
        records = [Record(b"%d" % number, timestamp=TIME + number)]
        produce_transaction(source.bootstrap, f"{name}-2", records, commit=number != 1)
    return name


def outcomes(python: str, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [python, str(ROOT / "tests" / "integration" / "spark_cases.py"), *arguments],
        capture_output=True,
        text=True,
        timeout=10 * WAIT,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": python},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return found


def failed(outcome: Any) -> bool:
    return isinstance(outcome, dict) and "error" in outcome


def test_the_same_options_read_the_same_records(source: Cluster, topic: str, tmp_path: Path) -> None:
    own = sparks_source()
    theirs = outcomes(str(own.python), "kafka", own.jars, source.bootstrap, topic, str(tmp_path / "theirs"))
    ours = outcomes(sys.executable, "mirror-records", "", source.bootstrap, topic, str(tmp_path / "ours"))
    assert theirs.keys() == ours.keys()
    # One column more, behind all others.
    assert ours.pop("columns")[:-1] == theirs.pop("columns")
    assert {name for name in theirs if failed(theirs[name])} == ERRORS
    assert {name for name in ours if failed(ours[name])} == ERRORS | REFUSED_HERE
    both = theirs.keys() - ERRORS - REFUSED_HERE
    assert {name: (theirs[name], ours[name]) for name in both if theirs[name] != ours[name]} == {}
