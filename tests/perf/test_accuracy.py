"""`accuracy`: 1,000,000 records in one partition and groups at 40 lags: how many records each reads a second time after
a failover, by ours, by our checkpoint connector (records and offset syncs together), by the plain timestamp answer, and
by stock.

All write group offsets on the target: ours and the plain rule (translation.verify=false) by MirrorGroupOffsetConnector,
the other two by the checkpoint connectors with sync.group.offsets.enabled; each has groups of its own at the same
offsets. Twenty records share a millisecond. What a group reads first is read from the target: its key
tells which source record it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from bridge.local import Cluster, ConnectWorker, LocalStack
from bridge.model.values import TopicPartition
from tests.perf.group_rounds import (
    both,
    commit_all,
    forget_groups,
    mirrored_topic,
    on_target,
    our_checkpoints,
    our_config,
    stock_checkpoints,
    until_risen,
)
from tests.perf.reread import ALIVE, SUM, first_records, keep, lags
from tests.support import connector

RECORDS = 1_000_000
LAGS = 40
SIDES = ("ours", "checkpoint", "timestamp", "stock")
EXACT = ("ours", "checkpoint")


@pytest.mark.timeout(1800)
def test_accuracy(stack: LocalStack, source: Cluster, target: Cluster, worker: ConnectWorker) -> None:
    topic = mirrored_topic(worker, source, target, partitions=1, records=RECORDS, name="accuracy-topic")
    place, copy = TopicPartition(topic, 0), TopicPartition(f"{source.name}.{topic}", 0)
    service = stack.service().url
    expected = lags(RECORDS - 1, LAGS)
    assert len(expected) == len(set(expected)) == LAGS
    assert expected[-1] == RECORDS - 1
    groups = {
        side: {f"accuracy-{side}-{lag:06d}": {place: RECORDS - lag} for lag in expected} for side in SIDES
    }

    async def synced() -> dict[str, dict[int, int]]:
        """The offset on the target by side and lag. The plain rule has no answer at the end of the log, and stock none
        before its oldest offset sync."""
        async with both(source, target) as (a, b):
            for side in SIDES:
                await commit_all(a, groups[side])
            common: dict[str, object] = {"topics": topic, "tasks_max": 1}
            ours = {**common, "sync_group_offsets_interval_seconds": 1, "refresh_groups_interval_seconds": 1}
            configs = (
                our_config(source, target, service, groups="accuracy-ours-.*", **ours),
                our_checkpoints(
                    source,
                    target,
                    service,
                    groups="accuracy-checkpoint-.*",
                    sync_group_offsets_enabled="true",
                    **common,
                ),
                our_config(
                    source,
                    target,
                    service,
                    groups="accuracy-timestamp-.*",
                    translation_verify="false",
                    **ours,
                ),
                stock_checkpoints(source, target, groups="accuracy-stock-.*", **common),
            )
            stands: dict[str, dict[int, int]] = {}
            for side, config in zip(SIDES, configs, strict=True):
                answered = {
                    group: dict.fromkeys(offsets, -1)
                    for (group, offsets), lag in zip(groups[side].items(), expected, strict=True)
                    if side in EXACT or 0 < lag < RECORDS - 10_000
                }
                with connector(worker, config):
                    await until_risen(b, on_target(answered, source.name), within=180)
                    await asyncio.sleep(5)  # more intervals: nobody has written less than it will
                result = await b.committed(list(groups[side]))
                stands[side] = {}
                for (group, _), lag in zip(groups[side].items(), expected, strict=True):
                    offsets = result[group]
                    assert isinstance(offsets, Mapping), offsets
                    if copy in offsets:
                        stands[side][lag] = offsets[copy].offset
            return stands

    stands = asyncio.run(synced())
    firsts = {side: first_records(target.bootstrap, copy.topic, stands[side], RECORDS) for side in SIDES}
    for side in SIDES:
        forget_groups(source, list(groups[side]))
        forget_groups(
            target, [name for name, lag in zip(groups[side], expected, strict=True) if lag in firsts[side]]
        )
    rows: list[dict[str, object]] = []
    totals = dict.fromkeys(SIDES, 0)
    for lag in expected:
        row: dict[str, object] = {"lag": lag, "committed": RECORDS - lag}
        for side in SIDES:
            first = firsts[side].get(lag)
            again = None if first is None else RECORDS - lag - first
            assert again is None or again >= 0, f"{side} skips {-again} records at lag {lag}"
            row[f"{side}_offset"], row[f"{side}_reread"] = stands[side].get(lag), again
            totals[side] += again or 0
        rows.append(row)
    rows.append({"lag": SUM, **{f"{side}_reread": total for side, total in totals.items()}})
    assert [totals[side] for side in EXACT] == [0, 0]
    keep(ALIVE, rows)
