"""`store`: 1,000,000 offset syncs over 1,000 partitions, 101 offsets apart, as stock's source connector writes them at
its default `offset.lag.max`; ours against stock's.

- A start on a real topic of them (`store_start`); `ratio` is made of it.
- Syncs read and applied a second, and offsets translated a second, in memory, by the classes themselves. A start-up
  applies each sync once, so the first pass counts for either side; stock's last one, compiled by then, has a row of its
  own.
"""

from __future__ import annotations

import gc
import subprocess
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.local import Cluster, ConnectWorker, LocalStack
from bridge.mm2.offset_sync_store import OffsetSyncStore
from bridge.mm2.records import OffsetSync, SyncColumns
from bridge.model.values import TopicPartition
from tests.perf.results import write
from tests.perf.store_start import start_up
from tests.support.java import compiled

PARTITIONS, EACH, STEP = 1000, 1000, 101
SYNCS = PARTITIONS * EACH
MOST_SECONDS = 10.0


def partitions() -> list[TopicPartition]:
    return [TopicPartition(f"topic-{number // 10}", number % 10) for number in range(PARTITIONS)]


def applied() -> tuple[OffsetSyncStore, float]:
    """A started store, and the seconds that its syncs took from bytes on. What makes the bytes is not counted."""
    store, seconds = OffsetSyncStore(must_read_to_end=False), 0.0
    for number in range(EACH):
        syncs = [OffsetSync(each, number * STEP, number * STEP) for each in partitions()]
        records = [(sync.key(), sync.value()) for sync in syncs]
        began = time.perf_counter()
        columns = SyncColumns.decode(records)
        assert columns is not None
        store.apply_all(columns)
        seconds += time.perf_counter() - began
    began = time.perf_counter()
    store.finish_start()  # applies what waits
    return store, seconds + time.perf_counter() - began


def translated(store: OffsetSyncStore) -> tuple[int, float]:
    """The sum of the answers for an offset after each sync, as the Java side sums them, and the seconds."""
    began = time.perf_counter()
    answers = [store.translate(each, number * STEP + 1) for each in partitions() for number in range(EACH)]
    return sum(answer or 0 for answer in answers), time.perf_counter() - began


def kilobytes_held() -> float:
    """What a store holds for one partition, of a hundred: the syncs kept and the slots that they stand in."""
    gc.collect()
    tracemalloc.start()
    store = OffsetSyncStore(must_read_to_end=False)
    few = partitions()[:100]
    for each in few:
        for number in range(EACH):
            store.apply(OffsetSync(each, number * STEP, number * STEP))
    store.finish_start()
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return round(held / 1e3 / len(few), 2)


def row(what: str, count: int, ours: float, stock: float) -> dict[str, object]:
    rates = {"ours": round(count / ours), "stock": round(count / stock), "unit": "1/s"}
    return {"what": what, **rates, "ratio": round(stock / ours, 2)}


@pytest.mark.timeout(1800)
def test_store(
    stack: LocalStack, source: Cluster, target: Cluster, worker: ConnectWorker, tmp_path: Path
) -> None:
    rows = [*start_up(stack, source, target, worker, all_syncs()), *in_memory(tmp_path)]
    stock, ours = (next(row for row in rows if row.get("side") == side) for side in ("stock", "ours"))
    seconds = [float(str(each["seconds"])) for each in (ours, stock)]
    assert float(str(ours["resident_mb"])) <= float(str(stock["resident_mb"])), rows
    unit = "s from the PUT to the first checkpoint"
    write("store", ours=seconds[0], other=seconds[1], unit=unit, better="less", rows=rows)
    assert seconds[0] <= min(MOST_SECONDS, seconds[1]), rows


def all_syncs() -> Iterator[OffsetSync]:
    for number in range(EACH):
        for each in partitions():
            yield OffsetSync(each, number * STEP, number * STEP)


def in_memory(tmp_path: Path) -> list[dict[str, object]]:
    source = Path(__file__).parent.parent / "integration" / "StockStore.java"
    command = compiled(source, tmp_path, "org.apache.kafka.connect.mirror.StockStore")
    ran = subprocess.run(
        [*command, *map(str, (PARTITIONS, EACH, STEP))], capture_output=True, text=True, check=True
    )
    passes = [[int(field) for field in line.split("\t")] for line in ran.stdout.splitlines()]
    cold, warm = ((took[0] / 1e9, took[1] / 1e9) for took in (passes[0], passes[-1]))
    store, applying = applied()
    sum_of_answers, translating = translated(store)
    assert sum_of_answers == passes[0][2]
    assert applying < MOST_SECONDS
    return [
        row("syncs read and applied", SYNCS, applying, cold[0]),
        row("offsets translated", SYNCS, translating, cold[1]),
        row("syncs read and applied, stock compiled", SYNCS, applying, warm[0]),
        row("offsets translated, stock compiled", SYNCS, translating, warm[1]),
        {"what": "held for a partition", "ours": kilobytes_held(), "unit": "KB"},
    ]
