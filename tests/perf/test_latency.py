"""`latency`: how old records are when read_committed readers of the copy get them, at a steady 2,000 records per
second, while every 20 s, in turns, a topic comes or gets a partition more that is copied too: it joins the layout of
ours, and stock gets new task configurations.

The gap is how long nothing of a partition arrives while the mirror changes over, the longest of ten. `ratio` is stock's
median age at exactly once over ours. `MIRROR_BRIDGE_BENCH_SCALE=0.1` takes a tenth of the three minutes.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from collections.abc import Sequence

import pytest

from bridge.local import ConnectWorker, LocalStack, eventually
from tests.perf.group_rounds import quantile
from tests.perf.loads import PARTITIONS, SCALE
from tests.perf.mirrors import Ours, Scene, failed_tasks, stock_running
from tests.perf.record_stream import Arrival, Reader, Stream, every, longest_gap
from tests.perf.results import write
from tests.support import add_partitions, create_topic, delete_topic, unique

RATE = 2000
CHANGE_EVERY = 20.0
CHANGES = max(1, round(9 * SCALE))
MOST_P99_MS, INTERVAL_MS = 60.0, 100.0
"""What ours may take at most; transaction.interval.ms."""
WARM = 20.0
"""Seconds of the stream before it counts."""


def figures(name: str, arrivals: Sequence[Arrival], changes: Sequence[float]) -> dict[str, object]:
    """Ages and gaps in ms."""
    begin, end = changes[0], changes[-1] + CHANGE_EVERY
    counted = [each for each in arrivals if begin <= each.at <= end]
    assert len(counted) > RATE * (end - begin) * 0.9, f"{name}: {len(counted)} records in {end - begin:.0f} s"
    ages = [each.age * 1000 for each in counted]
    gaps = [longest_gap(counted, at, at + CHANGE_EVERY) * 1000 for at in changes]
    result: dict[str, float] = {"p50": quantile(ages, 0.5), "p99": quantile(ages, 0.99), "max": max(ages)}
    result |= {"gap_median": statistics.median(gaps), "gap_max": max(gaps)}
    return {
        "side": name,
        "records": len(counted),
        "changes": len(changes),
        **{key: round(value, 1) for key, value in result.items()},
    }


def measure_ours(scene: Scene) -> dict[str, object]:
    copier = Ours(scene)
    topic = create_topic(scene.near_source, unique("latency"), PARTITIONS)
    remote = copier.add(topic, PARTITIONS)
    extra: list[str] = []
    grow = itertools.cycle([False, True])

    async def run() -> tuple[Reader, list[float]]:
        async with copier.running() as pipeline:

            def change() -> None:
                if next(grow):
                    copier.grow(extra[-1], 2)
                else:
                    extra.append(create_topic(scene.near_source, unique("latency-more")))
                    copier.add(extra[-1], 1)
                loop.call_soon_threadsafe(pipeline.assign, copier.partitions)

            loop = asyncio.get_running_loop()
            with (
                Stream(scene.near_source, topic, PARTITIONS, RATE),
                Reader(scene.near_target, remote, PARTITIONS) as reader,
            ):
                await asyncio.to_thread(_flowing, reader)
                changes = await asyncio.to_thread(every, CHANGE_EVERY, CHANGES, change)
            assert pipeline.status.restarts == 0, pipeline.status.errors
            assert len(pipeline.status.progress) == PARTITIONS + CHANGES
            return reader, changes

    reader, changes = asyncio.run(run())
    copier.forget()
    for each in (topic, *extra):
        delete_topic(scene.near_source, each)
    return figures("ours", reader.arrivals, changes)


def measure_stock(scene: Scene, worker: ConnectWorker, name: str) -> dict[str, object]:
    alias, mark = unique("stock"), unique("latency")
    topics = [create_topic(scene.near_source, f"{mark}-0", PARTITIONS)]
    remote = create_topic(scene.near_target, f"{alias}.{topics[0]}", PARTITIONS)

    restarted: list[int] = []
    grow = itertools.cycle([False, True])

    def change() -> None:
        if next(grow):
            add_partitions(scene.near_source, topics[-1], 2)
        else:
            topics.append(create_topic(scene.near_source, f"{mark}-{len(topics)}"))
        for task in failed_tasks(worker, connector):  # as an operator would
            restarted.append(task)
            worker.rest.restart_task(connector, task)

    with (
        stock_running(scene, worker, f"{mark}.*", alias, refresh_topics_interval_seconds=1) as connector,
        Stream(scene.near_source, topics[0], PARTITIONS, RATE),
        Reader(scene.near_target, remote, PARTITIONS) as reader,
    ):
        _flowing(reader)
        changes = every(CHANGE_EVERY, CHANGES, change)
    for each in topics:
        delete_topic(scene.near_source, each)
        delete_topic(scene.near_target, f"{alias}.{each}")
    return {**figures(name, reader.arrivals, changes), "failed_tasks": len(restarted)}


def _flowing(reader: Reader) -> None:
    """Until records come, and have come for a while."""
    eventually(lambda: bool(reader.arrivals), 120, what="records arrive")
    first = time.monotonic()
    eventually(lambda: time.monotonic() > first + WARM, WARM + 5, what="the mirror is warm")


@pytest.mark.timeout(3600)
def test_latency(copy_stack: LocalStack, least_once: ConnectWorker, exactly_once: ConnectWorker) -> None:
    scene = Scene.of(copy_stack)
    rows = [
        measure_ours(scene),
        measure_stock(scene, least_once, "stock at least once"),
        measure_stock(scene, exactly_once, "stock exactly once"),
    ]
    write(
        "latency",
        ours=float(str(rows[0]["p50"])),
        other=float(str(rows[2]["p50"])),
        unit="ms of age, median",
        better="less",
        rows=rows,
    )
    ours, _, once = ({key: float(str(row[key])) for key in ("p50", "p99", "gap_max")} for row in rows)
    assert ours["p50"] <= once["p50"], rows
    assert ours["p99"] <= MOST_P99_MS, rows
    assert ours["gap_max"] <= 2 * INTERVAL_MS, rows
