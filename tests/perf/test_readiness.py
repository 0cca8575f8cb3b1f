"""`readiness`: what is known of 10,000 groups × 10 partitions, kept in the readiness topic and asked for over HTTP.

Tasks are started by the HTTP contract alone, without a worker; the target's copy is made by the benchmark.

- `answers`: p99 of GET /v1/readiness and of a page of 100 groups, asked in turn while rounds run one after the other.
- `quiet`, `tenth`: records and bytes of the topic an hour, at the default interval of 60 s, from those of rounds in
  which nothing, and a tenth of the groups, has moved. Bytes are those of the log, compressed.
- `failover_all`, a result of its own: 1,000 groups × 10 partitions are committed anew on A, then moved by one command;
  from its start until every group stands on B where its offsets translate to, frozen. Beside it, three times, how long
  stock takes from the same commits until every group stands on B, at its interval (60 s by default). Stock has no
  command: who fails over waits for its interval, and then for its round.
- `cold`: the source is killed, and the service started anew; from its start until GET /v1/readiness tells of all
  groups `ready_as_of`. It is bounded by 10 s.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from bridge.local import NO_AUTHORITIES, Broker, Cluster, ConnectWorker, LocalStack
from tests.perf.group_rounds import (
    DirectTasks,
    Groups,
    both,
    commit_all,
    forget_groups,
    mirrored_topic,
    names,
    on_target,
    our_config,
    quantile,
    spread,
    stock_checkpoints,
    until_risen,
)
from tests.perf.results import write
from tests.support import bounds, connector, create_topic, eventually, numbered, produce, unique

PARTITIONS, RECORDS = 10, 3_000
GROUPS = int(os.environ.get("READINESS_GROUPS", "10000"))
INTERVAL = 6
"""Seconds: longer than what records of tasks are apart at least, so that each round writes one."""
ROUNDS_AN_HOUR = 60
QUIET_SECONDS, MOVES = 60.0, 5
WITHIN = 600.0
ALLOWED = 10.0
FAILING_OVER = int(os.environ.get("READINESS_FAILOVER_GROUPS", "1000"))
STOCK_INTERVAL = int(os.environ.get("READINESS_STOCK_SECONDS", "60"))
"""Of its group offset sync, and of its checkpoints; its default."""
STOCK_TIMES = 3
COPIED, OLD, NEW = 30_000, (5_000, 10_000), (27_000, 30_000)
"""Records of a partition that groups fail over on; where they stand first, and where they move to: not before the
oldest offset sync, where stock would have no answer, and so far ahead that its answer rises, rounded as it is."""


@pytest.fixture
def origin(stack: LocalStack) -> Broker:
    return stack.broker("readiness-origin")


def copied(source: Cluster, target: Cluster) -> str:
    topic = create_topic(source.bootstrap, unique("readiness"), PARTITIONS)
    copy = create_topic(target.bootstrap, f"{source.name}.{topic}", PARTITIONS)
    for partition in range(PARTITIONS):
        records = numbered(RECORDS, timestamp=1_700_000_000_000, partition=partition)
        for cluster, name in ((source, topic), (target, copy)):
            produce(cluster.bootstrap, name, records)
    return topic


class Topic:
    """How much has been written to the readiness topic."""

    def __init__(self, cluster: Cluster, directory: Path, name: str) -> None:
        self._bootstrap, self._directory, self._name = cluster.bootstrap, directory, name

    def size(self) -> tuple[int, int]:
        """Records and bytes so far."""
        _, end = bounds(self._bootstrap, self._name)[0]
        logs = self._directory.rglob(f"{self._name}-0/*.log")
        return end, sum(log.stat().st_size for log in logs)


async def asked(url: str, path: str, until: Callable[[], bool]) -> list[float]:
    """Milliseconds of each answer."""
    took = []
    async with httpx.AsyncClient(base_url=url, timeout=30, verify=NO_AUTHORITIES) as client:
        while not until():
            began = time.perf_counter()
            (await client.get(path)).raise_for_status()
            took.append((time.perf_counter() - began) * 1000)
            await asyncio.sleep(0.02)
    return took


def _readiness(url: str) -> dict[str, object]:
    answer: dict[str, object] = (
        httpx.get(f"{url}/v1/readiness", timeout=30, verify=NO_AUTHORITIES).raise_for_status().json()
    )
    return answer


def _flow(url: str) -> dict[str, object]:
    flows = _readiness(url)["flows"]
    assert isinstance(flows, list)
    return dict(flows[0]) if flows else {"groups": 0}


@pytest.mark.timeout(3600)
def test_readiness(stack: LocalStack, origin: Broker, target: Cluster) -> None:
    service = stack.service("readiness-service")
    topic, name = copied(origin, target), unique("readiness")
    settings: dict[str, object] = {
        "groups": "ready-.*",
        "topics": topic,
        "sync_group_offsets_interval_seconds": INTERVAL,
        "refresh_groups_interval_seconds": INTERVAL,
    }
    config = our_config(origin, target, service.url, **settings)
    groups = spread(names("ready-", GROUPS), topic, PARTITIONS, 100, RECORDS // 2)
    kept = Topic(target, stack.directory, f"mm2-group-readiness.{origin.name}.internal")
    rows: list[dict[str, object]] = []

    def ready(count: int = GROUPS) -> None:
        flow = _flow(service.url)
        assert (flow["groups"], flow["readiness"]) == (count, "ready"), flow

    def settled(tasks: DirectTasks) -> None:
        rounds = tasks.status().rounds
        eventually(lambda: tasks.status().rounds > rounds + 1, WITHIN, what="another round")

    async def commit(some: dict[str, object] | None = None, shift: int = 0) -> None:
        chosen = groups if some is None else {group: groups[group] for group in some}
        moved = {
            group: {place: at + shift for place, at in offsets.items()} for group, offsets in chosen.items()
        }
        async with both(origin, target) as (source, _):
            await commit_all(source, moved)

    asyncio.run(commit())
    began = time.monotonic()
    with DirectTasks(service.url, name, config) as tasks:
        eventually(ready, WITHIN, what="all groups are ready")
        first = round(time.monotonic() - began, 2)
        settled(tasks)
        rows.append({"what": "first", "seconds": first, "bytes": kept.size()[1]})

        async def answers() -> tuple[list[float], list[float]]:
            end = time.monotonic() + 30

            def until() -> bool:
                return time.monotonic() > end

            result = await asyncio.gather(
                asked(service.url, "/v1/readiness", until), asked(service.url, "/v1/groups?limit=100", until)
            )
            return result[0], result[1]

        whole, page = asyncio.run(answers())
        rows.append(
            {
                "what": "answers",
                "readiness_p99_ms": round(quantile(whole, 0.99), 1),
                "readiness_median_ms": round(quantile(whole, 0.5), 1),
                "page_p99_ms": round(quantile(page, 0.99), 1),
                "page_median_ms": round(quantile(page, 0.5), 1),
                "round_seconds": tasks.status().last_round_seconds,
            }
        )
        before, rounds = kept.size(), tasks.status().rounds
        time.sleep(QUIET_SECONDS)
        rows.append(_an_hour("quiet", before, kept.size(), tasks.status().rounds - rounds))
        before = kept.size()
        for number in range(MOVES):
            tenth = dict.fromkeys(list(groups)[number * GROUPS // 10 : (number + 1) * GROUPS // 10])
            asyncio.run(commit(tenth, 1_000))
            settled(tasks)
        rows.append(_an_hour("tenth", before, kept.size(), MOVES))
        eventually(ready, WITHIN, what="all groups are ready")
        settled(tasks)

    service.process.kill()
    origin.kill()
    began = time.monotonic()
    service.start()
    with DirectTasks(service.url, name, config):

        def as_of() -> None:
            flow = _flow(service.url)
            assert (flow["groups"], flow["ready_as_of"]) == (GROUPS, GROUPS), flow

        eventually(as_of, WITHIN, what="all groups are ready as of a time")
        cold = time.monotonic() - began
    rows.append({"what": "cold", "seconds": round(cold, 2), "groups": GROUPS, "partitions": PARTITIONS})
    write(
        "readiness",
        ours=cold,
        other=ALLOWED,
        unit=f"s from a cold start without the source until {GROUPS:,} groups have their answer",
        better="less",
        rows=rows,
    )


def _an_hour(what: str, before: tuple[int, int], after: tuple[int, int], rounds: int) -> dict[str, object]:
    records, size = ((b - a) / rounds * ROUNDS_AN_HOUR for a, b in zip(before, after, strict=True))
    return {"what": what, "records_an_hour": round(records), "bytes_an_hour": round(size), "rounds": rounds}


@pytest.mark.timeout(3600)
def test_failover_all(stack: LocalStack, source: Cluster, target: Cluster, worker: ConnectWorker) -> None:
    topic = mirrored_topic(worker, source, target, partitions=PARTITIONS, records=COPIED, name="failing-over")
    took = _moved(stack, source, target, topic)
    stocks = [_stock_synced(worker, source, target, topic, number) for number in range(STOCK_TIMES)]
    other = statistics.median(stocks)
    rows = [
        {"side": "ours", "groups": FAILING_OVER, "partitions": PARTITIONS, **took},
        {
            "side": "stock",
            "groups": FAILING_OVER,
            "partitions": PARTITIONS,
            "interval": STOCK_INTERVAL,
            "seconds": [round(each, 2) for each in stocks],
        },
    ]
    write(
        "failover_all",
        ours=took["seconds"],
        other=other,
        unit=f"s until {FAILING_OVER:,} groups × {PARTITIONS} stand on B, and are frozen",
        better="less",
        rows=rows,
    )


def _moved(stack: LocalStack, source: Cluster, target: Cluster, topic: str) -> dict[str, float]:
    """Seconds of `failover --all`, and until it was verified on B."""
    service, name = stack.service("failover-service"), unique("failing-over")
    settings = {"groups": "moving-.*", "topics": topic, "refresh_groups_interval_seconds": INTERVAL}
    config = our_config(source, target, service.url, **settings)
    groups = spread(names("moving-", FAILING_OVER), topic, PARTITIONS, *OLD)
    moved = spread(groups, topic, PARTITIONS, *NEW)
    bridge = f"{Path(sys.executable).parent}/mirror-bridge"
    flow = f"{source.name}-to-{target.name}"
    command = [bridge, "failover", "--all", "--flow", flow, "--url", service.url, "--output", "json"]

    def ready() -> None:
        result = _flow(service.url)
        assert (result["groups"], result["readiness"]) == (FAILING_OVER, "ready"), result

    asyncio.run(_commit(source, target, groups))
    with DirectTasks(service.url, name, config):
        eventually(ready, WITHIN, what="all groups are ready")
        asyncio.run(_commit(source, target, moved))
        began = time.monotonic()
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = time.monotonic() - began
        assert ended.returncode == 0, ended.stderr
        assert len(json.loads(ended.stdout)["groups"]) == FAILING_OVER
        # Offsets are the same on both sides of this topic.
        asyncio.run(_until_at(source, target, moved))
        verified = time.monotonic() - began
        assert _flow(service.url)["moved"] == FAILING_OVER
    for cluster in (source, target):
        forget_groups(cluster, list(groups))
    return {"command": round(seconds, 2), "seconds": round(verified, 2)}


def _stock_synced(worker: ConnectWorker, source: Cluster, target: Cluster, topic: str, number: int) -> float:
    """Seconds from commits on A until stock has all of them on B; they are made at another moment of its interval
    each time."""
    prefix = f"stock-{number}-"
    settings = {
        "groups": f"{prefix}.*",
        "topics": topic,
        "tasks_max": 1,
        "refresh_groups_interval_seconds": INTERVAL,
        "sync_group_offsets_interval_seconds": STOCK_INTERVAL,
        "emit_checkpoints_interval_seconds": STOCK_INTERVAL,
    }
    groups = spread(names(prefix, FAILING_OVER), topic, PARTITIONS, *OLD)
    asyncio.run(_commit(source, target, groups))
    with connector(worker, stock_checkpoints(source, target, **settings)):
        nowhere: Groups = {group: dict.fromkeys(offsets, -1) for group, offsets in groups.items()}
        asyncio.run(_until_at(source, target, nowhere))
        time.sleep(STOCK_INTERVAL * (number + 0.5) / STOCK_TIMES)
        asyncio.run(_commit(source, target, spread(groups, topic, PARTITIONS, *NEW)))
        began = time.monotonic()
        asyncio.run(
            _until_at(source, target, {group: dict.fromkeys(at, OLD[1]) for group, at in groups.items()})
        )
        seconds = time.monotonic() - began
    for cluster in (source, target):
        forget_groups(cluster, list(groups))
    return seconds


async def _commit(source: Cluster, target: Cluster, groups: Groups) -> None:
    async with both(source, target) as (a, _):
        await commit_all(a, groups)


async def _until_at(source: Cluster, target: Cluster, groups: Groups) -> None:
    """Until all of them stand on B at these offsets, or above."""
    floors = {group: {place: at - 1 for place, at in offsets.items()} for group, offsets in groups.items()}
    async with both(source, target) as (_, b):
        await until_risen(b, on_target(floors, source.name), within=WITHIN)
