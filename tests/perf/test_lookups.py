"""`lookups`: cold source look-ups a second, 50 partitions, 16 KB batches, against the seed's way; and whole verified
translations, cold on both sides."""

from __future__ import annotations

import asyncio
import random
import time

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as LibTopicPartition

from bridge.kafka.cluster import KafkaClusters
from bridge.kafka.gc_tuning import collect_seldom
from bridge.local import Cluster
from bridge.model.lookups import Need, Read, Window
from bridge.model.values import Judgement, Side, TopicPartition
from bridge.translation.records.bracketing import bracket
from bridge.translation.records.log_window import Caps, LogBounds
from bridge.translation.records.partition_cache import PartitionMemory
from connectors.group_translation.translating.driver import Job, translate_all
from tests.perf.results import write
from tests.support import create_topic, unique
from tests.support.records import position

PARTITIONS = 50
RECORDS = 20_000
"""In each partition, of 120 bytes, 20 in one millisecond."""
LOOKUPS = 10_000
SEEDS_LOOKUPS = 1_000
ROUNDS = 3


def fill(bootstrap: str, topic: str, before: int = 0) -> None:
    """The same records on either side; `before` others first, so that offsets differ as in a mirror."""
    create_topic(bootstrap, topic, partitions=PARTITIONS)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "batch.size": 16384,
            "linger.ms": 200,
            "queue.buffering.max.messages": 2_000_000,
        }
    )
    for partition in range(PARTITIONS):
        for number in range(-before, RECORDS):
            value = b"%06d-%09d" % (partition, number) + b"x" * 96
            producer.produce(
                topic, value, b"%08d" % number, partition, timestamp=1_700_000_000_000 + number // 20
            )
        producer.poll(0)
    assert producer.flush(120) == 0


def the_seeds_way(bootstrap: str, topic: str, offsets: list[tuple[int, int]]) -> float:
    """Look-ups a second with max.partition.fetch.bytes=1: a consumer assigned to all partitions, one record of each at
    a time."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": unique("seed"),
            "enable.auto.commit": False,
            "max.partition.fetch.bytes": 1,
            "isolation.level": "read_uncommitted",
            "fetch.wait.max.ms": 10,
            "fetch.queue.backoff.ms": 1,
        }
    )
    by_partition: dict[int, list[int]] = {}
    for partition, offset in offsets:
        by_partition.setdefault(partition, []).append(offset)
    began = time.perf_counter()
    while by_partition:
        waiting = {partition: needed.pop() for partition, needed in by_partition.items()}
        by_partition = {partition: needed for partition, needed in by_partition.items() if needed}
        consumer.assign(
            [LibTopicPartition(topic, partition, offset) for partition, offset in waiting.items()]
        )
        while waiting:
            for message in consumer.consume(len(waiting), 1.0):
                assert message.error() is None, message.error()
                partition, offset = position(message)
                if waiting.get(partition) == offset:
                    del waiting[partition]
    seconds = time.perf_counter() - began
    consumer.close()
    return len(offsets) / seconds


async def ours(bootstrap: str, topic: str, offsets: list[tuple[int, int]]) -> float:
    clusters = KafkaClusters()
    cluster = clusters.open(Side.SOURCE, {"source.cluster.bootstrap.servers": bootstrap})
    await cluster.topics([topic])
    read_bytes = Caps().read_bytes
    needs: dict[TopicPartition, list[Need]] = {}
    for partition, offset in offsets:
        needs.setdefault(TopicPartition(topic, partition), []).append(
            Read(Side.SOURCE, offset - 1, read_bytes)
        )
    began = time.perf_counter()
    result = await cluster.answer(needs, committed_only=False)
    seconds = time.perf_counter() - began
    for answers in result.values():
        for need, window in answers.items():
            assert isinstance(window, Window)
            assert isinstance(need, Read)
            assert window.start <= need.offset < window.end
    await clusters.close()
    return len(offsets) / seconds


async def translations(source: str, target: str, topic: str, offsets: list[tuple[int, int]]) -> float:
    clusters = KafkaClusters()
    a = clusters.open(Side.SOURCE, {"source.cluster.bootstrap.servers": source})
    b = clusters.open(Side.TARGET, {"target.cluster.bootstrap.servers": target})
    await asyncio.gather(a.topics([topic]), b.topics([topic]))
    memories = {partition: PartitionMemory() for partition in range(PARTITIONS)}
    ends = LogBounds(0, RECORDS), LogBounds(0, RECORDS + 100)
    jobs = {}
    for partition, offset in offsets:
        place = TopicPartition(topic, partition)
        jobs[partition, offset] = Job(place, place, offset, bracket(offset, *ends, memories[partition]))
    began = time.perf_counter()
    verdicts = await translate_all(jobs, a, b, source_committed_only=False)
    seconds = time.perf_counter() - began
    for (_, offset), verdict in verdicts.items():
        assert verdict.judgement is Judgement.EXACT, verdict
        assert verdict.offset == offset + 100
    print(f"fetches: {a.fetches} + {b.fetches} for {len(verdicts)} translations")
    await clusters.close()
    return len(verdicts) / seconds


def test_lookups(source: Cluster, target: Cluster) -> None:
    collect_seldom()
    topic = unique("lookups")
    fill(source.bootstrap, topic)
    fill(target.bootstrap, topic, before=100)
    dice = random.Random(1)
    everywhere = [(partition, offset) for partition in range(PARTITIONS) for offset in range(1, RECORDS)]
    rows = []
    for number in range(ROUNDS):
        chosen = dice.sample(everywhere, LOOKUPS)
        row = {
            "round": number,
            "ours": asyncio.run(ours(source.bootstrap, topic, chosen)),
            "seed": the_seeds_way(source.bootstrap, topic, chosen[:SEEDS_LOOKUPS]),
            "translations": asyncio.run(translations(source.bootstrap, target.bootstrap, topic, chosen)),
        }
        rows.append(row)
    middle = sorted(rows, key=lambda row: row["ours"] / row["seed"])[ROUNDS // 2]
    write("lookups", ours=middle["ours"], other=middle["seed"], unit="look-ups/s", better="more", rows=rows)
