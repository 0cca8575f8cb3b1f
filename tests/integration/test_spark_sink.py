"""mirror-records as a sink, over real brokers: tasks by themselves, and in a real Spark session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.producer.producer import TransactionalProducer
from bridge.local import Cluster
from bridge.model.values import TopicPartition
from bridge.spark.rejected import SourceRejected
from bridge.spark.writing.commits import CommitRecord, Decision, SinkTask, WrittenTotals, Wrote
from bridge.spark.writing.encoding import Encoder
from bridge.spark.writing.epochs import commit_epoch
from bridge.spark.writing.options import SinkOptions, read_sink_options
from bridge.spark.writing.sending import TaskTransaction
from bridge.spark.writing.tasks import write_batch_task, write_epoch_task
from bridge.spark.writing.writers import BatchWriter
from tests.support import Record, allow, create_topic, delete_topic, numbered, produce, read, unique
from tests.support.brokers import USERS, Secured
from tests.support.messages import message_pattern
from tests.support.spark import run_stream
from tests.support.topics import wait_transactions_ended
from tests.unit.kafka.record.raw_batches import Plain, batch_of

TIME = 1_700_000_000_000
Load = Callable[..., DataFrame]


@pytest.fixture
def topic(target: Cluster) -> Iterator[str]:
    name = create_topic(target.bootstrap, unique("sink"), 3)
    yield name
    delete_topic(target.bootstrap, name)


@pytest.fixture
def options(target: Cluster, topic: str) -> Callable[..., SinkOptions]:
    def made(**more: str) -> SinkOptions:
        given = {f"kafka.{name.replace('_', '.')}": value for name, value in more.items()}
        return read_sink_options({"kafka.bootstrap.servers": target.bootstrap, "topic": topic, **given})

    return made


def rows(*values: bytes, partition: int = 0) -> pa.RecordBatch:
    partitions = pa.array([partition] * len(values), pa.int32())
    return pa.record_batch({"value": pa.array(values, pa.binary()), "partition": partitions})


def write(options: SinkOptions, task: SinkTask, *batches: pa.RecordBatch) -> Wrote:
    """An epoch of one task: the driver commits it."""
    return epoch(options, task, {task.partition: batches})[task.partition]


def epoch(
    options: SinkOptions,
    task: SinkTask,
    split: Mapping[int, Sequence[pa.RecordBatch]],
    *,
    commit: bool = True,
) -> dict[int, Wrote]:
    """An epoch of several tasks; without `commit` the driver dies when they are done."""
    wrote = {
        number: write_epoch_task(options, task._replace(partition=number), iter(batches))
        for number, batches in split.items()
    }
    if commit:
        prepared = [each.prepared for each in wrote.values() if each.prepared is not None]
        asyncio.run(commit_epoch(options, task.query, task.epoch, prepared))
    return wrote


def values(target: Cluster, topic: str, partition: int = 0) -> list[bytes | None]:
    wait_transactions_ended(target.bootstrap, topic)
    return [each.value for each in read(target.bootstrap, topic, partition, committed_only=True)]


def test_an_epoch_is_written_once(target: Cluster, topic: str, options: Callable[..., SinkOptions]) -> None:
    task, given = SinkTask(unique("query"), 0), options()
    assert not write(given, task, rows(b"a", b"b"), rows(b"c")).again
    assert write(given, task, rows(b"a"), rows(b"b", b"c")).again
    assert write(given, task, rows(b"x")).again, "however it is split"
    assert not write(given, task._replace(epoch=1), rows(b"e")).again
    over = message_pattern("spark.epoch_over", query=task.query, written=1, epoch=0)
    with pytest.raises(SourceRejected, match=over):
        write(given, task, rows(b"a", b"b", b"c"))
    assert write(given, task._replace(epoch=2)).written == (0, 0)
    assert values(target, topic) == [b"a", b"b", b"c", b"e"]


def test_a_replay_may_split_its_rows_otherwise(
    target: Cluster, topic: str, options: Callable[..., SinkOptions]
) -> None:
    """The driver dies before the epoch is decided: nothing of it counts, of none of its tasks."""
    task, given = SinkTask(unique("query"), 0), options()
    parts = {number: [rows(b"%d" % number)] for number in range(4)}
    epoch(given, task, parts, commit=False)
    assert read(target.bootstrap, topic, 0, committed_only=True) == []
    again = {0: [*parts[0], *parts[3], *parts[2]], 1: parts[1]}
    assert not epoch(given, task, again)[0].again
    assert sorted(each or b"" for each in values(target, topic)) == [b"0", b"1", b"2", b"3"]
    # What the first attempt had left in partitions 2 and 3 is ended, so that readers of committed records go on.
    assert not write(given, task._replace(epoch=1), rows(b"4")).again
    assert len(values(target, topic)) == 5


def test_what_is_decided_is_committed_by_whoever_comes_next(
    target: Cluster, topic: str, options: Callable[..., SinkOptions]
) -> None:
    task, given = SinkTask(unique("query"), 0), options()
    wrote = epoch(given, task, {0: [rows(b"a")], 1: [rows(b"b")]}, commit=False)
    transactions = tuple(each.prepared for each in wrote.values() if each.prepared is not None)

    async def decide() -> None:
        producer = TransactionalProducer(given.settings(), given.driver_id(task.query))
        await producer.start()
        await producer.write(given.commits_topic, [Decision(task.query, 0, transactions).packed])
        await producer.close()

    asyncio.run(decide())
    assert epoch(given, task, {0: [rows(b"b", b"a")]})[0].again
    assert sorted(each or b"" for each in values(target, topic)) == [b"a", b"b"]


def test_a_commits_topic_that_does_not_know_the_query_is_refused(
    target: Cluster, topic: str, options: Callable[..., SinkOptions]
) -> None:
    task, given = SinkTask(unique("query"), 0), options()
    write(given, task, rows(b"a"))
    other = replace(given, commits_topic=unique("commits"))
    said = message_pattern("spark.unknown_query", topic=other.commits_topic, query=task.query)
    for _ in range(2):  # also once it has been tried
        with pytest.raises(SourceRejected, match=said):
            write(other, task, rows(b"a"))
    assert not write(replace(other, prefix=unique("prefix")), task._replace(epoch=1), rows(b"b")).again
    assert write(given, task, rows(b"a")).again
    assert values(target, topic) == [b"a", b"b"]


def test_a_query_of_a_version_that_committed_by_task_goes_on_where_its_epochs_are_finished(
    target: Cluster, topic: str, options: Callable[..., SinkOptions]
) -> None:
    commits = create_topic(target.bootstrap, unique("commits"), 1, {"cleanup.policy": "compact"})
    task, given = SinkTask(unique("query"), 0, epoch=4), replace(options(), commits_topic=commits)

    async def commit(epoch: int) -> None:
        producer = TransactionalProducer(given.settings(), given.transactional_id(task.query, 0))
        record = CommitRecord(task._replace(epoch=epoch), WrittenTotals(1, 1))
        await producer.start()
        await producer.write(given.commits_topic, [record.packed])
        await producer.close()

    asyncio.run(commit(4))
    said = message_pattern("spark.partly_written", epoch="4", query=task.query)
    for _ in range(2):
        with pytest.raises(SourceRejected, match=said):
            write(given, task, rows(b"a"))
    assert values(target, topic) == []
    next_task = task._replace(epoch=5)
    assert not write(given, next_task, rows(b"b")).again
    assert write(given, next_task, rows(b"b")).again
    assert values(target, topic) == [b"b"]


def test_an_older_attempt_is_fenced(target: Cluster, topic: str, options: Callable[..., SinkOptions]) -> None:
    task, given = SinkTask(unique("query"), 0), options()

    def batches(encoder: Encoder, *given: bytes) -> list[Any]:
        return [*encoder.add(rows(*given)), *encoder.last_batches()]

    async def race() -> KafkaFailure:
        old, new = TaskTransaction(given, task), TaskTransaction(given, task)
        old_rows, new_rows = Encoder(given, lambda _: 3), Encoder(given, lambda _: 3)
        try:
            await old.open()
            await old.add(batches(old_rows, b"old"))
            assert await new.open() is None
            await new.add(batches(new_rows, b"new"))
            with pytest.raises(KafkaFailure) as fenced:
                await old.commit(old_rows.written)
            await old.abort()
            await new.commit(new_rows.written)
            return fenced.value
        finally:
            await old.close()
            await new.close()

    assert asyncio.run(race()).fault is KafkaFault.FENCED
    assert write_batch_task(given, task, iter([rows(b"new")]), 0).again
    assert values(target, topic) == [b"new"]


def test_what_is_committed_is_seen_behind_an_open_transaction(
    target: Cluster, topic: str, options: Callable[..., SinkOptions]
) -> None:
    task, given = SinkTask(unique("query"), 0), options()
    write(given, SinkTask(unique("query"), 0), rows(b"x"))  # makes the commits topic

    async def open_for_long() -> TransactionalProducer:
        producer = TransactionalProducer(given.settings(), unique("other"), 60_000)
        await producer.start()
        await producer.begin()
        data = bytearray(batch_of([Plain(TIME, b"key", b"value", ())]))
        await producer.send(TopicPartition(given.commits_topic, 0), data, 1)
        return producer

    async def written() -> list[bool]:
        producer = await open_for_long()
        try:
            return [(await asyncio.to_thread(write, given, task, rows(b"y"))).again for _ in range(2)]
        finally:
            await producer.abort()
            await producer.close()

    assert asyncio.run(written()) == [False, True]


def test_what_fails_half_way_leaves_nothing(
    target: Cluster, topic: str, options: Callable[..., SinkOptions]
) -> None:
    task, given = SinkTask(unique("query"), 0), options(buffer_memory="1", batch_size="100")

    def failing() -> Iterator[pa.RecordBatch]:
        for number in range(50):
            yield rows(*(b"%d" % number for _ in range(100)))
        raise RuntimeError("planted")

    with pytest.raises(RuntimeError, match="planted"):
        write_epoch_task(given, task, failing())
    assert values(target, topic) == []
    many = [rows(*(b"%d" % number for _ in range(100)), partition=number % 3) for number in range(50)]
    assert write(given, task, *many).written.rows == 5000
    assert sum(len(values(target, topic, number)) for number in range(3)) == 5000


def test_keys_go_where_java_puts_them(
    source: Cluster, target: Cluster, topic: str, options: Callable[..., SinkOptions]
) -> None:
    keys = [b"", b"a", b"key", "schlüssel".encode(), *(b"%d" % number for number in range(50))]
    batch = pa.record_batch({"key": pa.array(keys, pa.binary()), "value": pa.array(keys, pa.binary())})
    write(options(), SinkTask(unique("query"), 0), batch)
    from aiokafka.partitioner import DefaultPartitioner

    place = DefaultPartitioner()
    for number in range(3):
        expected = [key for key in keys if place(key, [0, 1, 2], [0, 1, 2]) == number]
        assert values(target, topic, number) == expected


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (rows(b"a", partition=3), r"there is no partition sink\S+-3: topic sink\S+ has 3 partition\(s\)"),
        (rows(b"a", partition=-1), "there is no partition -1"),
        (rows(b"x" * 3000), r"larger than the topic's max.message.bytes; nothing was written"),
        (
            pa.record_batch(
                {"value": pa.array([b"a"]), "timestamp": pa.array([-1], pa.timestamp("us", "UTC"))}
            ),
            "a timestamp is before 1970",
        ),
    ],
)
def test_a_row_that_can_not_be_written_leaves_nothing(
    target: Cluster, topic: str, options: Callable[..., SinkOptions], batch: pa.RecordBatch, message: str
) -> None:
    from tests.support import set_topic_config

    set_topic_config(target.bootstrap, topic, {"max.message.bytes": "2000"})
    good = pa.record_batch(
        {
            name: pa.array([b"good" if name == "value" else None], batch.schema.field(name).type)
            for name in batch.schema.names
        }
    )
    with pytest.raises((SourceRejected, KafkaFailure), match=message):
        write(options(), SinkTask(unique("query"), 0), good, batch)
    assert [values(target, topic, number) for number in range(3)] == [[], [], []]


def test_a_topic_that_is_missing_is_named(
    target: Cluster, topic: str, options: Callable[..., SinkOptions]
) -> None:
    batch = pa.record_batch({"value": pa.array([b"a", b"b"]), "topic": pa.array([f"{topic}x", None])})
    given = read_sink_options({"kafka.bootstrap.servers": target.bootstrap})
    with pytest.raises(SourceRejected, match=f"there is no topic {topic}x on .* did you mean {topic}"):
        write(given, SinkTask(unique("query"), 0), batch.slice(0, 1))
    with pytest.raises(SourceRejected, match="a row has no topic"):
        write(given, SinkTask(unique("query"), 0), batch)


def test_a_login_needs_these_rights_and_no_more(secured: Secured) -> None:
    module, user = "org.apache.kafka.common.security.plain.PlainLoginModule", "sink"
    task = SinkTask(unique("query"), 0)
    orders = create_topic(secured.bootstrap, unique("orders"))
    commits = create_topic(secured.bootstrap, unique("commits"), 1, {"cleanup.policy": "compact"})
    given = read_sink_options(
        {
            "kafka.bootstrap.servers": secured.address("SASL_PLAINTEXT"),
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": f'{module} required username="{user}" password="{USERS[user]}";',
            "topic": orders,
            "commitsTopic": commits,
        }
    )
    for name, operation, kind, words in (
        (commits, "WRITE", "TOPIC", f"grant DESCRIBE on topic {commits}"),
        (given.driver_id(task.query), "WRITE", "TRANSACTIONAL_ID", "transactional id"),
        (given.transactional_id(task.query, 0), "WRITE", "TRANSACTIONAL_ID", "transactional id"),
        (orders, "DESCRIBE", "TOPIC", f"grant DESCRIBE on topic {orders}"),
        (orders, "WRITE", "TOPIC", f"Not authorized to write to {orders}: grant WRITE on it"),
    ):
        with pytest.raises(KafkaFailure, match="(?i)" + words):
            write(given, task, rows(b"a"))
        allow(secured.bootstrap, f"User:{user}", name, operation, kind)
    assert not write(given, task, rows(b"a")).again
    with pytest.raises(KafkaFailure, match=f"grant READ on topic {commits}"):
        write(given, task, rows(b"a"))
    allow(secured.bootstrap, f"User:{user}", commits, "READ")
    assert write(given, task, rows(b"a")).again
    assert [each.value for each in read(secured.bootstrap, orders)] == [b"a"]


@pytest.mark.long
def test_a_job_that_is_over_writes_no_more(
    target: Cluster, topic: str, options: Callable[..., SinkOptions]
) -> None:
    given = options()
    write(given, SinkTask(unique("query"), 0), rows(b"x"))  # makes the commits topic
    writer = BatchWriter("mirror-records", given, 0)
    writer.abort([None, None])
    with pytest.raises(SourceRejected, match="the job of this task is over"):
        write_batch_task(given, SinkTask(writer.job, 1), iter([rows(b"late")]), 0)
    assert values(target, topic) == [b"x"]


@pytest.fixture
def load(spark: SparkSession, source: Cluster) -> Load:
    def frame(topic: str, *, stream: bool = False, **options: str) -> DataFrame:
        reader: Any = spark.readStream if stream else spark.read
        reader = reader.format("mirror-records").option("kafka.bootstrap.servers", source.bootstrap)
        loaded = reader.option("subscribe", topic).options(**options).load()
        assert isinstance(loaded, DataFrame)
        return loaded

    return frame


@pytest.mark.long
def test_what_is_read_is_written_as_it_was(source: Cluster, target: Cluster, topic: str, load: Load) -> None:
    create_topic(source.bootstrap, topic, 3)
    given = [
        Record(b"one", b"k", TIME, (("h", b"1"), ("empty", None), ("h", b""))),
        Record(None, None, TIME + 1, partition=1),
        Record(b"", b"", TIME + 2, partition=1),
    ]
    produce(source.bootstrap, topic, given)
    writer = load(topic).write.format("mirror-records").option("kafka.bootstrap.servers", target.bootstrap)
    writer.option("kafka.compression.type", "zstd").mode("append").save()
    for partition in range(3):
        expected = [each.content for each in given if each.partition == partition]
        assert [each.content for each in read(target.bootstrap, topic, partition)] == expected


def test_a_stream_goes_on_from_its_checkpoint(
    source: Cluster, target: Cluster, topic: str, load: Load, tmp_path: Path
) -> None:
    create_topic(source.bootstrap, topic, 3)

    def run() -> None:
        stream = load(topic, stream=True, startingOffsets="earliest").writeStream.format("mirror-records")
        stream = stream.option("kafka.bootstrap.servers", target.bootstrap)
        stream = stream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        run_stream(stream.trigger(availableNow=True).start)

    produce(source.bootstrap, topic, numbered(50))
    run()
    # As if the driver had been killed before it noted that the epoch is done.
    done = tmp_path / "checkpoint" / "commits"
    newest = max(int(each.name) for each in done.glob("[0-9]*"))
    for name in (str(newest), f".{newest}.crc"):
        (done / name).unlink()
    produce(source.bootstrap, topic, numbered(50, start=50))
    run()
    expected = [each.value for each in numbered(100)]
    assert values(target, topic) == expected


def test_a_batch_with_a_version_is_there_once_however_often_it_is_saved(
    spark: SparkSession, target: Cluster, topic: str
) -> None:
    def save(begin: int, version: int, partitions: int) -> None:
        rows = spark.range(begin, begin + 40, 1, partitions).select(
            F.expr("cast(id AS string)").alias("value")
        )
        writer = rows.write.format("mirror-records").option("kafka.bootstrap.servers", target.bootstrap)
        writer.options(topic=topic, txnAppId=topic, txnVersion=version).mode("append").save()

    save(0, 0, partitions=2)
    save(0, 0, partitions=3)
    save(40, 1, partitions=1)
    save(40, 1, partitions=2)
    with pytest.raises(PySparkException, match=message_pattern("spark.epoch_over", written=1, epoch=0)):
        save(0, 0, partitions=2)
    there = [value for partition in range(3) for value in values(target, topic, partition)]
    assert sorted(int(value or b"") for value in there) == list(range(80))


def test_what_is_wrong_is_told_in_one_line_and_nothing_is_written(
    spark: SparkSession, target: Cluster, topic: str
) -> None:
    frame = spark.range(3).select(F.col("id").alias("value"), F.lit("x").alias("keyy"))

    def refused(mode: str = "append", **options: str) -> str:
        writer = frame.write.format("mirror-records").option("kafka.bootstrap.servers", target.bootstrap)
        with pytest.raises(PySparkException) as raised:
            writer.options(**options).mode(mode).save()
        assert "Traceback" not in str(raised.value)
        return str(raised.value)

    for message in (
        "column value has type bigint, and must be binary or string",
        "there is no column keyy (string); did you mean key?",
        "column topic is missing (string)",
    ):
        assert message in refused()
    assert 'records are appended: use mode("append")' in refused("overwrite")
    assert "did you mean kafka.acks?" in refused(**{"kafka.akcs": "1"})
    given = spark.range(3).select(F.expr("cast(id AS string)").alias("value"))
    gone = given.write.format("mirror-records").option("kafka.bootstrap.servers", target.bootstrap)
    with pytest.raises(PySparkException) as missing:
        gone.option("topic", f"{topic}-gone").mode("append").save()
    said = f"mirror-records: there is no topic {topic}-gone on {target.bootstrap}, and the sink makes none; did you"
    assert said in str(missing.value)
    assert "Traceback" not in str(missing.value)
    # One task: what others of the same job have committed stays, as with every sink of Spark (docs/spark.md).
    mixed = given.withColumn("topic", F.expr(f"if(value = '2', '{topic}-gone', '{topic}')")).coalesce(1)
    some = mixed.write.format("mirror-records").option("kafka.bootstrap.servers", target.bootstrap)
    with pytest.raises(PySparkException, match=f"there is no topic {topic}-gone"):
        some.mode("append").save()
    assert [values(target, topic, number) for number in range(3)] == [[], [], []]
