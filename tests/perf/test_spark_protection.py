"""`spark_protection`: what it costs that Spark authenticates and encrypts with a local master, as by default: the
rate of copies, in turns with some that do neither, and the time from the start of a driver to its first record."""

from __future__ import annotations

import asyncio
import statistics
import time
from functools import partial

import pytest

from bridge.local import LocalStack
from tests.perf.loads import SCALE, Load, filled
from tests.perf.mirrors import Ours, Scene, in_turns, ours, until
from tests.perf.results import write
from tests.support import delete_topic

OPEN = {
    f"spark.{what}": "false" for what in ("authenticate", "network.crypto.enabled", "io.encryption.enabled")
}
STARTS = 5


def started(scene: Scene, topic: str, load: Load, props: dict[str, str]) -> float:
    """Seconds until something is copied."""
    copier = Ours(scene, (), props)
    copier.add(topic, load.partitions)

    async def start() -> float:
        began = time.monotonic()
        async with copier.running() as pipeline:
            await until(lambda: any(each.position for each in pipeline.status.progress.values()), pipeline)
            return time.monotonic() - began

    took = asyncio.run(start())
    copier.forget()
    return took


@pytest.mark.timeout(3600)
def test_spark_protection(copy_stack: LocalStack) -> None:
    scene = Scene.of(copy_stack)
    load = Load(int(4_000_000 * SCALE), 120)
    small = filled(scene.near_source, Load(1_000, 120))
    props: dict[str, dict[str, str]] = {"protected": {}, "open": OPEN}
    starts: dict[str, list[float]] = {name: [] for name in props}
    for turn in range(STARTS + 1):
        for name, settings in props.items():
            took = started(scene, small, load, settings)
            if turn:  # the first one warms the machine's caches
                starts[name].append(took)
    topic = filled(scene.near_source, load)
    copies = in_turns({name: partial(ours, scene, topic, load, props=each) for name, each in props.items()})
    for each in (small, topic):
        delete_topic(scene.near_source, each)
    rows: list[dict[str, object]] = [
        {"side": name, "start_s": round(statistics.median(starts[name]), 2), **load.row(), **copy.row()}
        for name, copy in copies.items()
    ]
    for row in rows:
        print(row, flush=True)
    rates = copies["protected"].rate, copies["open"].rate
    write("spark_protection", ours=rates[0], other=rates[1], unit="records/s", better="more", rows=rows)
