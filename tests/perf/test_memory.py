"""`memory`: resident size (RSS) of all processes of the service at 100,000 group-partitions: 10,000 groups × 10."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from bridge.local import NO_AUTHORITIES, Cluster, ConnectWorker, LocalStack, eventually
from bridge.protocol.messages import ConnectorStatus
from tests.perf.group_rounds import (
    DirectTasks,
    both,
    commit_all,
    forget_groups,
    mirrored_topic,
    names,
    our_config,
    service_pids,
    spread,
)
from tests.perf.held_memory import resident
from tests.perf.results import write

PARTITIONS, RECORDS, GROUPS = 10, 30_000, 10_000
QUIET_ROUNDS, MOVED_ROUNDS = 5, 4
MOST_MB = 300.0


@pytest.mark.timeout(1800)
def test_memory(stack: LocalStack, source: Cluster, target: Cluster, worker: ConnectWorker) -> None:
    topic = mirrored_topic(
        worker, source, target, partitions=PARTITIONS, records=RECORDS, name="memory-topic"
    )
    groups = names("memory-", GROUPS)
    service = stack.service("memory-service")

    def runs() -> bool:
        return bool(
            httpx.get(f"{service.url}/health", verify=NO_AUTHORITIES).json()["rounds_process"] == "running"
        )

    eventually(runs, 30, what="the rounds process runs", watched=[service.process])
    pids = service_pids(stack, "memory-service")
    rows: list[dict[str, object]] = []

    def take(when: str, status: ConnectorStatus | None) -> float:
        sizes = resident(pids)
        at = {"round": status.rounds, "last_round_seconds": status.last_round_seconds} if status else {}
        rows.append({"when": when, **sizes, **at})
        return sizes["sum"]

    async def commit(lowest: int, highest: int) -> None:
        async with both(source, target) as (a, _):
            await commit_all(a, spread(groups, topic, PARTITIONS, lowest, highest))

    take("before", None)
    asyncio.run(commit(1, RECORDS // 2))
    config = our_config(
        source,
        target,
        service.url,
        groups="memory-.*",
        topics=topic,
        sync_group_offsets_interval_seconds=2,
        refresh_groups_interval_seconds=2,
    )
    with DirectTasks(service.url, "memory", config) as ours:

        def rounds(least: int) -> ConnectorStatus:
            def reached() -> ConnectorStatus | bool:
                status = ours.status()
                return status if status.rounds >= least else False

            status = eventually(reached, 600, what=f"round {least} is over", watched=[service.process])
            assert isinstance(status, ConnectorStatus)
            return status

        first = rounds(1)
        assert (first.groups, first.exact) == (GROUPS, GROUPS * PARTITIONS)
        take("after the first round", first)
        take(f"after {QUIET_ROUNDS} rounds in which nothing moved", rounds(first.rounds + QUIET_ROUNDS))
        last = first
        for number in range(MOVED_ROUNDS):
            step = RECORDS // 2 // MOVED_ROUNDS
            asyncio.run(commit(RECORDS // 2 + number * step, RECORDS // 2 + (number + 1) * step))
            last = rounds(ours.status().rounds + 2)
            take(f"after all have moved {number + 1} time(s)", last)
        assert last.exact == GROUPS * PARTITIONS
    largest = max(float(str(row["sum"])) for row in rows)
    service.stop()
    forget_groups(source, groups)
    forget_groups(target, groups)
    write("memory", ours=largest, other=MOST_MB, unit="MB of RSS", better="less", rows=rows)
