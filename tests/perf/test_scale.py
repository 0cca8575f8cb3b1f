"""`scale`: the same bytes in 1, 10, 100 and 1,000 partitions: that cost grows with bytes, not with partitions; `ratio`
is the rate at 1,000. `scale_following`, at 1,000 partitions: what following costs while nothing comes (`ratio`),
resident size, and seconds from a start of the mirror's processes until what has come meanwhile, a record for each
partition, is copied."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import pytest

from bridge.local import ConnectWorker, LocalStack
from bridge.pipeline.driver.launch import DriverPipeline
from tests.perf.jvms import copying_worker
from tests.perf.loads import SCALE, Load, filled
from tests.perf.mirrors import (
    RUNS,
    WITHIN,
    Ours,
    Scene,
    in_turns,
    ours,
    roots,
    stock,
    stock_running,
    until,
    warm,
)
from tests.perf.processes import Meter, resident, tree
from tests.perf.results import write
from tests.perf.watched_copy import Watch
from tests.support import Record, create_topic, delete_topic, produce, unique

PARTITIONS = (1, 10, 100, 1000)
RECORDS = int(2_000_000 * SCALE)
QUIET, IDLE = 5.0, max(5.0, 30.0 * SCALE)
"""Seconds after the last record that do not count, and that do."""
TICKS = {1000: 0.25}
"""Seconds between looks at the target where asking costs something; 0.05 elsewhere."""


@pytest.mark.timeout(7200)
def test_scale(copy_stack: LocalStack) -> None:
    scene, worker = Scene.of(copy_stack), copying_worker(copy_stack, "scale")
    warm(scene, worker)
    rows: list[dict[str, object]] = []
    compared = (0.0, 1.0)
    for number in PARTITIONS:
        load, tick = Load(RECORDS, 120, partitions=number), TICKS.get(number, 0.05)
        topic = filled(scene.near_source, load)
        sides = {
            "ours": lambda topic=topic, load=load, tick=tick: ours(scene, topic, load, tick=tick),
            "stock": lambda topic=topic, load=load, tick=tick: stock(
                scene, worker, topic, load, once=False, tick=tick
            ),
        }
        result = in_turns(sides)
        delete_topic(scene.near_source, topic)
        compared = result["ours"].rate, result["stock"].rate
        for name, copy in result.items():
            rows.append({"side": name, **load.row(), **copy.row()})
            print(rows[-1], flush=True)
    write("scale", ours=compared[0], other=compared[1], unit="records/s", better="more", rows=rows)


@pytest.mark.timeout(3600)
def test_scale_following(copy_stack: LocalStack) -> None:
    """In turns: which comes first has brokers that have compiled less."""
    scene, worker = Scene.of(copy_stack), copying_worker(copy_stack, "scale")
    warm(scene, worker)
    taken = [(_follow_ours(scene), _follow_stock(scene, worker)) for _ in range(RUNS)]
    rows = [_medians(side) for side in zip(*taken, strict=True)]
    idle = [float(str(each["idle_cpu_percent"])) for each in rows]
    unit = "% of a processor while nothing comes"
    write("scale_following", ours=idle[0], other=idle[1], unit=unit, better="less", rows=rows)
    for key in ("idle_cpu_percent", "current_after_s"):
        mine, theirs = (float(str(each[key])) for each in rows)
        assert mine <= theirs, f"{key}: {rows}"


def _medians(rows: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Of each figure that was measured by itself, and all that were measured."""
    keys = ("idle_cpu_percent", "current_after_s")
    medians = {key: statistics.median(float(str(row[key])) for row in rows) for key in keys}
    return {**rows[0], **medians, "all": [{key: row[key] for key in keys} for row in rows]}


def _follow_ours(scene: Scene) -> dict[str, object]:
    load = Load(max(RECORDS // 10, PARTITIONS[-1]), 120, partitions=PARTITIONS[-1])
    topic, copier = filled(scene.near_source, load), Ours(scene)
    remote = copier.add(topic, load.partitions)

    def at(pipeline: DriverPipeline, records: int) -> Callable[[], bool]:
        return lambda: sum(each.position for each in pipeline.status.progress.values()) == records

    async def follow() -> dict[str, object]:
        async with copier.running() as pipeline:
            await until(at(pipeline, load.total), pipeline)
            result = await asyncio.to_thread(_idle, lambda: roots(pipeline))
        await asyncio.to_thread(_one_each, scene, topic, load)
        with Watch(scene.near_target, remote, load.partitions, list, scene.brokers, 0.25) as watch:
            # Each partition has one record more, and the marker of its transaction.
            current = watch.offsets + 2 * load.partitions
            began = time.monotonic()
            async with copier.running() as pipeline:
                ended = await asyncio.to_thread(watch.wait_grown, current, WITHIN)
                await until(at(pipeline, load.total + load.partitions), pipeline)
        return {**result, "current_after_s": round(ended - began, 1)}

    outcome = asyncio.run(follow())
    copier.forget()
    delete_topic(scene.near_source, topic)
    return {"side": "ours, following", "partitions": load.partitions, **outcome}


def _follow_stock(scene: Scene, worker: ConnectWorker) -> dict[str, object]:
    load, alias = Load(max(RECORDS // 10, PARTITIONS[-1]), 120, partitions=PARTITIONS[-1]), unique("stock")
    topic = filled(scene.near_source, load)
    remote = create_topic(scene.near_target, f"{alias}.{topic}", load.partitions)
    with (
        Watch(scene.near_target, remote, load.partitions, list, scene.brokers, 0.25) as watch,
        stock_running(scene, worker, topic, alias),
    ):
        watch.wait_grown(load.total, WITHIN)
        result = _idle(lambda: [worker.process.pid])
        worker.stop()
        _one_each(scene, topic, load)
        began = time.monotonic()
        worker.start()
        current = watch.wait_grown(load.total + load.partitions, WITHIN) - began
    delete_topic(scene.near_target, remote)
    delete_topic(scene.near_source, topic)
    return {
        "side": "stock, following",
        "partitions": load.partitions,
        **result,
        "current_after_s": round(current, 1),
    }


def _idle(roots: Callable[[], list[int]]) -> dict[str, object]:
    """Percent of one processor, and MB."""
    time.sleep(QUIET)
    meter = Meter(roots)
    time.sleep(IDLE)
    used = meter.seconds()
    pids = [pid for root in roots() for pid in tree(root)]
    return {"idle_cpu_percent": round(100 * used / IDLE, 2), "rss_mb": resident(pids)}


def _one_each(scene: Scene, topic: str, load: Load) -> None:
    records = [Record(b"late", key=b"late", partition=number) for number in range(load.partitions)]
    produce(scene.near_source, topic, records)
