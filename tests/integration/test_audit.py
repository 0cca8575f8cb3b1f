"""An audit of real clusters on real Spark: of our copy, by its runs, and of stock's, by content."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from bridge.audit.report import AuditReport, AuditVerdict, DifferenceKind, NotCompared, PartitionResult
from bridge.local import Cluster, ConnectWorker
from bridge.model.values import TopicPartition
from bridge.spark import audit
from bridge.spark.auditing.collecting import collect
from bridge.spark.auditing.options import read_options
from bridge.spark.auditing.running import audited
from bridge.translation.runs.runs import OffsetRun
from tests.integration.copy_flow import CopyFlow
from tests.integration.drivers import config
from tests.support import (
    Record,
    add_partitions,
    compact,
    create_topic,
    delete_records,
    mirror,
    numbered,
    produce,
    produce_transaction,
    stock_config,
    unique,
)
from tests.support.messages import message

TIME = 1_700_000_000_000


def report(spark: SparkSession, flow: CopyFlow, **asked: object) -> AuditReport:
    options = read_options(config(flow, ",".join(flow.topics)), **asked)  # type: ignore[arg-type]
    return audited(spark, replace(options, stretch_bytes=20_000))


def copied_flow(source: Cluster, target: Cluster) -> tuple[CopyFlow, str]:
    """A flow and its topic, of which 50 records are copied."""
    flow = CopyFlow(source, target)
    topic = flow.topic()
    produce(source.bootstrap, topic, numbered(50, timestamp=TIME))
    flow.copy()
    return flow, topic


def sums(part: PartitionResult) -> Mapping[str, int]:
    windows = part.findings.windows.values()
    names = ("source_records", "target_records", "same", "unknown")
    return {name: sum(getattr(each, name) for each in windows) for name in names}


@pytest.mark.long
def test_a_copy_is_equal_until_something_is_wrong(
    spark: SparkSession, source: Cluster, target: Cluster
) -> None:
    flow = CopyFlow(source, target)
    topic = flow.topic(2)
    for partition in range(2):
        produce(
            source.bootstrap,
            topic,
            numbered(3000, partition=partition, timestamp=TIME),
            compression="lz4" if partition else "none",
            batch_size=4000,
        )
    produce_transaction(source.bootstrap, topic, numbered(10))
    produce_transaction(source.bootstrap, topic, numbered(10), commit=False)
    produce_transaction(source.bootstrap, topic, numbered(10, timestamp=TIME))
    flow.copy()
    found = report(spark, flow)
    assert (found.verdict, found.failures) == (AuditVerdict.EQUAL, [])
    first, second = found.partitions
    assert first.by_runs
    assert sums(first) == {"source_records": 3020, "target_records": 3020, "same": 3020, "unknown": 0}
    assert sums(second)["same"] == 3000
    some = [report(spark, flow, sample=0.3) for _ in range(2)]
    compared = [sum(sums(part)["same"] for part in each.partitions) for each in some]
    assert [each.verdict for each in some] == [AuditVerdict.EQUAL] * 2
    assert 0 < compared[0] < 4000, "a share of 6,020 records"
    assert compared[0] == compared[1], "the same one each time"
    digests = [(each.source_digest, each.target_digest) for each in first.findings.windows.values()]
    assert all(here == there for here, there in digests)

    # What the source has no more, and what is not copied yet, is no difference.
    delete_records(source.bootstrap, topic, {1: 1000})
    produce(source.bootstrap, topic, numbered(5, partition=1))
    found = report(spark, flow)
    assert found.verdict is AuditVerdict.EQUAL, found.partitions
    assert found.partitions[1].findings.not_compared == {
        NotCompared.BELOW_SOURCE_START: 1000,
        NotCompared.NOT_COPIED_YET: 5,
    }

    # A record of others, and one that is there already.
    copies = flow.copies(topic, 0)
    produce(target.bootstrap, flow.remote(topic), [Record(b"of others")])
    produce(target.bootstrap, flow.remote(topic), [replace(copies[7], partition=0)])
    found = report(spark, flow)
    assert found.verdict is AuditVerdict.DIFFERENT
    kinds = sorted((each.kind, each.target_offset) for each in found.partitions[0].findings.differences)
    assert [each[0] for each in kinds] == [DifferenceKind.EXTRA, DifferenceKind.TWICE]
    assert found.partitions[1].verdict is AuditVerdict.EQUAL


def run_audit(file: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bridge", "audit", "--config", str(file), *options],
        capture_output=True,
        text=True,
        timeout=240,
    )


@pytest.fixture
def copied(source: Cluster, target: Cluster, tmp_path: Path) -> tuple[CopyFlow, str, Path]:
    """A copy of 200 records, its topic, and the file of its connector."""
    flow = CopyFlow(source, target)
    topic = flow.topic()
    produce(source.bootstrap, topic, numbered(200, timestamp=TIME))
    flow.copy()
    file = tmp_path / "connector.json"
    file.write_text(json.dumps({"name": "mirror", "config": config(flow, topic)}))
    return flow, topic, file


@pytest.mark.long
def test_the_command_says_what_is_equal(copied: tuple[CopyFlow, str, Path]) -> None:
    done = run_audit(copied[2])
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "equal: 200 records in 1 partition(s)"
    assert "not compared" not in done.stdout


def test_the_command_says_what_differs(
    copied: tuple[CopyFlow, str, Path], target: Cluster, tmp_path: Path
) -> None:
    flow, topic, file = copied
    produce(target.bootstrap, flow.remote(topic), [Record(b"of others", timestamp=TIME)])
    folder = tmp_path / "found.parquet"
    done = run_audit(
        file,
        "--json",
        "--window",
        "1h",
        "--output",
        str(folder),
        "--topics",
        f"{topic},gone",
        "--sample",
        "1",
    )
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert found["verdict"] == "different"
    assert found["failures"] == ["there is no topic gone on the source cluster"]
    (difference,) = found["differences"]
    assert (difference["kind"], difference["target_offset"]) == ("extra", flow.copies(topic)[-1].offset)
    assert pyarrow.parquet.read_table(folder / "differences").to_pylist()[0]["kind"] == "extra"
    assert sum(pyarrow.parquet.read_table(folder / "summary")["same"].to_pylist()) == 200


@pytest.mark.long
def test_a_stock_mirror_is_compared_by_content(
    spark: SparkSession, source: Cluster, target: Cluster, stock_worker: ConnectWorker
) -> None:
    topic = create_topic(source.bootstrap, unique("stock"), 2)
    compacted = create_topic(source.bootstrap, unique("stock"), 1, {"cleanup.policy": "compact"})
    for partition in range(2):
        produce(source.bootstrap, topic, numbered(2000, partition=partition, timestamp=TIME))
    produce(source.bootstrap, compacted, [Record(b"%d" % n, b"%d" % (n % 50)) for n in range(500)])
    mirror(stock_worker, source, target, [topic, compacted])
    props = stock_config("Source", source, target, topics=f"{topic},{compacted}")
    compact(target.bootstrap, f"{source.name}.{compacted}")

    def found(**asked: str) -> AuditReport:
        return audited(spark, replace(read_options(props, **asked), stretch_bytes=2_000))  # type: ignore[arg-type]

    options = replace(read_options(props, topics=topic), stretch_bytes=2_000)
    work = collect(options).work
    assert len(work) > 8
    report = found(topics=topic)
    assert (report.verdict, report.failures) == (AuditVerdict.EQUAL, [])
    assert [part.by_runs for part in report.partitions] == [False, False]
    assert [sums(part)["same"] for part in report.partitions] == [2000, 2000]
    (part,) = found(topics=compacted).partitions
    assert sums(part)["unknown"] > 300
    # The fillers that had it compacted are of others.
    assert {each.kind for each in part.findings.differences} == {DifferenceKind.EXTRA}

    delete_records(source.bootstrap, topic, {0: 500})
    produce(source.bootstrap, topic, numbered(7))
    remote = f"{source.name}.{topic}"
    produce(target.bootstrap, remote, [Record(b"of others", partition=1)])
    report = found(topics=topic)
    first, second = report.partitions
    assert first.verdict is AuditVerdict.EQUAL
    assert first.findings.not_compared == {
        NotCompared.BELOW_SOURCE_START: 500,
        NotCompared.NOT_COPIED_YET: 7,
    }
    assert [(each.kind, each.target_offset) for each in second.findings.differences] == [
        (DifferenceKind.EXTRA, 2000)
    ]

    late = datetime.fromtimestamp((TIME + 1990) / 1000, UTC).isoformat()
    some = found(topics=topic, until=late).partitions[1]
    assert (some.verdict, sums(some)["same"]) == (AuditVerdict.EQUAL, 1990)


@pytest.mark.long
def test_what_was_not_compared_and_partitions_without_a_source_are_not_equal(
    spark: SparkSession, source: Cluster, target: Cluster
) -> None:
    flow, topic = copied_flow(source, target)
    assert audit(spark, config(flow, topic)).verdict is AuditVerdict.EQUAL
    late = audit(spark, config(flow, topic), since="2100-01-01T00:00:00Z")
    assert (late.verdict, late.failures) == (AuditVerdict.NOT_KNOWN, [])

    add_partitions(target.bootstrap, flow.remote(topic), 3)
    assert report(spark, flow).verdict is AuditVerdict.EQUAL
    produce(target.bootstrap, flow.remote(topic), [Record(b"of others", partition=2)])
    extra = report(spark, flow)
    assert extra.verdict is AuditVerdict.NOT_KNOWN
    named = {"partition": 2, "copy": flow.remote(topic), "start": 0, "end": 1, "topic": topic}
    assert extra.failures == [message("audit.no_partition", **named)]


@pytest.mark.long
def test_what_can_not_be_read_is_not_equal_nor_a_run_that_is_not_true(
    spark: SparkSession, source: Cluster, target: Cluster
) -> None:
    flow, topic = copied_flow(source, target)
    add_partitions(source.bootstrap, topic, 2)
    found = report(spark, flow)
    assert found.verdict is AuditVerdict.NOT_KNOWN
    assert found.failures == [f"topic {flow.remote(topic)} has no partition 1"]
    result = audit(spark, config(flow, topic), window="1h")
    assert (result.verdict, result.differences.count()) == (AuditVerdict.NOT_KNOWN, 0)
    (row,) = result.summary.collect()
    assert (row.topic, row.source_records, row.same, row.verdict) == (topic, 50, 50, "equal")
    assert row.source_digest == row.target_digest

    # A run that is one offset off: only it is wrong, the records are not.
    (true,) = flow.runs()[TopicPartition(topic, 0)].runs
    false = true._replace(downstream_start=true.downstream_start + 1)
    produce(target.bootstrap, flow.spec.runs_topic, [Record(false.value(), false.key())])
    found = report(spark, flow)
    (wrong,) = found.partitions[0].findings.differences
    assert (wrong.kind, wrong.run, wrong.records) == (DifferenceKind.WRONG_RUN, 0, 50)
    assert (wrong.source_offset, wrong.claimed_offset, wrong.target_offset) == (0, 1, 0)
    assert sums(found.partitions[0])["same"] == 50


@pytest.mark.long
def test_what_is_missing_changed_and_out_of_order_is_found_by_runs_and_by_content(
    spark: SparkSession, source: Cluster, target: Cluster
) -> None:
    flow = CopyFlow(source, target)
    topic = flow.topic(2)
    remote = flow.remote(topic)
    originals = {partition: numbered(100, partition=partition, timestamp=TIME) for partition in range(2)}
    for partition, records in originals.items():
        produce(source.bootstrap, topic, records)
        copies = list(records)
        copies[20] = replace(copies[20], value=b"of others")
        copies[30], copies[31] = copies[31], copies[30]
        # Behind what is missing runs would be wrong about all: there it is the last record.
        del copies[10 if partition else 99]
        produce(target.bootstrap, remote, copies)
    (first, _) = flow.partitions()
    run = OffsetRun(
        first.source,
        first.source_topic_id,
        remote,
        first.target_topic_id,
        0,
        0,
        0,
        100,
        0,
        0,
        0,
        100,
        TIME + 99,
    )
    produce(target.bootstrap, flow.spec.runs_topic, [Record(run.value(), run.key())])

    def kinds(**asked: str) -> list[list[tuple[DifferenceKind, int | None, int | None]]]:
        found = report(spark, flow, **asked)
        assert (found.verdict, [part.by_runs for part in found.partitions]) == (
            AuditVerdict.DIFFERENT,
            [True, False],
        )
        return [
            sorted((each.kind, each.source_offset, each.target_offset) for each in part.findings.differences)
            for part in found.partitions
        ]

    swapped = [(DifferenceKind.OUT_OF_ORDER, 30, 31), (DifferenceKind.OUT_OF_ORDER, 31, 30)]
    by_runs = [(DifferenceKind.MISSING, 99, None), *swapped]
    # By content one of the two is in order.
    by_content = [(DifferenceKind.OUT_OF_ORDER, 30, 30)]
    assert kinds() == [
        [(DifferenceKind.CHANGED, 20, 20), *by_runs],
        [(DifferenceKind.CHANGED, 20, 19), (DifferenceKind.MISSING, 10, None), *by_content],
    ]
    late = datetime.fromtimestamp((TIME + 25) / 1000, UTC).isoformat()
    assert kinds(since=late) == [by_runs, by_content], "what is before is not looked at"
