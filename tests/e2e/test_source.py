"""BridgeMirrorSourceConnector on a real worker: what is PUT is copied, on Spark, and stops with its task."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

import pytest

from tests.e2e.control import aliased, our_control
from tests.e2e.flows import PARTITIONS, read_all
from tests.e2e.ground import LEASE_MS, WAIT, Ground, stays
from tests.support import bounds, connector, create_topic, eventually, numbered, produce, unique

COPIED = 60.0
"""Seconds in which a driver has started and copied what is there, on a busy machine too."""


@pytest.fixture(scope="module")
def mine(ground: Ground) -> Ground:
    return aliased(ground)


@contextmanager
def copying(ground: Ground, topics: str, **settings: object) -> Iterator[str]:
    """Our source connector, for the time of the block."""
    common = {"topics": topics, "refresh_topics_interval_seconds": 1, "spark_master": "local[2]"}
    config = our_control("Source", ground, **{**common, **settings})
    with connector(ground.worker, config, unique("source")) as name:
        yield name


def fill(ground: Ground, topic: str, start: int, count: int = 20) -> None:
    records = [
        record
        for partition in range(PARTITIONS)
        for record in numbered(count, start=start, timestamp=1_700_000_000_000 + start, partition=partition)
    ]
    produce(ground.source.bootstrap, topic, records)


def wait_copied(ground: Ground, topic: str, within: float = COPIED) -> None:
    """Until every partition of the copy holds what the source does, in that order."""
    wanted = {
        partition: [each.content for each in records]
        for partition, records in read_all(ground.source, topic).items()
    }

    def there() -> None:
        found = read_all(ground.target, ground.remote(topic))
        assert {
            partition: [each.content for each in records] for partition, records in found.items()
        } == wanted

    eventually(there, within, what=f"{topic} is copied", watched=ground.watched)


def wait_told(ground: Ground, name: str, topics: list[str], each: int) -> None:
    """Until the service says that all is copied: so many records of each partition."""
    path = f"/v1/connectors/{quote(name)}"

    def told() -> None:
        said = ground.service.get(f"{path}/progress?limit=1000")
        places = [
            (row["topic"], row["partition"], row["position"], row["records"]) for row in said["partitions"]
        ]
        assert places == [(topic, number, each, each) for topic in topics for number in range(PARTITIONS)]
        totals = said["totals"]
        assert (totals["state"], totals["lag"], totals["records"]) == ("copying", 0, each * len(places))
        assert totals["bytes"] > 0

    eventually(told, WAIT, what="progress is told", watched=ground.watched)
    assert ground.service.get(f"{path}/gaps")["total"] == 0


def test_what_is_put_is_copied_and_pause_stops_it(mine: Ground) -> None:
    mark = unique("orders")
    topic = create_topic(mine.source.bootstrap, f"{mark}-1", PARTITIONS, {"retention.bytes": "123456789"})
    fill(mine, topic, 0)
    rest = mine.worker.rest
    with copying(mine, f"{mark}.*") as name:
        wait_copied(mine, topic)
        later = create_topic(mine.source.bootstrap, f"{mark}-2", PARTITIONS)
        fill(mine, later, 0)
        wait_copied(mine, later)
        wait_told(mine, name, [topic, later], 20)

        rest.pause(name)
        eventually(
            lambda: mine.service.task_states(name) == ["lapsed"], WAIT, what="paused", watched=mine.watched
        )
        fill(mine, topic, 20)
        before = bounds(mine.target.bootstrap, mine.remote(topic))
        stays(
            lambda: bounds(mine.target.bootstrap, mine.remote(topic)) == before,
            LEASE_MS / 1000,
            what="nothing is copied while paused",
        )
        rest.resume(name)
        wait_copied(mine, topic)
