"""What the benchmarks of whole rounds share: a mirrored topic, groups committed by the thousand, one observer for
both sides, and the connectors that are compared."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Self

import httpx
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from bridge.errors import KafkaFailure
from bridge.kafka.cluster import KafkaCluster, KafkaClusters
from bridge.local import NO_AUTHORITIES, Cluster, ConnectWorker, LocalStack
from bridge.model.values import Committed, Side, TopicPartition
from bridge.protocol.messages import ConnectorStatus
from tests.support import bounds, create_topic, mirror, stock_config, unique

Offsets = Mapping[TopicPartition, int]
"""Offsets of one group."""
Groups = Mapping[str, Offsets]

_AT_ONCE = 100
_LOOK_AT = 200
_LOOK_EVERY = 0.05


def mirrored_topic(
    worker: ConnectWorker, source: Cluster, target: Cluster, *, partitions: int, records: int, name: str
) -> str:
    """A new topic with that many records in each partition, 20 in one millisecond, and its whole copy: offsets are the
    same on both sides. A record's key is its offset."""
    topic = create_topic(source.bootstrap, unique(name), partitions=partitions)
    producer = Producer(
        {
            "bootstrap.servers": source.bootstrap,
            "enable.idempotence": True,
            "batch.size": 16384,
            "linger.ms": 100,
            "queue.buffering.max.messages": 2_000_000,
        }
    )
    for number in range(records):
        for partition in range(partitions):
            timestamp = 1_700_000_000_000 + number // 20
            while True:
                try:
                    producer.produce(topic, b"x" * 100, b"%d" % number, partition, timestamp=timestamp)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(300) == 0
    mirror(worker, source, target, [topic])
    assert bounds(target.bootstrap, f"{source.name}.{topic}") == bounds(source.bootstrap, topic)
    return topic


@asynccontextmanager
async def both(source: Cluster, target: Cluster) -> AsyncIterator[tuple[KafkaCluster, KafkaCluster]]:
    """Clients of our own on both clusters: they commit and observe, for either side of a comparison alike."""
    clusters = KafkaClusters()
    try:
        yield (
            clusters.open(Side.SOURCE, {"source.cluster.bootstrap.servers": source.bootstrap}),
            clusters.open(Side.TARGET, {"target.cluster.bootstrap.servers": target.bootstrap}),
        )
    finally:
        await clusters.close()


async def commit_all(cluster: KafkaCluster, groups: Groups) -> float:
    """Commits the offsets of every group, many at once; answers the seconds that it took."""
    began = time.monotonic()

    async def commit(group: str, offsets: Offsets) -> None:
        for _ in range(3):
            result = await cluster.alter(group, {place: Committed(at) for place, at in offsets.items()})
            failed = [failure for failure in result.values() if failure is not None]
            if not failed:
                return
            # The first commits of a cluster may meet a coordinator that is still loading.
            await asyncio.sleep(1.0)
        raise failed[0]

    waiting = list(groups.items())
    for at in range(0, len(waiting), _AT_ONCE):
        await asyncio.gather(*(commit(*each) for each in waiting[at : at + _AT_ONCE]))
    return time.monotonic() - began


async def until_risen(
    target: KafkaCluster, floors: Groups, *, within: float, every: float = _LOOK_EVERY
) -> float:
    """Until every partition of every group stands above its floor on the target (-1: until it stands anywhere);
    answers the time of the clock at which the last of them was seen."""
    deadline = time.monotonic() + within
    waiting = list(floors)
    while True:
        looked_at, rest = waiting[:_LOOK_AT], waiting[_LOOK_AT:]
        result = await target.committed(looked_at)
        seen = time.monotonic()
        missing = [group for group in looked_at if not _risen(result[group], floors[group])]
        # Those that are not there yet are looked at last: none is looked at twice before all have been once.
        waiting = rest + missing
        if not waiting:
            return seen
        assert seen < deadline, f"{len(waiting)} of {len(floors)} groups not within {within:g} s"
        await asyncio.sleep(every if missing else 0)


def _risen(committed: Mapping[TopicPartition, Committed] | KafkaFailure, floors: Offsets) -> bool:
    if isinstance(committed, KafkaFailure):
        raise committed
    return all(place in committed and committed[place].offset > floor for place, floor in floors.items())


def on_target(groups: Groups, alias: str = "A") -> dict[str, dict[TopicPartition, int]]:
    """The same groups with the names that their partitions have on the target."""
    return {
        group: {TopicPartition(f"{alias}.{topic}", number): at for (topic, number), at in offsets.items()}
        for group, offsets in groups.items()
    }


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number:05d}" for number in range(count)]


def spread(groups: Iterable[str], topic: str, partitions: int, lowest: int, highest: int) -> Groups:
    """Offsets all over a range, another one for each group and partition as far as it goes."""
    width = highest - lowest
    steps = itertools.count()
    return {
        group: {
            TopicPartition(topic, number): lowest + next(steps) * 7919 % width for number in range(partitions)
        }
        for group in groups
    }


def forget_groups(cluster: Cluster, groups: Sequence[str]) -> None:
    """Deletes groups, so that the next benchmark on the same clusters does not list them."""
    client = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for at in range(0, len(groups), 500):
        for future in client.delete_consumer_groups(list(groups[at : at + 500])).values():
            future.result(60)


# -- the connectors ----------------------------------------------------------------------------------------------------


def our_config(source: Cluster, target: Cluster, service: str, **settings: object) -> dict[str, str]:
    """The connector JSON that we ship, with the addresses of this stack; `settings` use `_` for `.`."""
    shipped = json.loads(files("connectors.group_offset").joinpath("connector.json").read_text("utf-8"))
    config: dict[str, str] = {
        **shipped["config"],
        "source.cluster.alias": source.name,
        "target.cluster.alias": target.name,
        "source.cluster.bootstrap.servers": source.bootstrap,
        "target.cluster.bootstrap.servers": target.bootstrap,
        "bridge.url": service,
    }
    if "groups" in settings:
        del config["group"]
    return {**config, **{name.replace("_", "."): str(value) for name, value in settings.items()}}


def stock_checkpoints(source: Cluster, target: Cluster, **settings: object) -> dict[str, str]:
    """Stock MirrorCheckpointConnector that writes the groups, as KIP-545 has it."""
    return stock_config("Checkpoint", source, target, sync_group_offsets_enabled="true", **settings)


def our_checkpoints(source: Cluster, target: Cluster, service: str, **settings: object) -> dict[str, str]:
    """Our checkpoint connector by stock's JSON."""
    config = stock_config("Checkpoint", source, target, **settings)
    return {**config, "connector.class": "BridgeMirrorCheckpointConnector", "bridge.url": service}


class DirectTasks:
    """A connector's tasks by the HTTP contract alone, as the shim would start them; without a worker."""

    def __init__(self, url: str, name: str, config: Mapping[str, str], tasks: int = 1) -> None:
        self.session = f"{int(time.time() * 1000):013d}-bench"
        self.path, self._tasks = f"/v1/connectors/{name}", tasks
        self._http = httpx.Client(base_url=url, timeout=30.0, verify=NO_AUTHORITIES)
        body = {
            "session": self.session,
            "kind": "group_offset",
            "task_count": tasks,
            # Long enough that nobody has to poll for it.
            "config": {**config, "name": name, "bridge.task.lease.ms": "3600000"},
        }
        for index in range(tasks):
            answer = self._http.put(f"{self.path}/tasks/{index}", json=body)
            assert answer.is_success, answer.text

    def status(self) -> ConnectorStatus:
        answer = self._http.get(f"{self.path}/status").raise_for_status()
        return ConnectorStatus.model_validate_json(answer.content)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for index in range(self._tasks):
            self._http.request("DELETE", f"{self.path}/tasks/{index}", json={"session": self.session})
        self._http.close()


def service_pids(stack: LocalStack, name: str = "service") -> dict[str, int]:
    """The processes of the service: the one that serves HTTP and its child that runs the rounds."""
    http = stack.service(name).process.pid
    with open(f"/proc/{http}/task/{http}/children") as listed:
        children = [int(pid) for pid in listed.read().split()]
    result = {"http": http}
    for number, pid in enumerate(children):
        result["rounds" if number == 0 else f"child {number}"] = pid
    return result


def quantile(values: Sequence[float], part: float) -> float:
    """The value below which that part of them lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(part * len(ordered)) - 1)] if ordered else math.nan
