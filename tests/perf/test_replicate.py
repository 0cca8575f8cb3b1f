"""`replicate`: how fast a backlog is copied, and what that costs: ours, exactly once on Spark, beside stock
MirrorSourceConnector in a warm worker, at least once and exactly once.

Records of 120 bytes and of 1 KB in 10 partitions, in batches as a source has them: of 1 and 4 records, 16 KB and 1 MB,
compressed or not. All copy the same topic in turns; what counts is the median of each. Beside them what nobody can be
faster than (batches made beforehand and only produced), our slices without Spark, and as a query that Spark's UI shows.
`MIRROR_BRIDGE_BENCH_SCALE=0.1` takes a tenth of the records. `MIRROR_BRIDGE_BENCH_ROWS='120 B, [14], lz4'` measures
only the rows whose name (`120 B, 1, lz4`) this regular expression matches.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from bridge.local import ConnectWorker, LocalStack
from tests.perf.loads import SCALE, Load, filled, produce_alone
from tests.perf.masking import NEAREST, OURS, STOCKS, assert_masked
from tests.perf.mirrors import SLOTS, Scene, importable_tests, in_turns, ours, stock, warm
from tests.perf.results import write
from tests.perf.watched_copy import Copy, Watch
from tests.support import create_topic, delete_topic, unique

SIZES = {120: 4_000_000, 1000: 400_000}
"""Bytes of a record, and how many."""
SMALL = {120: 0.25, 1000: 1.0}
"""Part of the records that batches of a few of them take: filling the source would take longer than all copies; but a
copy of under a second says little."""
AT_LIMIT = 4
"""Times the records that are produced alone: over too soon otherwise."""
LIMITS = ("16 KB", "1 MB")
"""Sizes of batches on the target."""
UI = {"spark.ui.enabled": "true", "spark.ui.port": "0"}
"""Slices are rows of a query then."""
ROWS = re.compile(os.environ.get("MIRROR_BRIDGE_BENCH_ROWS", ""))
"""Of their names those that are measured."""


def loads() -> list[Load]:
    """The row that counts comes first, so that its worker is not warmer than those of the others by then."""
    collected = []
    for size, records in SIZES.items():
        for batch in ("16 KB", "1 MB", "4", "1"):
            part = SCALE * (SMALL[size] if batch in ("1", "4") else 1.0)
            for codec in ("none", "lz4", "zstd"):
                collected.append(Load(int(records * part), size, batch, codec))
    return [load for load in collected if ROWS.search(load.name)]


def alone(bootstrap: str, topic: str, load: Load) -> None:
    """For a process."""
    asyncio.run(produce_alone(bootstrap, topic, load))


def limit(scene: Scene, load: Load) -> Copy:
    """As many processes as there are slots, each with a topic of its own in place of partitions of its own."""
    context = multiprocessing.get_context("spawn")
    part = replace(load, records=AT_LIMIT * load.records // SLOTS, partitions=load.partitions // SLOTS)
    topics = [create_topic(scene.near_target, unique("alone"), part.partitions) for _ in range(SLOTS)]
    producers = [context.Process(target=alone, args=(scene.near_target, topic, part)) for topic in topics]
    with Watch(
        scene.near_target,
        topics[0],
        part.partitions,
        lambda: [each.pid for each in producers if each.pid],
        scene.brokers,
    ) as watch:
        with importable_tests():
            for each in producers:
                each.start()
        for each in producers:
            each.join()
    assert all(each.exitcode == 0 for each in producers)
    one = watch.copied(part.total)
    for topic in topics:
        delete_topic(scene.near_target, topic)
    return Copy(one.rate * SLOTS, one.mirror_cpu / SLOTS, one.broker_cpu / SLOTS)


@pytest.mark.timeout(14400)
def test_replicate(copy_stack: LocalStack, least_once: ConnectWorker, exactly_once: ConnectWorker) -> None:
    scene = Scene.of(copy_stack)
    warm(scene, least_once)
    warm(scene, exactly_once, once=True)
    rows: list[dict[str, object]] = []
    headline: dict[str, Copy] = {}
    for load in loads():
        plain = load.codec == "none"
        topic = filled(scene.near_source, load)
        sides: dict[str, Callable[[], Copy]] = {
            "ours": partial(ours, scene, topic, load),
            "stock": partial(stock, scene, least_once, topic, load, once=False),
        }
        if plain:
            sides["stock exactly once"] = partial(stock, scene, exactly_once, topic, load, once=True)
            if load.batch in LIMITS:
                sides["ours in Spark's UI"] = partial(ours, scene, topic, load, props=UI)
                sides["ours without Spark"] = partial(ours, scene, topic, load, spark=False)
                sides["limit"] = partial(limit, scene, load)
        result = in_turns(sides)
        headline = headline or result
        delete_topic(scene.near_source, topic)
        for name, copy in result.items():
            over = {"over_stock": round(copy.rate / result["stock"].rate, 2)} if name == "ours" else {}
            rows.append({"side": name, **load.row(), **copy.row(), **over})
            print(rows[-1], flush=True)
    write(
        "replicate",
        ours=headline["ours"].rate,
        other=headline["stock"].rate,
        unit=f"records/s ({loads()[0].name})",
        better="more",
        rows=rows,
    )


@pytest.mark.timeout(3600)
def test_masked(copy_stack: LocalStack, masking: ConnectWorker) -> None:
    """Records of JSON of which a field is masked: by mask_fields, and by stock's MaskField, for which a transform that
    is not stock's has to parse them first. The least that a transform of stock's own can cost is beside them."""
    scene = Scene.of(copy_stack)
    warm(scene, masking)
    rows: list[dict[str, object]] = []
    headline: dict[str, Copy] = {}
    for size, records in SIZES.items():
        load = Load(int(records * SCALE / 2), size, json=True)
        topic = filled(scene.near_source, load)
        copied = in_turns(
            {
                "ours": partial(ours, scene, topic, load, transforms=OURS, check=assert_masked),
                "stock": partial(
                    stock, scene, masking, topic, load, once=False, props=STOCKS, check=assert_masked
                ),
                "stock, a header instead": partial(
                    stock, scene, masking, topic, load, once=False, props=NEAREST
                ),
                "ours, as they are": partial(ours, scene, topic, load),
            }
        )
        headline = headline or copied
        delete_topic(scene.near_source, topic)
        for name, copy in copied.items():
            over = {"over_stock": round(copy.rate / copied["stock"].rate, 2)} if name == "ours" else {}
            rows.append({"side": name, **load.row(), **copy.row(), **over})
            print(rows[-1], flush=True)
    write(
        "masked",
        ours=headline["ours"].rate,
        other=headline["stock"].rate,
        unit="records/s (120 B of JSON, a field masked)",
        better="more",
        rows=rows,
    )
