"""`index`: records a second that `mirror-bridge index` pairs with their copies, beside those that our copy copies, in
one run on the same clusters: 8 partitions of records of 120 bytes in batches of 16 KB, 20 in one millisecond.

Both have Spark with two cores, which is started before the clock. The copy is warm, its rate the median of three; the
index is measured once. What stands on the target for the index are the same records again, behind some of others.
`ratio` is below 1: the index compares records one by one, and is worth its time where the source is going to die.
"""

from __future__ import annotations

import asyncio
import statistics
import time

import pytest
from confluent_kafka import Producer

from bridge.kafka.config.settings import StaticClientCheck
from bridge.local import LocalStack
from bridge.pipeline.driver.jobs import SparkJobs
from bridge.spark.indexing.index import Index
from connectors.source.options import SourceOptions
from tests.perf.loads import SCALE, Load
from tests.perf.mirrors import RUNS, Scene, ours
from tests.perf.results import write
from tests.support import create_topic, unique

PARTITIONS = 8
RECORDS = max(1_000, int(100_000 * SCALE))
"""In each partition."""
BEFORE = 50


def fill(bootstrap: str, topic: str, before: int = 0) -> None:
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
            stamp = 1_700_000_000_000 + number // 20
            producer.produce(topic, value, b"%08d" % number, partition, timestamp=stamp)
        producer.poll(0)
    assert producer.flush(300) == 0


@pytest.mark.timeout(3600)
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # sockets of Spark's Python workers
def test_index(copy_stack: LocalStack) -> None:
    source, target, total = copy_stack.source, copy_stack.target, PARTITIONS * RECORDS
    topic = unique("index-load")
    fill(source.bootstrap, topic)
    scene, load = Scene.of(copy_stack), Load(total, 120, partitions=PARTITIONS)
    ours(scene, topic, load)
    copy = statistics.median(ours(scene, topic, load).rate for _ in range(RUNS))

    alias = unique("stock")
    fill(target.bootstrap, f"{alias}.{topic}", BEFORE)
    props = {
        "name": "index",
        "connector.class": "BridgeMirrorSourceConnector",
        "source.cluster.alias": alias,
        "source.cluster.bootstrap.servers": source.bootstrap,
        "target.cluster.bootstrap.servers": target.bootstrap,
        "topics": topic,
        "spark.master": "local[2]",
    }
    options = SourceOptions.from_props(props, StaticClientCheck())
    index = Index(options.spec("index", props), options.remote_of, 1)
    jobs = SparkJobs("index", props)
    began = time.perf_counter()
    asyncio.run(index.run(jobs, None, lambda _: None))
    seconds = time.perf_counter() - began
    jobs.close()
    found = sum(row.found for row in index.rows.values())
    assert found == total, (found, index.refused)
    rows: list[dict[str, object]] = [
        {"side": "index", "records": total, "seconds": round(seconds, 2)},
        {"side": "copy", "records": total, "records_per_second": round(copy)},
    ]
    write("index", ours=total / seconds, other=copy, unit="records/s", better="more", rows=rows)
