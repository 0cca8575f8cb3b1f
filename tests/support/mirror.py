"""Stock MirrorMaker connectors on a worker: the mirror that ours is measured against and works beside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from bridge.local import Cluster, ConnectWorker, eventually
from tests.support.names import unique
from tests.support.records import last
from tests.support.topics import bounds
from tests.support.waits import WAIT

STOCK = "org.apache.kafka.connect.mirror."
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


def stock_config(kind: str, source: Cluster, target: Cluster, **settings: object) -> dict[str, str]:
    """Returns the configuration of stock's connector. `kind` is Source, Checkpoint or Heartbeat; `settings` use `_` for
    `.`. Intervals suit a test."""
    common = {
        "connector.class": f"{STOCK}Mirror{kind}Connector",
        "tasks.max": "1",
        "key.converter": _BYTES,
        "value.converter": _BYTES,
        "source.cluster.alias": source.name,
        "target.cluster.alias": target.name,
        "source.cluster.bootstrap.servers": source.bootstrap,
        "target.cluster.bootstrap.servers": target.bootstrap,
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "heartbeats.replication.enabled": "false",
        "refresh.topics.interval.seconds": "2",
        "refresh.groups.interval.seconds": "1",
        "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.interval.seconds": "1",
        "sync.topic.acls.enabled": "false",
        "consumer.poll.timeout.ms": "200",
    }
    return {**common, **{name.replace("_", "."): str(value) for name, value in settings.items()}}


@contextmanager
def connector(worker: ConnectWorker, config: Mapping[str, str], name: str | None = None) -> Iterator[str]:
    """A running connector for the time of the block; gone, offsets apart, after it."""
    chosen = name or unique("connector")
    worker.rest.put(chosen, config)
    try:
        worker.rest.wait_running(chosen, tasks=None)
        yield chosen
    finally:
        worker.rest.delete(chosen)


@contextmanager
def mirroring(
    worker: ConnectWorker, source: Cluster, target: Cluster, topics: Sequence[str], **settings: object
) -> Iterator[str]:
    """Stock MirrorSourceConnector copies `topics` for the time of the block."""
    config = stock_config("Source", source, target, topics=",".join(topics), **settings)
    with connector(worker, config) as name:
        yield name


def mirror(
    worker: ConnectWorker, source: Cluster, target: Cluster, topics: Sequence[str], **settings: object
) -> None:
    """Copies what `topics` hold now, whole, and stops."""
    with mirroring(worker, source, target, topics, **settings):
        wait_mirrored(source, target, topics, worker)


def wait_mirrored(
    source: Cluster, target: Cluster, topics: Sequence[str], worker: ConnectWorker, timeout: float = WAIT
) -> None:
    """Waits until the last data record of every source partition is the last one of its copy."""
    watched = (*source.watched, *target.watched, worker.process)
    for topic in topics:
        for partition, (_, end) in bounds(source.bootstrap, topic).items():
            expected = last(source.bootstrap, topic, partition, end)
            if expected is None:
                continue
            copy = f"{source.name}.{topic}"

            def arrived(
                copy: str = copy, partition: int = partition, content: object = expected.content
            ) -> None:
                _, there = bounds(target.bootstrap, copy)[partition]
                result = last(target.bootstrap, copy, partition, there)
                assert result is not None, f"{copy}-{partition} is empty"
                assert result.content == content, f"{copy}-{partition} ends with {result}"

            eventually(arrived, timeout, what=f"{topic}-{partition} is mirrored", watched=watched)
