"""Dedicated mode for tests: a file, nodes that run it, and what they are asked."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx

from bridge.client import heartbeat_consumer
from bridge.local import NO_AUTHORITIES, Broker, Cluster, LocalStack, MirrorNode
from tests.support import Record, eventually, numbered, read, unique
from tests.support.waits import WAIT

SESSION_MS, HEARTBEAT_MS = 6_000, 1_000
_LOOK_SECONDS = 10.0
"""For heartbeats, before they are looked for again from the beginning."""

_SPECIAL = re.compile(r"[ :=#!\\]")
"""What a key of a Java properties file has a backslash before."""
_WITH_BACKSLASH = r"\\\g<0>"

FAST = {
    "replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "config.storage.replication.factor": "1",
    "group-readiness.topic.replication.factor": "1",
    "refresh.topics.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "spark.master": "local[1]",
}
"""As stock's own sample file has it for one broker, with intervals that suit a test."""


def dedicated_stack(directory: Path) -> LocalStack:
    """Brokers that allow the sessions of these tests."""
    return LocalStack(
        directory, broker_heap="256m", broker_properties={"group.min.session.timeout.ms": "1000"}
    )


def mm2(
    path: Path, clusters: Mapping[str, Cluster], flows: Sequence[str], properties: Mapping[str, str]
) -> Path:
    """Writes a file for `flows` (A->B) between clusters by alias; `properties` win over FAST."""
    settings = {
        "clusters": ", ".join(clusters),
        **{f"{alias}.bootstrap.servers": each.bootstrap for alias, each in clusters.items()},
        **{f"{alias}.session.timeout.ms": str(SESSION_MS) for alias in clusters},
        **{f"{alias}.heartbeat.interval.ms": str(HEARTBEAT_MS) for alias in clusters},
        **{f"{flow}.enabled": "true" for flow in flows},
        **FAST,
        **properties,
    }
    escaped = (
        (_SPECIAL.sub(_WITH_BACKSLASH, key), value.replace("\\", "\\\\")) for key, value in settings.items()
    )
    path.write_text("".join(f"{key} = {value}\n" for key, value in escaped), "utf-8")
    return path


@contextmanager
def running(
    directory: Path, file: Path, *arguments: str, name: str = "", wait: bool = True
) -> Iterator[MirrorNode]:
    """A node for the time of the block; ready at its beginning, with `wait`."""
    node = MirrorNode(directory, file, name=name or unique("node"), arguments=arguments)
    try:
        node.launch()
        if wait:
            node.wait_ready()
        yield node
    finally:
        node.close()


def health(node: MirrorNode) -> Any:
    answer = httpx.get(f"{node.url}/health", timeout=10, verify=NO_AUTHORITIES)
    answer.raise_for_status()
    return answer.json()


def states(node: MirrorNode) -> dict[str, str]:
    """By flow."""
    return {each["flow"]: each["state"] for each in health(node)["flows"]}


def runs(node: MirrorNode) -> set[str]:
    """The copying flows that the node says it runs."""
    return {each["flow"] for each in health(node)["flows"] if each["copies"] and each["state"] == "running"}


def values(cluster: Cluster, topic: str, partition: int = 0) -> list[bytes | None]:
    """Of all committed records of the partition."""
    return [each.value for each in read(cluster.bootstrap, topic, partition, committed_only=True)]


def wait_values(
    cluster: Cluster, topic: str, expected: Sequence[bytes | None], *nodes: MirrorNode, partition: int = 0
) -> None:
    """Until the partition holds exactly these, in this order."""

    def there() -> None:
        current = values(cluster, topic, partition)
        assert current == list(expected), f"{topic} has {len(current)} records: {current[-3:]}"

    watched = [node.process for node in nodes]
    if isinstance(cluster, Broker):
        watched.append(cluster.process)
    eventually(there, WAIT, what=f"{len(expected)} records in {topic}", watched=watched)


def wait_heartbeats(cluster: Cluster, topic: str, flow: tuple[str, str], *nodes: MirrorNode) -> list[int]:
    """Until the flow (source and target) has two heartbeats in that topic of the cluster; returns the timestamps of the
    first two, of which the second is later."""

    def beats() -> list[int]:
        consumed = heartbeat_consumer({"bootstrap.servers": cluster.bootstrap}, idle_s=1.0)
        until, found = time.monotonic() + _LOOK_SECONDS, list[int]()
        with closing(consumed):
            # Other flows write there too, and never leave it idle.
            for each in consumed:
                if each.topic == topic and each.value is not None and each.value[:2] == flow:
                    found.append(each.value.timestamp)
                if len(found) == 2 or time.monotonic() > until:
                    break
        assert len(found) == 2, f"{topic} has {found} of {flow}"
        return found

    first, second = eventually(
        beats, WAIT, what=f"heartbeats of {flow} in {topic}", watched=[node.process for node in nodes]
    )
    assert first < second, f"{topic} has {first} and {second} of {flow}"
    return [first, second]


def some(count: int, *, start: int = 0) -> list[Record]:
    return numbered(count, start=start)
