"""`translate`: positions a second in bulk, a million of them over 1,000 partitions, against those of groups in a round
of the service: the same runs, the same clusters in memory, so that what is compared is what either does for a position.

Each partition has 150 runs with a marker behind each commit. The round answers a sample, each offset once, as it does
for groups that have moved. Bulk is the whole of it, from columns to columns. Neither looks anything up but the record
that each partition's newest run ends with.

`translate_files`: the command over real clusters, a million positions in a CSV or a Parquet file, which takes a minute
at most.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
import pytest

from bridge.local import LocalStack
from bridge.model.copying import Copied
from bridge.model.values import Committed, TopicPartition
from bridge.positions.flow import Knowledge, LoadedRuns
from bridge.positions.translator import VERDICTS, PositionColumns, PositionTranslator, TranslatedPositions
from bridge.spark import translate_offsets
from bridge.translation.runs.holes import CopySpan, listed
from bridge.translation.runs.runs import OffsetRun
from connectors.group_translation.translating.group_verdicts import GroupVerdicts
from tests.integration.copy_flow import CopyFlow, InProcess, ThreadJobs, topic_id
from tests.perf.loads import SCALE
from tests.perf.results import write
from tests.support import Record, produce
from tests.support.spark import spark_session
from tests.unit.connectors.fake_clusters import FakeCluster, FakeClusters, Log, Row
from tests.unit.positions.worlds import flow, hold

PARTITIONS = 1_000
POSITIONS = int(1_000_000 * SCALE)
SAMPLE = int(20_000 * SCALE)
RUNS, SPANS, COPIES = 150, 20, 50
"""Runs of a partition, spans of each, and copies of a span."""
LENGTH = RUNS * SPANS * COPIES
FILE_RECORDS = 300
"""Records of each partition that files have positions of."""


def runs_of(partition: int) -> list[OffsetRun]:
    """Each ends with a marker, so do its spans."""
    copies, extra = SPANS * COPIES, SPANS - 1
    holes = listed([CopySpan(COPIES, 0, 1)] * (SPANS - 1) + [CopySpan(COPIES)])
    made = []
    for number in range(RUNS):
        start, there = number * copies, 7 + number * (copies + extra + 1)
        place = TopicPartition("orders", partition)
        made.append(
            OffsetRun(
                place, "s", "A.orders", "t", start, start, there, copies, 0, extra, 0, start + copies, -1, 1 << 20,
                holes=holes,
            )
        )  # fmt: skip
    return made


def world() -> tuple[FakeClusters, Knowledge]:
    source, target = FakeCluster(), FakeCluster()
    runs = [runs_of(partition) for partition in range(PARTITIONS)]
    end = runs[0][-1].downstream_end
    originals = [Log([Row(LENGTH - 1, 1, b"key", b"last")], 0, LENGTH) for _ in range(PARTITIONS)]
    copies = [Log([Row(end - 1, 1, b"key", b"last")], 0, end + 1) for _ in range(PARTITIONS)]
    source.topic("orders", *originals, topic_id="s")
    target.topic("A.orders", *copies, topic_id="t")
    hold(target, [run for some in runs for run in some])
    clusters = FakeClusters(source, target)
    return clusters, asyncio.run(flow().load(source, target))


def positions(count: int) -> PositionColumns:
    dice = np.random.default_rng(1)
    return PositionColumns(
        ["orders"],
        np.zeros(count, np.int32),
        dice.integers(0, PARTITIONS, count, np.int32),
        dice.integers(0, LENGTH, count, np.int64),
    )


def in_bulk(
    clusters: FakeClusters, knowledge: Knowledge, asked: PositionColumns
) -> tuple[float, TranslatedPositions]:
    async def go() -> tuple[float, TranslatedPositions]:
        translator = PositionTranslator(flow(), clusters, {}, 0)
        began = time.perf_counter()
        translator.use(knowledge)
        answers = await translator.translate(asked)
        return time.perf_counter() - began, answers

    return asyncio.run(go())


def in_a_round(clusters: FakeClusters, knowledge: Knowledge, asked: PositionColumns) -> float:
    ours = flow()
    strategy = ours.strategy(knowledge, LoadedRuns(knowledge.runs))
    source, target = clusters.sides.values()
    verdicts = GroupVerdicts(ours.options, source, target, strategy)
    pairs = ours.pairs()

    async def go() -> float:
        groups = {
            f"group-{number}": pairs.paired(
                {TopicPartition("orders", int(asked.partition[number])): Committed(int(asked.offset[number]))}
            )
            for number in range(len(asked.offset))
        }
        # The first one of each partition holds its newest run against the logs.
        await verdicts.translate(groups)
        began = time.perf_counter()
        await verdicts.translate(groups)
        return time.perf_counter() - began

    return asyncio.run(go())


def test_translate() -> None:
    clusters, knowledge = world()
    seconds, answers = in_bulk(clusters, knowledge, positions(POSITIONS))
    exact = int((answers.answers.verdict == VERDICTS.index("exact")).sum())
    assert exact == POSITIONS
    alone = in_a_round(clusters, knowledge, positions(SAMPLE))
    rows: list[dict[str, object]] = [
        {"side": "bulk", "positions": POSITIONS, "partitions": PARTITIONS, "seconds": round(seconds, 2)},
        {"side": "round", "positions": SAMPLE, "partitions": PARTITIONS, "seconds": round(alone, 2)},
    ]
    ours, other = POSITIONS / seconds, SAMPLE / alone
    write("translate", ours=ours, other=other, unit="positions/s", better="more", rows=rows)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".dataframe"])
def test_translate_files(copied: CopyFlow, tmp_path: Path, suffix: str) -> None:
    """The command, and `translate_offsets` in a session that runs already, from a file to a file, over real clusters: a
    million positions in a minute or less."""
    (topic,) = copied.topics
    asked = tmp_path / f"positions{suffix}"
    dice = np.random.default_rng(2)
    table = pa.table(
        {
            "topic": pa.array([topic] * POSITIONS),
            "partition": dice.integers(0, PARTITIONS, POSITIONS, np.int32),
            "offset": dice.integers(0, FILE_RECORDS + 1, POSITIONS, np.int64),
        }
    )
    if suffix == ".csv":
        pyarrow.csv.write_csv(table, asked)
    else:
        pyarrow.parquet.write_table(table, asked)
    config = tmp_path / "connector.properties"
    config.write_text(
        "connector.class=MirrorGroupOffsetConnector\n"
        f"source.cluster.alias={copied.alias}\n"
        f"source.cluster.bootstrap.servers={copied.source.bootstrap}\n"
        f"target.cluster.bootstrap.servers={copied.target.bootstrap}\n"
    )
    answers = tmp_path / f"answers{suffix}"
    if suffix == ".dataframe":
        with spark_session(tmp_path) as spark:
            began = time.perf_counter()
            translate_offsets(spark.read.parquet(str(asked)), config).write.parquet(str(answers))
            seconds = time.perf_counter() - began
    else:
        command = [sys.executable, "-m", "bridge", "translate", "--config", config, "--input", asked]
        began = time.perf_counter()
        done = subprocess.run([*map(str, command), "--output", str(answers)], capture_output=True, text=True)
        seconds = time.perf_counter() - began
        assert done.returncode == 0, done.stderr
    read = pyarrow.csv.read_csv if suffix == ".csv" else pyarrow.parquet.read_table
    answered = read(answers)
    assert answered.num_rows == POSITIONS
    assert pc.value_counts(answered["verdict"]).to_pylist() == [{"values": "exact", "counts": POSITIONS}]
    where = {
        (partition, int(each.value or b"")): each.offset
        for partition in range(0, PARTITIONS, PARTITIONS // 5)
        for each in copied.copies(copied.topics[0], partition)
    }
    checked = 0
    for partition, offset, there in zip(
        *(answered[name].to_pylist() for name in ("partition", "offset", "target_offset")), strict=True
    ):
        if (partition, offset) in where:
            assert there == where[partition, offset]
            checked += 1
    assert checked > POSITIONS / PARTITIONS
    print(f"{POSITIONS:,} positions{suffix} over {PARTITIONS:,} partitions: {seconds:.1f} s")
    rows: list[dict[str, object]] = [{"positions": POSITIONS, "file": suffix, "seconds": round(seconds, 2)}]
    minute = POSITIONS / 60
    write(
        f"translate_files{suffix.replace('.', '_')}", ours=POSITIONS / seconds, other=minute,
        unit="positions/s, beside those of a minute", better="more", rows=rows,
    )  # fmt: skip
    assert seconds < 60 * max(SCALE, 0.2)


@pytest.fixture(scope="module")
def copied(copy_stack: LocalStack) -> CopyFlow:
    """A topic of 1,000 partitions that our pipeline has copied. Values are offsets."""
    flow = CopyFlow(copy_stack.source, copy_stack.target)
    topic = flow.topic(PARTITIONS)
    records = (
        Record(b"%d" % number, partition=partition)
        for number in range(FILE_RECORDS)
        for partition in range(PARTITIONS)
    )
    produce(flow.source.bootstrap, topic, records)
    ids = [
        topic_id(*each)
        for each in ((flow.source.bootstrap, topic), (flow.target.bootstrap, flow.remote(topic)))
    ]
    running = InProcess(replace(flow.spec, until_caught_up=True), ThreadJobs(2))
    copies = [
        Copied(TopicPartition(topic, number), ids[0], flow.remote(topic), ids[1])
        for number in range(PARTITIONS)
    ]
    try:
        running.assign(copies)
        running.ended()
    finally:
        running.stop()
    return flow
