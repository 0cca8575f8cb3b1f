"""How long a checkpoint connector takes to begin: from its PUT to its first checkpoint, on an offset-syncs topic of a
million records, and what its process holds then. Stock's and ours, by the same JSON but for the class."""

from __future__ import annotations

import time
from collections.abc import Iterable

from confluent_kafka import Producer

from bridge.local import Cluster, ConnectWorker, LocalStack, eventually
from bridge.mm2.records import Checkpoint, OffsetSync
from bridge.model.values import TopicPartition
from tests.perf.group_rounds import our_checkpoints, service_pids
from tests.perf.held_memory import resident
from tests.support import (
    admin,
    commit,
    connector,
    create_topic,
    numbered,
    produce,
    read,
    stock_config,
    unique,
)

MIRRORED = 2_000


def fill_syncs(cluster: Cluster, topic: str, syncs: Iterable[OffsetSync]) -> None:
    _made(cluster, topic)
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 2_000_000}
    )
    for number, sync in enumerate(syncs):
        producer.produce(topic, sync.value(), sync.key(), 0)
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(300) == 0


def _made(cluster: Cluster, topic: str) -> None:
    if topic not in admin(cluster.bootstrap).list_topics(timeout=10).topics:
        create_topic(cluster.bootstrap, topic, configs={"cleanup.policy": "compact"})


def mirrored(source: Cluster, target: Cluster) -> str:
    """A topic of one partition and its copy, offset by offset; what a first checkpoint is about."""
    topic = unique("store-topic")
    for cluster, name in ((source, topic), (target, f"{source.name}.{topic}")):
        create_topic(cluster.bootstrap, name)
        produce(cluster.bootstrap, name, numbered(MIRRORED, timestamp=1_700_000_000_000))
    return topic


def first_checkpoint(
    worker: ConnectWorker, config: dict[str, str], source: Cluster, target: Cluster, topic: str
) -> float:
    """Seconds from the PUT to the first checkpoint of a group that has committed before."""
    group, internal = unique("store-group"), f"{source.name}.checkpoints.internal"
    commit(source.bootstrap, group, {(topic, 0): MIRRORED // 2})
    began = time.monotonic()
    with connector(worker, {**config, "groups": group}):

        def there() -> bool:
            return any(
                Checkpoint.decode(r.key, r.value).group == group for r in read(target.bootstrap, internal)
            )

        eventually(there, 300, what=f"a checkpoint of {group}", watched=[worker.process])
        return time.monotonic() - began


def start_up(
    stack: LocalStack, source: Cluster, target: Cluster, worker: ConnectWorker, syncs: Iterable[OffsetSync]
) -> list[dict[str, object]]:
    """A row for either side: seconds of three starts in turn, and MB of RSS afterwards. The first start of stock
    comes before any of ours, so its worker holds nothing else then."""
    topic = mirrored(source, target)
    own = [OffsetSync(TopicPartition(topic, 0), at, at) for at in range(0, MIRRORED, 101)]
    fill_syncs(source, f"mm2-offset-syncs.{target.name}.internal", (*syncs, *own))
    _made(target, f"{source.name}.checkpoints.internal")
    common: dict[str, object] = {"topics": topic, "emit_checkpoints_interval_seconds": 1}
    service = stack.service("store-service")
    configs = {
        "stock": stock_config("Checkpoint", source, target, **common),
        "ours": our_checkpoints(source, target, service.url, **common),
    }
    seconds: dict[str, list[float]] = {side: [] for side in configs}
    held: dict[str, float] = {}
    for _ in range(3):
        for side, config in configs.items():
            seconds[side].append(round(first_checkpoint(worker, config, source, target, topic), 2))
            pids = service_pids(stack, "store-service") if side == "ours" else {"worker": worker.process.pid}
            held[side] = resident(pids)["sum"]
    service.stop()
    return [
        {
            "what": "start-up",
            "side": side,
            "seconds": sorted(took)[1],
            "starts": took,
            "resident_mb": held[side],
        }
        for side, took in seconds.items()
    ]
