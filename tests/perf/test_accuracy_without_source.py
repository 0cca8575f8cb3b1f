"""`accuracy`, with the source dead: groups at 40 lags, from 0 to a quarter of 4,000,000 records of 1 KB in one
partition, which stand in transactions of 200 and were copied as they came, in thousands of commits. How many records
each reads a second time, by ours and by stock, and how long ours takes for all 40 answers.

Ours has seen the groups before the records were there, and never again: all that it knows is the offset runs. Stock has
had all the time it takes to write the groups' offsets, with the source alive. What a group reads first is read from the
target: its key tells which source record it is. `MIRROR_BRIDGE_BENCH_SCALE=0.1` takes a tenth of the records.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer

from bridge.local import NO_AUTHORITIES, Cluster, ConnectWorker, GivenCluster, LocalStack
from bridge.model.values import TopicPartition
from tests.perf.group_rounds import (
    DirectTasks,
    both,
    commit_all,
    on_target,
    our_config,
    stock_checkpoints,
    until_risen,
)
from tests.perf.loads import SCALE
from tests.perf.mirrors import Ours, Scene, stock_running, until
from tests.perf.reread import DEAD, SUM, first_records, keep, lags
from tests.support import bounds, connector, create_topic, eventually, unique, wait_mirrored

RECORDS, SIZE, TRANSACTION = round(4_000_000 * SCALE / 1000) * 1000, 1000, 200
FIRST = 1000
INTERVAL = 0.01
SIDES = ("ours", "stock")
WITHIN = 1800.0


def offset(record: int) -> int:
    """On the source, where a marker stands behind each transaction."""
    return record + record // TRANSACTION


def write(bootstrap: str, topic: str, first: int, end: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique("tx"), "linger.ms": 0})
    producer.init_transactions(60)
    value = b"x" * (SIZE - 16)
    for begin in range(first, end, TRANSACTION):
        producer.begin_transaction()
        for number in range(begin, begin + TRANSACTION):
            producer.produce(topic, value, b"%d" % number, 0)
        producer.commit_transaction(60)


class Alone:
    """Our connector, a round of which begins whenever its task starts, and not again."""

    def __init__(self, url: str, config: Mapping[str, str], groups: int) -> None:
        self._url, self._config, self._groups, self._name = url, config, groups, unique("accuracy")

    def see(self) -> None:
        """Where the groups are now."""
        with DirectTasks(self._url, self._name, self._config) as tasks:
            eventually(lambda: tasks.status().rounds > 0, 60, what="the groups are seen")
            assert self._count("") == self._groups
            assert self._count("&verdict=exact") == 0

    def seconds(self) -> float:
        """Until all groups have exact answers and stand there on the target."""
        began = time.monotonic()
        with DirectTasks(self._url, self._name, self._config):
            eventually(
                lambda: self._count("&verdict=exact&readiness=ready_as_of") == self._groups,
                300,
                what="exact answers without the source",
            )
        return time.monotonic() - began

    def _count(self, which: str) -> int:
        result = httpx.get(
            f"{self._url}/v1/groups?connector={self._name}{which}", timeout=10, verify=NO_AUTHORITIES
        )
        return int(result.raise_for_status().json()["total"])


@pytest.mark.timeout(3600)
def test_accuracy_without_source(stack: LocalStack, target: Cluster, worker: ConnectWorker) -> None:
    origin, service = stack.broker(unique("origin")), stack.service()
    copier = Ours(
        Scene(origin, target, origin.bootstrap, target.bootstrap, ()), transaction_interval=INTERVAL
    )
    topic = create_topic(origin.bootstrap, unique("far"))
    place = TopicPartition(topic, 0)
    aliases = {"ours": copier.flow.alias, "stock": unique("stock")}
    sources = {side: GivenCluster(alias, origin.bootstrap) for side, alias in aliases.items()}
    copies = {
        "ours": copier.add(topic, 1),
        "stock": create_topic(target.bootstrap, f"{aliases['stock']}.{topic}"),
    }
    expected = lags(RECORDS // 4, 40)
    mark = unique("accuracy")
    groups = {
        side: {f"{mark}-{side}-{lag:07d}": {place: offset(RECORDS - lag)} for lag in expected}
        for side in SIDES
    }
    config = our_config(
        sources["ours"],
        target,
        service.url,
        groups=f"{mark}-ours-.*",
        topics=topic,
        sync_group_offsets_interval_seconds=3600,
    )
    alone = Alone(service.url, config, len(expected))

    async def go() -> tuple[float, dict[str, Any]]:
        async with both(origin, target) as (a, b):
            async with copier.running() as pipeline:

                async def copied(first: int, end: int) -> None:
                    await asyncio.to_thread(write, origin.bootstrap, topic, first, end)
                    await until(
                        lambda: (
                            place in pipeline.status.progress
                            and pipeline.status.progress[place].position >= offset(end)
                        ),
                        pipeline,
                    )

                await copied(0, FIRST)
                await commit_all(a, groups["ours"])
                await asyncio.to_thread(alone.see)
                await copied(FIRST, RECORDS)
            await commit_all(a, groups["stock"])
            scene, alias = copier.scene, aliases["stock"]
            with stock_running(scene, worker, topic, alias):
                await asyncio.to_thread(
                    wait_mirrored, sources["stock"], target, [topic], worker, timeout=WITHIN
                )
                checkpoints = stock_checkpoints(
                    sources["stock"], target, groups=f"{mark}-stock-.*", topics=topic
                )
                with connector(worker, checkpoints):
                    floors = {group: dict.fromkeys(offsets, -1) for group, offsets in groups["stock"].items()}
                    await until_risen(b, on_target(floors, alias), within=180)
                    await asyncio.sleep(5)  # more intervals: it has not written less than it will
            origin.kill()
            took = await asyncio.to_thread(alone.seconds)
            return took, {side: await b.committed(list(groups[side])) for side in SIDES}

    took, result = asyncio.run(go())
    stands = {
        side: {
            lag: result[side][group][TopicPartition(copies[side], 0)].offset
            for lag, group in zip(expected, groups[side], strict=True)
        }
        for side in SIDES
    }
    firsts = {side: first_records(target.bootstrap, copies[side], stands[side], RECORDS) for side in SIDES}
    rows: list[dict[str, object]] = []
    for lag in expected:
        row: dict[str, object] = {"lag": lag, "committed": offset(RECORDS - lag)}
        for side in SIDES:
            again = RECORDS - lag - firsts[side][lag]
            assert again >= 0, f"{side} skips {-again} records at lag {lag}"
            row |= {f"{side}_offset": stands[side][lag], f"{side}_reread": again}
        rows.append(row)
    runs = copier.flow.runs()[place].runs
    size = sum(run.size for run in runs)
    total: dict[str, object] = {
        f"{side}_reread": sum(RECORDS - lag - first for lag, first in firsts[side].items()) for side in SIDES
    }
    total |= {
        "seconds_for_all": round(took, 2),
        "records": RECORDS,
        "bytes_each": SIZE,
        "commits": bounds(target.bootstrap, copies["ours"])[0][1] - RECORDS,
        "runs": len(runs),
        "runs_bytes_per_gb": round(sum(len(run.key()) + len(run.value()) for run in runs) / size * 1e9),
    }
    assert total["ours_reread"] == 0
    keep(DEAD, [*rows, {"lag": SUM, **total}])
