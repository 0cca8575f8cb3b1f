"""Our connectors that copy records, on a worker: what starts them, what they copy, and what is waited for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from bridge.local import GivenCluster
from tests.e2e.control import our_control
from tests.e2e.flow import Flow, committed_offsets
from tests.e2e.mirrored_flow import PARTITIONS, read_all
from tests.support import (
    bounds,
    connector,
    create_topic,
    eventually,
    exists,
    numbered,
    produce,
    unique,
)
from tests.support.waits import WAIT

SHARED_SPARK = {"spark_master": "local[2]", "spark_shared": "true"}
"""Settings of connectors whose subject is not the start of Spark: they copy in the one that `keep_spark` keeps."""
_KEEPER = "spark-keeper"


def keep_spark(flow: Flow) -> None:
    """Keeps the shared Spark of the flow's service running, by a connector with nothing to copy. Any lane may ask."""
    if _KEEPER not in flow.worker.rest.connectors():
        between = replace(
            flow,
            source=GivenCluster(f"{_KEEPER}-a", flow.source.bootstrap),
            target=GivenCluster(f"{_KEEPER}-b", flow.target.bootstrap),
        )
        if not exists(flow.source.bootstrap, _KEEPER):
            create_topic(flow.source.bootstrap, _KEEPER)
        config = our_control("Source", between, topics=_KEEPER, **SHARED_SPARK)
        flow.worker.rest.put(_KEEPER, config)


@contextmanager
def copying(flow: Flow, topics: str, **settings: object) -> Iterator[str]:
    """Our source connector, for the time of the block."""
    common = {"topics": topics, "refresh_topics_interval_seconds": 1, "spark_master": "local[2]"}
    config = our_control("Source", flow, **{**common, **settings})
    with connector(flow.worker, config, unique("source")) as name:
        yield name


def fill(flow: Flow, topic: str, start: int, count: int = 20, partitions: int = PARTITIONS) -> None:
    """Produces `count` records to each partition."""
    records = [
        record
        for partition in range(partitions)
        for record in numbered(count, start=start, timestamp=1_700_000_000_000 + start, partition=partition)
    ]
    produce(flow.source.bootstrap, topic, records)


def wait_copied(flow: Flow, topic: str, offsets: Mapping[int, Sequence[int]] | None = None) -> None:
    """Waits until every partition of the copy holds the records of these source offsets, in this order: all that the
    source holds by default."""
    originals = read_all(flow.source, topic)
    expected = {
        partition: [
            records[at].content for at in (range(len(records)) if offsets is None else offsets[partition])
        ]
        for partition, records in originals.items()
    }

    def there() -> None:
        copies = read_all(flow.target, flow.remote(topic))
        assert {at: [each.content for each in records] for at, records in copies.items()} == expected

    eventually(there, WAIT, what=f"{topic} is copied", watched=flow.watched)


def sink_config(flow: Flow, **settings: object) -> dict[str, str]:
    common = {"refresh_topics_interval_seconds": 1, "spark_master": "local[2]", "tasks_max": 2}
    return our_control("Sink", flow, **{**common, **settings})


@contextmanager
def sinking(flow: Flow, **settings: object) -> Iterator[str]:
    """Our sink connector, for the time of the block."""
    with connector(flow.worker, sink_config(flow, **settings), unique("sink")) as name:
        yield name


def ends(flow: Flow, *topics: str) -> dict[tuple[str, int], int]:
    return {
        (topic, number): end
        for topic in topics
        for number, (_, end) in bounds(flow.source.bootstrap, topic).items()
    }


def wait_committed(flow: Flow, name: str, *topics: str) -> None:
    """Until the connector's group has no lag on these topics, as kafka-consumer-groups counts it."""

    def there() -> None:
        assert committed_offsets(flow.source.bootstrap, f"connect-{name}") == ends(flow, *topics)

    eventually(there, WAIT, what=f"connect-{name} has no lag", watched=flow.watched)


def wait_task(flow: Flow, name: str, *states: str) -> None:
    """Until the service has the connector's tasks in these states."""
    eventually(
        lambda: flow.service.task_states(name) == list(states),
        WAIT,
        what=f"the tasks of {name} are {states}",
        watched=flow.watched,
    )
