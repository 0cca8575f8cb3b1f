"""Positions in bulk over real brokers, by the command and by Spark, each against what both logs hold; and the index of
what stock has copied, by which they are exact when the source is gone."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import KafkaException
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from typer.testing import CliRunner

from bridge.cli import app
from bridge.errors import ConfigRejected, OperationRefused
from bridge.kafka.cluster import KafkaClusters
from bridge.kafka.config.settings import StaticClientCheck
from bridge.local import Cluster, ConnectWorker, LocalStack
from bridge.local.processes import ManagedProcess
from bridge.model.state_records.claims import Claim
from bridge.model.values import LogRecord, TopicPartition
from bridge.positions.flow import Flow
from bridge.positions.translator import REASONS, VERDICTS, PositionColumns, PositionTranslator
from bridge.spark import translate_offsets
from bridge.spark.indexing.index import Index
from bridge.spark.indexing.task import PairedPart, PairTask
from bridge.spark.rejected import SourceRejected
from bridge.translation.runs.run_evidence import read_runs
from bridge.translation.runs.runs import OffsetRun
from connectors.source.options import SourceOptions
from tests.integration.copy_flow import CopyFlow
from tests.support import (
    Record,
    bounds,
    create_topic,
    delete_records,
    eventually,
    mirroring,
    numbered,
    produce,
    produce_transaction,
    read,
    set_topic_config,
    unique,
    wait_mirrored,
)
from tests.support.brokers import RESTARTED
from tests.support.indexing import InProcess
from tests.support.messages import message, message_pattern
from tests.support.spark import run_stream
from tests.support.topics import wait_transactions_ended
from tests.support.waits import WAIT

TIME = 1_700_000_000_000
RECORDS = 40
COMMAND = (sys.executable, "-m", "bridge", "translate")


@pytest.fixture(scope="module")
def flow(stack: LocalStack) -> CopyFlow:
    """Two partitions that our pipeline has copied, behind markers; and a topic of the same records that another mirror
    has copied behind others of its own."""
    flow = CopyFlow(stack.source, stack.target)
    ours = flow.topic(2)
    for partition in range(2):
        for start in range(0, RECORDS, 10):
            some = numbered(10, start=start, timestamp=TIME + start, partition=partition)
            produce_transaction(flow.source.bootstrap, ours, some)
    flow.copy()
    others = create_topic(flow.source.bootstrap, unique("copied"))
    create_topic(flow.target.bootstrap, flow.remote(others))
    produce(flow.target.bootstrap, flow.remote(others), numbered(7, start=1000, timestamp=TIME))
    for cluster, topic in ((flow.source, others), (flow.target, flow.remote(others))):
        produce(cluster.bootstrap, topic, numbered(RECORDS, timestamp=TIME))
    flow.topics.append(others)
    return flow


def config(flow: CopyFlow, source: Cluster | None = None) -> dict[str, str]:
    return {
        "connector.class": "MirrorGroupOffsetConnector",
        "source.cluster.alias": flow.alias,
        "source.cluster.bootstrap.servers": (source or flow.source).bootstrap,
        "target.cluster.bootstrap.servers": flow.target.bootstrap,
        "admin.timeout.ms": "30000",
    }


def positions(flow: CopyFlow) -> list[tuple[str, int, int]]:
    """Every offset of every partition, and one that no log has."""
    ours, others = flow.topics
    ends = {(ours, 0): RECORDS + 4, (ours, 1): RECORDS + 4, (others, 0): RECORDS}
    return [(*place, offset) for place, end in ends.items() for offset in range(end + 1)] + [
        ("nowhere", 0, 5)
    ]


class Truth:
    """Both logs of each partition, read once."""

    def __init__(self, flow: CopyFlow) -> None:
        ours, others = flow.topics
        self._logs = {
            place: (flow.original(*place), flow.copies(*place))
            for place in ((ours, 0), (ours, 1), (others, 0))
        }

    def allowed(self, topic: str, partition: int, offset: int) -> range:
        """Where a group may resume: behind the last copy of what it has read, up to the first of what it has not."""
        originals, copies = self._logs[topic, partition]
        left = {each.value for each in originals if each.offset >= offset}
        unread = next((each.offset for each in copies if each.value in left), copies[-1].offset + 2)
        return range(
            max((each.offset for each in copies if each.offset < unread), default=-1) + 1, unread + 1
        )


def check(flow: CopyFlow, rows: Sequence[dict[str, Any]]) -> None:
    assert [(row["topic"], row["partition"], row["offset"]) for row in rows] == positions(flow)
    # The last topic is on neither side; the target may answer first.
    assert rows[-1]["verdict"] == "pending"
    assert rows[-1]["reason"] in ("source_topic_missing", "target_topic_missing")
    truth = Truth(flow)
    for row in rows[:-1]:
        assert (row["verdict"], row["bound"]) == ("exact", 0), row
        assert row["target_topic"] == flow.remote(row["topic"])
        evidence = "run" if row["topic"] == flow.topics[0] else "verified"
        assert row["evidence"] == evidence, row
        assert row["target_offset"] in truth.allowed(row["topic"], row["partition"], row["offset"]), row


def test_the_command_answers_for_every_offset(flow: CopyFlow, tmp_path: Path) -> None:
    file, asked, answers = (tmp_path / name for name in ("flow.json", "positions.csv", "answers.json"))
    file.write_text(json.dumps(config(flow)))
    lines = [f"{topic},{partition},{offset}" for topic, partition, offset in positions(flow)]
    asked.write_text("\n".join(["topic,partition,offset", *lines, ""]))

    command = [*COMMAND, "--config", str(file), "--input", str(asked), "--output", str(answers)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT, check=False)
    rows = json.loads(answers.read_text())
    check(flow, [row | {"partition": int(row["partition"]), "offset": int(row["offset"])} for row in rows])
    exact = len(lines) - 1
    assert (done.returncode, done.stderr.splitlines()) == (
        3,
        [
            f"mirror-bridge: {exact} exact, 0 bounded, 1 pending",
            "mirror-bridge: pending, source_topic_missing: 1",
        ],
    )


def test_a_checkpoint_of_sparks_own_source_becomes_starting_offsets(flow: CopyFlow, tmp_path: Path) -> None:
    topic = flow.topics[0]
    file, checkpoint, answered = (tmp_path / name for name in ("flow.json", "checkpoint", "answers.json"))
    file.write_text(json.dumps(config(flow)))
    for name, text in (
        ("offsets/7", f'v1\n{{"batchWatermarkMs":0}}\n{{"{topic}":{{"0":13,"1":25}}}}'),
        ("offsets/8", f'v1\n{{"batchWatermarkMs":0}}\n{{"{topic}":{{"0":40,"1":40}}}}'),
        ("commits/7", "v1\n{}"),
    ):
        (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
        (checkpoint / name).write_text(text)
    arguments = ("translate", "--config", file, "--checkpoint", checkpoint, "--output", answered)
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    offsets = json.loads(result.stdout)[flow.remote(topic)]
    rows = json.loads(answered.read_text())
    assert [(row["source"], row["partition"], row["offset"]) for row in rows] == [(0, 0, 13), (0, 1, 25)]
    truth = Truth(flow)
    for row in rows:
        assert offsets[str(row["partition"])] == row["target_offset"]
        assert row["target_offset"] in truth.allowed(topic, row["partition"], row["offset"])
    missing = CliRunner().invoke(app, [*map(str, arguments[:4]), str(tmp_path / "none")])
    assert missing.exit_code == 2


@pytest.mark.long
def test_a_spark_query_goes_on_from_the_target(flow: CopyFlow, tmp_path: Path, spark: SparkSession) -> None:
    """By its checkpoint, in the middle of what there is: no record is lost, and none is there twice."""
    topic = flow.topics[0]
    file, checkpoint = tmp_path / "flow.json", tmp_path / "checkpoint"
    file.write_text(json.dumps(config(flow)))
    read = list[bytes]()

    def run(cluster: Cluster, topics: str, place: Path, triggers: int, **options: str) -> None:
        reader = spark.readStream.format("mirror-records").option(
            "kafka.bootstrap.servers", cluster.bootstrap
        )
        frame = reader.option("subscribe", topics).options(**options).load()
        done = list[int]()

        def collect(batch: DataFrame, _: int) -> None:
            if len(done) == triggers:
                raise RuntimeError("the cluster is gone")
            read.extend(bytes(row.value) for row in batch.select("value").collect())
            done.append(1)

        writer = frame.writeStream.foreachBatch(collect).option("checkpointLocation", str(place))
        with suppress(StreamingQueryException) if triggers < 100 else nullcontext():
            run_stream(lambda: writer.trigger(availableNow=True).start())

    run(flow.source, topic, checkpoint, 2, startingOffsets="earliest", maxOffsetsPerTrigger="30")
    assert 0 < len(read) < 2 * RECORDS
    arguments = ("translate", "--config", str(file), "--checkpoint", str(checkpoint))
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    offsets = json.loads(result.stdout)
    assert offsets.keys() == {flow.remote(topic)}
    run(flow.target, flow.remote(topic), tmp_path / "other", 100, startingOffsets=result.stdout.strip())
    assert sorted(read) == sorted(
        each.value or b"" for partition in range(2) for each in flow.original(topic, partition)
    )


def test_what_the_target_has_deleted_is_counted_behind_each_position(
    stack: LocalStack, tmp_path: Path
) -> None:
    flow = CopyFlow(stack.source, stack.target)
    topic = flow.topic(1)
    produce(flow.source.bootstrap, topic, numbered(RECORDS, timestamp=TIME))
    flow.copy()
    offsets = list(range(RECORDS + 1))
    assert {row["verdict"] for row in answers(config(flow), topic, offsets, tmp_path)} == {"exact"}
    delete_records(flow.target.bootstrap, flow.remote(topic), {0: 30})
    for row in answers(config(flow), topic, offsets, tmp_path):
        lacks = max(0, 30 - int(row["offset"]))
        expected = ("pending", "records_not_on_target") if lacks else ("exact", None)
        assert (row["verdict"], row["reason"]) == expected, row
        assert (row["not_on_target"], row["target_offset"]) == (lacks, max(30, int(row["offset"]))), row


@pytest.mark.long
def test_a_target_that_begins_to_overwrite_timestamps_costs_no_answer(stack: LocalStack) -> None:
    """Records show it to who has described the topic's configs a moment ago."""
    flow = CopyFlow(stack.source, stack.target)
    topic = flow.topic(1)
    props = config(flow)

    async def verdicts(translator: PositionTranslator, end: int) -> list[str]:
        translator.use(await translator.load())
        asked = PositionColumns([topic], np.zeros(end, np.int32), np.zeros(end, np.int32), np.arange(end))
        codes = (await translator.translate(asked)).answers
        return [
            f"{VERDICTS[each]} {REASONS[why]}" for each, why in zip(codes.verdict, codes.reason, strict=True)
        ]

    async def twice() -> None:
        clusters = KafkaClusters()
        translator = PositionTranslator(Flow.from_props(props, StaticClientCheck()), clusters, props)
        for start in (0, RECORDS):
            produce(flow.source.bootstrap, topic, numbered(RECORDS, start=start, timestamp=TIME + start))
            await asyncio.to_thread(flow.copy)
            end = start + RECORDS
            assert {each.split()[0] for each in await verdicts(translator, end)} == {"exact"}
            set_topic_config(
                flow.target.bootstrap, flow.remote(topic), {"message.timestamp.type": "LogAppendTime"}
            )
        await clusters.close()

    asyncio.run(twice())


@pytest.mark.long
def test_without_the_source_runs_answer_alone(flow: CopyFlow, tmp_path: Path, stack: LocalStack) -> None:
    gone = stack.broker(unique("gone"))
    gone.stop()
    file, asked, answers = (tmp_path / name for name in ("flow.json", "positions.csv", "answers.json"))
    file.write_text(json.dumps({**config(flow, gone), "admin.timeout.ms": "3000"}))
    ours, others = flow.topics
    asked.write_text(f"topic,partition,offset\n{ours},0,13\n{others},0,13\n")
    command = [*COMMAND, "--config", str(file), "--input", str(asked), "--output", str(answers)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT, check=False)
    assert done.returncode == 3, done.stderr
    assert message("positions.source_silent") in done.stderr
    one, other = json.loads(answers.read_text())
    assert one["verdict"] == "exact"
    assert one["target_offset"] in Truth(flow).allowed(ours, 0, 13)
    assert (other["verdict"], other["reason"]) == ("pending", "source_unreachable")


@pytest.mark.long
def test_a_data_frame_gets_the_same_answers_beside_its_columns(flow: CopyFlow, spark: SparkSession) -> None:
    asked = [(number, *row) for number, row in enumerate(positions(flow))]
    frame = spark.createDataFrame(asked, "job long, topic string, partition int, offset long")
    answers = translate_offsets(frame, config(flow))
    assert answers.columns == [
        *frame.columns,
        *["target_topic", "target_offset", "verdict", "bound"],
        *answers.columns[8:],
    ]
    check(flow, [row.asDict() for row in answers.orderBy("job").collect()])


@pytest.mark.long
def test_what_is_wrong_with_a_data_frame_is_one_line(flow: CopyFlow, spark: SparkSession) -> None:
    frame = spark.createDataFrame([("orders", 1.5)], "topic string, partition double")
    wrong = message_pattern("positions.frame_number", column="partition", type="double")
    with pytest.raises(SourceRejected, match=f"no column offset; .*{wrong}"):
        translate_offsets(frame, config(flow))
    frame = spark.createDataFrame([("orders", 0, -5)], "topic string, partition int, offset long")
    with pytest.raises(ConfigRejected, match=r"connector\.class"):
        translate_offsets(frame, {**config(flow), "connector.class": "Mine"})


# -- an index of what another mirror has copied ----------------------------------------------------------------------


class InSpark:
    """Runs tasks in a session that is there, in the place of bridge.pipeline.driver.jobs.SparkJobs."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext

    def results(self, work: Callable[[PairTask], PairedPart], items: Sequence[PairTask]) -> list[PairedPart]:
        return self._context.parallelize(items, len(items)).map(work).collect()

    def close(self) -> None:
        pass


def mirror_config(source: Cluster, target: Cluster, topic: str) -> dict[str, str]:
    return {
        "name": "index",
        "connector.class": "BridgeMirrorSourceConnector",
        "source.cluster.alias": source.name,
        "source.cluster.bootstrap.servers": source.bootstrap,
        "target.cluster.bootstrap.servers": target.bootstrap,
        "topics": topic,
        "offset-syncs.topic.replication.factor": "1",
        "spark.master": "local[2]",
    }


def index(props: dict[str, str], jobs: InProcess | None = None) -> Index:
    options = SourceOptions.from_props(props, StaticClientCheck())
    made = Index(options.spec("index", props), options.remote_of, 1)
    asyncio.run(made.run(jobs or InProcess(), None, lambda _: None))
    return made


def runs_of(target: Cluster, alias: str) -> list[LogRecord]:
    topic = f"mm2-offset-runs.{alias}.internal"
    wait_transactions_ended(target.bootstrap, topic)
    records = read(target.bootstrap, topic, committed_only=True)
    return [LogRecord(each.offset, 0, each.key, each.value) for each in records]


def some_records() -> list[Record]:
    """With twins at several places, next to each other and a little apart."""
    plain = numbered(300, timestamp=TIME)
    return [*plain[:100], plain[99], plain[99], *plain[100:200], plain[197], *plain[200:]]


def offsets_of(source: Cluster, topic: str) -> list[int]:
    return list(range(bounds(source.bootstrap, topic)[0][1] + 1))


def answers(props: dict[str, str], topic: str, offsets: Sequence[int], folder: Path) -> list[dict[str, Any]]:
    """What groups at these offsets get."""
    file, asked, answered = (folder / name for name in ("flow.json", "positions.csv", "answers.json"))
    ours = ("source.cluster.alias", "source.cluster.bootstrap.servers", "target.cluster.bootstrap.servers")
    groups = {"connector.class": "MirrorGroupOffsetConnector", "admin.timeout.ms": "3000"}
    file.write_text(json.dumps({**groups, **{key: props[key] for key in ours}}))
    lines = [f"{topic},0,{offset}" for offset in offsets]
    asked.write_text("\n".join(["topic,partition,offset", *lines, ""]))
    arguments = ("translate", "--config", file, "--input", asked, "--output", answered)
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exit_code in (0, 3), done.output
    rows: list[dict[str, Any]] = json.loads(answered.read_text())
    return rows


@contextmanager
def following(config: Path, log: Path) -> Iterator[ManagedProcess]:
    """The command with --follow, ended by SIGTERM."""
    command = [
        sys.executable,
        "-m",
        "bridge",
        "index",
        "--config",
        str(config),
        "--follow",
        "--interval",
        "0.5",
    ]
    process = ManagedProcess("index --follow", command, log)
    process.start()
    try:
        yield process
    finally:
        process.stop()


def last_run(source: Cluster, target: Cluster, topic: str) -> OffsetRun:
    runs = read_runs(runs_of(target, source.name))
    (known,) = (each for copy, each in runs.items() if copy.source == TopicPartition(topic, 0))
    assert known.last is not None
    return known.last


def wait_indexed(source: Cluster, target: Cluster, topic: str, follow: ManagedProcess) -> None:
    end = bounds(source.bootstrap, topic)[0][1]

    def indexed() -> None:
        assert last_run(source, target, topic).upstream_end == end, follow.log_tail()

    eventually(indexed, WAIT, what=f"{topic} is indexed to {end}", watched=[follow])


@pytest.mark.long
def test_what_stock_has_copied_is_exact_when_the_source_is_gone(
    stack: LocalStack,
    target: Cluster,
    worker: ConnectWorker,
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    origin = stack.broker(unique("origin"), properties=RESTARTED)
    topic = create_topic(origin.bootstrap, unique("indexed"))
    remote = create_topic(target.bootstrap, f"{origin.name}.{topic}")
    produce(target.bootstrap, remote, numbered(7, start=5000, timestamp=TIME))
    produce(origin.bootstrap, topic, some_records())
    props = mirror_config(origin, target, topic)
    with mirroring(worker, origin, target, [topic]):
        wait_mirrored(origin, target, [topic], worker)
        file = tmp_path / "index.json"
        file.write_text(json.dumps(props))
        monkeypatch.setattr("bridge.pipeline.driver.jobs.SparkJobs", lambda *_: InSpark(spark))
        done = CliRunner().invoke(app, ["index", "--config", str(file), "--output", "json"])
        assert done.exit_code == 0, done.output
        file.write_text(json.dumps({**props, "topics": f"{topic},gone"}))
        done = CliRunner().invoke(app, ["index", "--config", str(file), "--output", "json"])
        assert (done.exit_code, "gone: there is no topic gone on the source" in done.output) == (3, True), (
            done.output
        )
        file.write_text(json.dumps(props))
        before = runs_of(target, origin.name)
        assert index(props).refused == []
        assert runs_of(target, origin.name) == before, "what is indexed already is not written again"
        log = tmp_path / "follow.log"
        with following(file, log) as follow:
            for start in (1000, 2000):
                produce(origin.bootstrap, topic, numbered(100, start=start, timestamp=TIME + 5 * start))
                wait_mirrored(origin, target, [topic], worker)
                wait_indexed(origin, target, topic, follow)
                if start == 1000:
                    origin.stop()
                    follow.wait_until(lambda: "waiting: " in follow.log_tail(), 60.0, "it says that it waits")
                    origin.start()
            os.kill(follow.pid, signal.SIGTERM)  # and not Spark's JVM
            eventually(lambda: follow.exit_status == 0, WAIT, what="it ends in good order")
        said = log.read_text()
        assert "Traceback" not in said
        assert "mirror-bridge: ends after this pass" in said
    last = last_run(origin, target, topic)
    assert (last.found, last.handed_back) == (True, True)
    originals, offsets = read(origin.bootstrap, topic), offsets_of(origin, topic)
    copies = read(target.bootstrap, remote, committed_only=True)
    origin.stop()
    exact = 0
    for row in answers(props, topic, offsets, tmp_path):
        offset, answer = int(row["offset"]), row["target_offset"]
        # Stock copies each record once as long as nothing fails: copies stand behind the seven foreign records.
        wanted = sum(each.offset < offset for each in originals) + 7
        assert wanted == 7 or copies[wanted - 1].content == originals[wanted - 8].content
        assert answer is None or answer <= wanted, row
        assert answer is None or wanted - answer <= row["bound"], row
        exact += row["verdict"] == "exact" and row["evidence"] == "run"
    assert exact > 0.97 * len(offsets), exact


@pytest.mark.long
def test_what_a_connector_owns_is_left_out_and_the_owner_named(source: Cluster, target: Cluster) -> None:
    topic = create_topic(source.bootstrap, unique("indexed"))
    for cluster, name in ((source, topic), (target, f"{source.name}.{topic}")):
        if cluster is target:
            create_topic(target.bootstrap, name)
        produce(cluster.bootstrap, name, numbered(50, timestamp=TIME))
    props = {**mirror_config(source, target, topic), "source.cluster.alias": source.name}
    layouts = f"mm2-layout.{source.name}.internal"
    with suppress(KafkaException):  # another test has made it
        create_topic(target.bootstrap, layouts, 1, {"cleanup.policy": "compact"})
    claim = Claim(topic, f"{source.name}.{topic}", "the-owner")

    def claimed() -> None:
        produce(target.bootstrap, layouts, [Record(claim.value(), key=claim.key())])

    def known() -> list[TopicPartition]:
        return [copy.source for copy in read_runs(runs_of(target, source.name))]

    with pytest.raises(OperationRefused, match=f"connector the-owner now copies {topic}-0"):
        index(props, InProcess(claimed))
    assert TopicPartition(topic, 0) not in known(), "a claim that comes meanwhile counts"
    made = index(props)
    assert (made.rows, len(made.refused)) == ({}, 1)
    assert "connector the-owner copies it to" in made.refused[0]
    produce(target.bootstrap, layouts, [Record(None, key=claim.key())])
    assert index(props).refused == []
    assert TopicPartition(topic, 0) in known()


@pytest.mark.long
def test_a_compacted_copy_is_left_out(source: Cluster, target: Cluster) -> None:
    topic = create_topic(source.bootstrap, unique("indexed"))
    create_topic(target.bootstrap, f"{source.name}.{topic}", 1, {"cleanup.policy": "compact"})
    made = index(mirror_config(source, target, topic))
    assert made.rows == {}
    assert "is compacted" in made.refused[0]
