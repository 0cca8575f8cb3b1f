"""`readiness`: what is known of 10,000 groups × 10 partitions, kept in the readiness topic and asked for over HTTP.

Tasks are started by the HTTP contract alone, without a worker; the target's copy is made by the benchmark.

- `answers`: p99 of GET /v1/readiness and of a page of 100 groups, asked in turn while rounds run one after the other.
- `quiet`, `tenth`: records and bytes of the topic an hour, at the default interval of 60 s, from those of rounds in
  which nothing, and a tenth of the groups, has moved. Bytes are those of the log, compressed.
- `cold`: the source is killed, and the service started anew; from its start until GET /v1/readiness tells of all
  groups `ready_as_of`. It is bounded by 10 s.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from bridge.local import Broker, Cluster, LocalStack
from tests.perf.ground import DirectTasks, both, commit_all, names, our_config, quantile, spread
from tests.perf.results import write
from tests.support import bounds, create_topic, eventually, numbered, produce, unique

PARTITIONS, RECORDS = 10, 3_000
GROUPS = int(os.environ.get("READINESS_GROUPS", "10000"))
INTERVAL = 6
"""Seconds: longer than what records of tasks are apart at least, so that each round writes one."""
ROUNDS_AN_HOUR = 60
QUIET_SECONDS, MOVES = 60.0, 5
WITHIN = 600.0
ALLOWED = 10.0


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
    async with httpx.AsyncClient(base_url=url, timeout=30) as client:
        while not until():
            began = time.perf_counter()
            (await client.get(path)).raise_for_status()
            took.append((time.perf_counter() - began) * 1000)
            await asyncio.sleep(0.02)
    return took


def _readiness(url: str) -> dict[str, object]:
    answer: dict[str, object] = httpx.get(f"{url}/v1/readiness", timeout=30).raise_for_status().json()
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

            found = await asyncio.gather(
                asked(service.url, "/v1/readiness", until), asked(service.url, "/v1/groups?limit=100", until)
            )
            return found[0], found[1]

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
