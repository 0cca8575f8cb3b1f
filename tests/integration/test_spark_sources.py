"""mirror-records in a real Spark session, over real brokers; and the tour, docs/spark-tour.md, block by block."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bridge.local import Cluster, ConnectWorker
from bridge.mm2.records import Checkpoint, OffsetSync
from bridge.mm2.replication_policy import DefaultReplicationPolicy
from bridge.model.copying import Gap, GapKind
from bridge.model.values import TopicPartition
from bridge.pipeline.slices.gaps import ledger_entry
from bridge.translation.runs.runs import OffsetRun
from tests.integration.pages import blocks, run, tidied
from tests.support import (
    Record,
    commit,
    connector,
    create_topic,
    delete_records,
    delete_topic,
    eventually,
    numbered,
    produce,
    produce_transaction,
    stock_config,
    unique,
)
from tests.support.messages import message, message_pattern
from tests.support.spark import run_stream
from tests.support.waits import WAIT

TIME = 1_700_000_000_000
SECRET = "planted-s3cr3t"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture
def read(spark: SparkSession, source: Cluster) -> Callable[..., DataFrame]:
    def load(topics: str, schema: str = "", **options: str) -> DataFrame:
        reader = spark.read.format("mirror-records").option("kafka.bootstrap.servers", source.bootstrap)
        reader = reader.option("subscribe", topics).options(**options)
        return (reader.schema(schema) if schema else reader).load()

    return load


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.orderBy("topic", "partition", "offset").collect()]


def test_records_come_with_all_that_they_have(source: Cluster, read: Callable[..., DataFrame]) -> None:
    topic = create_topic(source.bootstrap, unique("records"), 2)
    produce(
        source.bootstrap,
        topic,
        [
            Record(b"one", b"k", TIME, (("h", b"1"), ("empty", None), ("h", b""))),
            Record(None, None, TIME + 1, partition=1),
            Record(b"", b"", TIME + 2, partition=1),
        ],
    )
    common = {"topic": topic, "timestampType": 0, "leader_epoch": 0}
    headers = [{"key": "h", "value": b"1"}, {"key": "empty", "value": None}, {"key": "h", "value": b""}]
    time = [datetime.fromtimestamp((TIME + step) / 1000, UTC).replace(tzinfo=None) for step in range(3)]
    assert rows(read(topic)) == [
        common
        | {
            "partition": 0,
            "offset": 0,
            "timestamp": time[0],
            "key": b"k",
            "value": b"one",
            "headers": headers,
        },
        common
        | {"partition": 1, "offset": 0, "timestamp": time[1], "key": None, "value": None, "headers": None},
        common
        | {"partition": 1, "offset": 1, "timestamp": time[2], "key": b"", "value": b"", "headers": None},
    ]


@pytest.mark.long
def test_every_offset_is_read_once_however_it_is_divided_and_compressed(
    source: Cluster, read: Callable[..., DataFrame]
) -> None:
    topic = create_topic(source.bootstrap, unique("records"), len(CODECS) + 1)
    for partition, codec in enumerate((*CODECS, "none")):
        records = numbered(2000, partition=partition, timestamp=TIME)
        produce(source.bootstrap, topic, records, compression=codec, batch_size=4000)
    whole = read(topic, minPartitions="12").where(f"partition < {len(CODECS)} and offset between 50 and 1500")
    assert whole.rdd.getNumPartitions() >= 12
    summary = whole.groupBy("partition").agg(
        F.count("*"), F.countDistinct("offset"), F.min("offset"), F.max("offset"), F.sum(F.length("value"))
    )
    length = sum(len(b"value-%d" % number) for number in range(50, 1501))
    assert sorted(map(tuple, summary.collect())) == [
        (partition, 1451, 1451, 50, 1500, length) for partition in range(len(CODECS))
    ]

    stored = sum(len(b"key-%d" % n) + len(b"value-%d" % n) + 9 for n in range(2000))
    by_bytes = read(topic, maxPartitionBytes="8000").where("partition = 0")
    parts = by_bytes.groupBy(F.spark_partition_id()).agg(F.count("*"), F.min("offset"), F.max("offset"))
    counts = sorted((least, most, count) for _, count, least, most in parts.collect())
    assert len(counts) == pytest.approx(stored / 8000, abs=1), "sized by what the log stores"
    assert [(least, most + 1) for least, most, _ in counts] == [
        (sum(each[2] for each in counts[:number]), sum(each[2] for each in counts[: number + 1]))
        for number in range(len(counts))
    ], "one behind the other, none twice"
    assert sum(each[2] for each in counts) == 2000


@pytest.mark.long
def test_offsets_and_times_say_what_is_read(source: Cluster, read: Callable[..., DataFrame]) -> None:
    topic = create_topic(source.bootstrap, unique("records"))
    produce(source.bootstrap, topic, numbered(100, timestamp=TIME))
    assert read(topic, startingOffsets=f'{{"{topic}": {{"0": 90}}}}').count() == 10
    assert read(topic, endingOffsets=f'{{"{topic}": {{"0": 30}}}}').count() == 30
    between = read(topic, startingTimestamp=str(TIME + 20), endingTimestamp=str(TIME + 25))
    assert [row.offset for row in between.select("offset").orderBy("offset").collect()] == [
        20,
        21,
        22,
        23,
        24,
    ]
    late = read(topic).where(F.col("timestamp") >= F.lit(datetime.fromtimestamp((TIME + 95) / 1000, UTC)))
    assert late.count() == 5
    filtered = read(topic).where("offset > 5 and partition = 0 and topic is not null")
    assert filtered.count() == 94
    assert "Filter (" not in filtered._jdf.queryExecution().executedPlan().toString(), (
        "nothing is left to Spark"
    )
    delete_records(source.bootstrap, topic, {0: 40})
    assert read(topic).count() == 60
    gone = message_pattern("spark.gone", start=10, end=39, begin=40)
    with pytest.raises(PySparkException, match=gone):
        read(topic, startingOffsets=f'{{"{topic}": {{"0": 10}}}}').count()
    assert read(topic, startingOffsets=f'{{"{topic}": {{"0": 10}}}}', failOnDataLoss="false").count() == 60


@pytest.mark.long
def test_aborted_records_are_read_only_where_they_are_asked_for(
    source: Cluster, read: Callable[..., DataFrame]
) -> None:
    topic = create_topic(source.bootstrap, unique("records"))
    produce_transaction(source.bootstrap, topic, numbered(10))
    produce_transaction(source.bootstrap, topic, numbered(10), commit=False)
    produce_transaction(source.bootstrap, topic, numbered(10))
    assert read(topic).count() == 20
    assert read(topic, **{"isolation.level": "read_uncommitted"}).count() == 30


@pytest.mark.long
def test_a_schema_chooses_columns(source: Cluster, read: Callable[..., DataFrame]) -> None:
    topic = create_topic(source.bootstrap, unique("records"))
    produce(source.bootstrap, topic, numbered(5))
    assert read(topic, "offset bigint, partition int").orderBy("offset").first() == (0, 0)
    assert [row.value for row in read(topic, "value binary").collect()] == [b"value-%d" % n for n in range(5)]
    with pytest.raises(PySparkException) as caught:
        read(topic, "offset int, vlaue binary").count()
    assert message("spark.wrong_type", column="offset", type="int", right="bigint") in str(caught.value)
    assert message("spark.no_column", column="vlaue", type="binary") in str(caught.value)


def test_bad_input_is_one_line(
    spark: SparkSession, source: Cluster, read: Callable[..., DataFrame], tmp_path: Path
) -> None:
    topic = create_topic(source.bootstrap, unique("records"))
    with pytest.raises(PySparkException) as missing:
        read(topic + "s").count()
    assert f"mirror-records: there is no topic {topic}s on {source.bootstrap}; did you mean {topic}?" in str(
        missing.value
    )
    deleted = create_topic(source.bootstrap, unique("gone"))
    loaded = read(deleted)
    delete_topic(source.bootstrap, deleted)
    with pytest.raises(PySparkException) as gone:
        loaded.count()
    assert f"mirror-records: there is no topic {deleted} on {source.bootstrap}" in str(gone.value)
    with pytest.raises(PySparkException) as misspelt:
        read(topic, startingOffset="earliest")
    unknown = message("spark.no_option", option="startingoffset", meant="startingOffsets")
    assert unknown in str(misspelt.value)
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "500"}
    away = spark.read.format("mirror-records").options(**options).option("subscribe", topic).load()
    with pytest.raises(PySparkException) as nobody:
        away.count()
    away_line = "mirror-records: Connect call failed ('127.0.0.1', 1) (while trying to describe topics "
    assert away_line in str(nobody.value)
    groups = spark.read.format("mirror-groups").option("config", str(tmp_path / "none.json"))
    with pytest.raises(PySparkException) as unread:
        groups.load()
    assert "mirror-groups: option config: can't read" in str(unread.value)
    flow = {
        "name": "groups",
        "connector.class": "MirrorGroupOffsetConnector",
        "source.cluster.alias": "A",
        "source.cluster.bootstrap.servers": source.bootstrap,
        "target.cluster.bootstrap.servers": "127.0.0.1:1",
        "admin.timeout.ms": "2000",
    }
    (tmp_path / "flow.json").write_text(json.dumps(flow))
    with pytest.raises(PySparkException) as away_target:
        spark.read.format("mirror-groups").option("config", str(tmp_path / "flow.json")).load().count()
    assert "mirror-groups: target cluster: " in str(away_target.value)
    for caught in (missing, gone, misspelt, nobody, unread, away_target):
        assert "Traceback" not in str(caught.value)
        assert 'File "' not in str(caught.value)


def test_a_stream_reads_all_in_rates_and_goes_on_from_its_checkpoint(
    spark: SparkSession, source: Cluster, tmp_path: Path
) -> None:
    topic = create_topic(source.bootstrap, unique("records"), 2)

    def fill(start: int) -> None:
        for partition in range(2):
            produce(source.bootstrap, topic, numbered(50, start=start, partition=partition))

    def run(**options: str) -> None:
        reader = spark.readStream.format("mirror-records").option("kafka.bootstrap.servers", source.bootstrap)
        frame = reader.option("subscribePattern", topic).options(**options).load()
        writer = frame.writeStream.format("parquet").option(
            "checkpointLocation", str(tmp_path / "checkpoint")
        )
        run_stream(lambda: writer.trigger(availableNow=True).start(str(tmp_path / "out")))

    def written() -> list[tuple[int, int]]:
        frame = spark.read.parquet(str(tmp_path / "out")).select("partition", "offset")
        return sorted((row.partition, row.offset) for row in frame.collect())

    fill(0)
    run(startingOffsets="earliest", maxOffsetsPerTrigger="40")
    assert written() == [(partition, offset) for partition in range(2) for offset in range(50)]
    offsets = list((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"))
    assert len(offsets) >= 3
    fill(50)
    # As if the query had died between planning its last micro-batch and committing it.
    last = max((tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink()
    run()
    assert written() == [(partition, offset) for partition in range(2) for offset in range(100)]
    delete_topic(source.bootstrap, topic)
    create_topic(source.bootstrap, topic, 2)
    with pytest.raises(PySparkException, match=f"topic {topic} was deleted and made again"):
        run()


def test_a_stream_begins_where_it_has_begun_though_its_first_batch_has_failed(
    spark: SparkSession, source: Cluster, tmp_path: Path
) -> None:
    topic = create_topic(source.bootstrap, unique("records"))
    produce(source.bootstrap, topic, numbered(18))
    read = list[int]()

    def fail(batch: DataFrame, _: int) -> None:
        raise RuntimeError("the batch fails")

    def collect(batch: DataFrame, _: int) -> None:
        read.extend(row.offset for row in batch.select("offset").collect())

    def run(work: Callable[[DataFrame, int], None], **options: str) -> None:
        reader = spark.readStream.format("mirror-records").option("kafka.bootstrap.servers", source.bootstrap)
        frame = reader.option("subscribe", topic).options(**options).load()
        writer = frame.writeStream.foreachBatch(work).option(
            "checkpointLocation", str(tmp_path / "checkpoint")
        )
        run_stream(lambda: writer.trigger(availableNow=True).start())

    with pytest.raises(PySparkException, match="the batch fails"):
        run(fail)
    produce(source.bootstrap, topic, numbered(12, start=18))
    run(collect)
    assert sorted(read) == list(range(18, 30))
    with pytest.raises(PySparkException) as rejected:
        run(collect, endingOffsets="latest")
    said = message("spark.batch_only", source="mirror-records", option="endingOffsets")
    assert said in str(rejected.value)
    assert "UnboundLocalError" not in str(rejected.value)


@pytest.mark.long
def test_passwords_are_in_no_plan(spark: SparkSession, source: Cluster, tmp_path: Path) -> None:
    topic = create_topic(source.bootstrap, unique("records"))
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    file = tmp_path / "client.properties"
    # Of a broker without passwords: it is read, checked, and not used.
    file.write_text(
        f'ssl.truststore.password={SECRET}\nsasl.jaas.config={login} username="u" password="{SECRET}";\n'
    )
    reader = spark.read.format("mirror-records").option("kafka.bootstrap.servers", source.bootstrap)
    by_file = reader.option("subscribe", topic).option("commandConfig", str(file)).load()
    by_option = reader.option("kafka.sasl.jaas.config", f'{login} username="u" password="{SECRET}";').load()
    for frame in (by_file, by_option):
        frame.count()
        frame.explain(mode="formatted")
        assert SECRET not in frame._jdf.queryExecution().toString()


@pytest.mark.long
def test_internal_topics_are_tables_of_the_newest_of_each_key(spark: SparkSession, source: Cluster) -> None:
    policy, alias = DefaultReplicationPolicy(), unique("A")
    tp = TopicPartition("orders", 0)
    run = OffsetRun(tp, "id", "A.orders", "its", 0, 0, 100, 50, 0, 0, 1, 50, TIME)
    sync, checkpoint = OffsetSync(tp, 5, 7), Checkpoint("billing", tp, 5, 7, "")
    gap = Gap(tp, GapKind.TRUNCATED, "id", 5, 9, TIME, "retention", "A.orders")
    runs, syncs = policy.offset_runs_topic(alias), policy.offset_syncs_topic(alias)
    gaps = f"mm2-gaps.{alias}.internal"
    checkpoints = policy.checkpoints_topic(alias)
    contents: dict[str, list[tuple[bytes, bytes | None]]] = {
        runs: [(run.key(), run.value()), (run.key(), run._replace(upstream_count=60, position=60).value())],
        syncs: [(sync.key(), sync.value())],
        gaps: [ledger_entry(gap, "copy")],
        checkpoints: [(checkpoint.key(), checkpoint.value()), (b"x", b"y"), (checkpoint.key(), None)],
    }
    for topic, records in contents.items():
        create_topic(source.bootstrap, topic)
        produce(source.bootstrap, topic, [Record(value, key) for key, value in records])

    def table(name: str, topic: str, **options: str) -> DataFrame:
        reader = spark.read.format(name).option("kafka.bootstrap.servers", source.bootstrap)
        return reader.option("subscribe", topic).options(**options).load()

    (row,) = table("mirror-runs", runs).where("topic = 'orders'").collect()
    assert (row.upstream_end, row.downstream_end, row.deleted, row.record_offset) == (60, 160, False, 1)
    assert table("mirror-runs", runs, history="true").count() == 2
    (row,) = table("mirror-offset-syncs", syncs).select("downstream_offset", "topic").collect()
    assert tuple(row) == (7, "orders")
    (row,) = table("mirror-checkpoints", checkpoints).collect()
    assert row.error.startswith("no version")
    (row,) = table("mirror-gaps", gaps).collect()
    assert (row.kind, row.upstream_from, row.upstream_to, row.connector, row.error) == (
        "truncated",
        5,
        9,
        "copy",
        None,
    )
    by_name = spark.read.format("mirror-runs").option("kafka.bootstrap.servers", source.bootstrap).load()
    assert by_name.where(F.col("record_topic") == runs).count() == 1


@pytest.mark.long
def test_a_stream_of_an_internal_topic_has_every_record_as_it_comes(
    spark: SparkSession, source: Cluster, tmp_path: Path
) -> None:
    """Those too that others take the place of, or take back."""
    run = OffsetRun(TopicPartition("orders", 0), "id", "A.orders", "its", 0, 0, 100, 50, 0, 0, 1, 50, TIME)
    runs = create_topic(source.bootstrap, DefaultReplicationPolicy().offset_runs_topic(unique("A")))
    newer = run._replace(upstream_count=60, position=60)
    produce(source.bootstrap, runs, [Record(run.value(), run.key()), Record(newer.value(), run.key())])

    def streamed(name: str) -> list[tuple[int | None, bool]]:
        reader = spark.readStream.format("mirror-runs").option("kafka.bootstrap.servers", source.bootstrap)
        frame = reader.option("subscribe", runs).option("startingOffsets", "earliest").load()
        writer = frame.writeStream.format("parquet").option(
            "checkpointLocation", str(tmp_path / "checkpoint")
        )
        run_stream(lambda: writer.trigger(availableNow=True).start(str(tmp_path / "out")))
        rows = spark.read.parquet(str(tmp_path / "out")).orderBy("record_offset").collect()
        return [(row.upstream_end, row.deleted) for row in rows]

    assert streamed("first") == [(50, False), (60, False)]
    produce(source.bootstrap, runs, [Record(None, run.key())])
    assert streamed("goes on") == [(50, False), (60, False), (None, True)]
    reader = spark.read.format("mirror-runs").option("kafka.bootstrap.servers", source.bootstrap)
    assert reader.option("subscribe", runs).load().count() == 0


@pytest.mark.long
def test_what_stock_has_written_are_tables_too(
    spark: SparkSession, source: Cluster, target: Cluster, stock_worker: ConnectWorker
) -> None:
    topic, group = create_topic(source.bootstrap, unique("stock")), unique("group")
    produce(source.bootstrap, topic, numbered(10))
    commit(source.bootstrap, group, {(topic, 0): 10})
    alias = unique("of")
    with ExitStack() as running:
        for kind, more in (
            ("Source", {"topics": topic}),
            ("Checkpoint", {"topics": topic, "groups": group}),
            ("Heartbeat", {"emit_heartbeats_interval_seconds": "1"}),
        ):
            config = stock_config(kind, source, target, source_cluster_alias=alias, **more)
            running.enter_context(connector(stock_worker, config))

        def table(name: str, cluster: Cluster, topic: str) -> list[dict[str, Any]]:
            reader = spark.read.format(name).option("kafka.bootstrap.servers", cluster.bootstrap)
            return [row.asDict() for row in reader.option("subscribe", topic).load().collect()]

        def written() -> None:
            (checkpoint,) = table("mirror-checkpoints", target, f"{alias}.checkpoints.internal")
            assert (checkpoint["group"], checkpoint["topic"], checkpoint["upstream_offset"]) == (
                group,
                f"{alias}.{topic}",
                10,
            )
            assert (checkpoint["downstream_offset"], checkpoint["deleted"], checkpoint["error"]) == (
                10,
                False,
                None,
            )
            beats = table("mirror-heartbeats", target, "heartbeats")
            assert (alias, target.name, None) in [
                (each["source"], each["target"], each["error"]) for each in beats
            ]
            syncs = table("mirror-offset-syncs", source, f"mm2-offset-syncs.{target.name}.internal")
            (newest,) = [each for each in syncs if each["topic"] == topic]
            assert newest["upstream_offset"] == newest["downstream_offset"]
            assert newest["upstream_offset"] in range(10)

        eventually(written, WAIT, what="stock's topics are read", watched=[stock_worker.process])


@pytest.fixture
def tour(source: Cluster, target: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What the tour has from whoever takes it; nothing of it is left where it breaks off."""
    for name, value in (("A", source.bootstrap), ("B", target.bootstrap), ("TOUR", str(tmp_path))):
        monkeypatch.setenv(name, value)
    yield
    internal = [f"mm2-{what}.paris.internal" for what in ("offset-runs", "layout", "gaps")]
    for cluster, topics in (
        (source, ["tour-orders"]),
        (target, ["tour-replay", "paris.tour-orders", *internal]),
    ):
        for topic in topics:
            with contextlib.suppress(KafkaException):  # the tour's last block has deleted it
                delete_topic(cluster.bootstrap, topic)


@pytest.mark.long
@pytest.mark.usefixtures("tour", "spark")
def test_the_tour_prints_what_it_says(source: Cluster) -> None:
    namespace: dict[str, object] = {"__name__": "tour"}
    for block in blocks("spark-tour.md"):
        printed = run(block, namespace).replace(source.bootstrap, "localhost:9092")
        assert tidied(printed) == tidied(block.expected), f"line {block.line} prints\n{printed}"
    namespace.clear()  # its functions hold it, and so the clients
