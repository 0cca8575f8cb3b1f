"""`sync_round`: 1,000 and 10,000 groups × 10 partitions, ours against stock MirrorCheckpointConnector that writes group
offsets (sync.group.offsets.enabled): one after the other in the same worker, on the same clusters and topic, at the
same intervals, with groups of the same offsets under other names.

Ours runs as an operator runs it: the connector JSON is PUT to the worker, the shim's task polls `mirror-bridge serve`.
Of either side one observer asks the target for committed offsets (batched OffsetFetch) until all have risen:

- `all_new`: from the end of the commits on A until every partition of every group stands on B; the connector runs
  before, with no group to sync. Finding the groups is in it (refresh.groups.interval.seconds).
- `tenth_moved`: a tenth of the groups is committed anew, at a random moment of the interval; from the end of these
  commits until all of them have risen on B. `ratio` is made of this, at 10,000 groups: the median of stock's over the
  median of ours. Nothing is subtracted; the interval that either side still waits is in it.
- `one_moved`: the same with a single group while nothing else moves.

What each side says of itself is beside it. Ours: `last_round_seconds` of the rounds meanwhile, and of rounds in which
nothing moved. Stock: the durations its scheduler logs of refreshing idle groups and of syncing them (which does not
wait for the commits it sends), and the poll cycle of emitting checkpoints less the emit interval; a round of stock is
one of each, the longest of each while tenths moved and the median of each while nothing moved.
"""

from __future__ import annotations

import asyncio
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import httpx
import pytest

from bridge.kafka.cluster import KafkaCluster
from bridge.local import NO_AUTHORITIES, Cluster, ConnectWorker, LocalStack
from bridge.model.values import TopicPartition
from bridge.protocol.messages import ConnectorStatus
from tests.perf.group_rounds import (
    Groups,
    both,
    commit_all,
    forget_groups,
    mirrored_topic,
    names,
    on_target,
    our_config,
    spread,
    stock_checkpoints,
    until_risen,
)
from tests.perf.results import write
from tests.perf.stock_log import Checkpoints, SchedulerLog
from tests.support import connector

PARTITIONS, RECORDS = 10, 30_000
SIZES = (1_000, 10_000)
MOVES, PROBES = 5, 3
SYNC_SECONDS, REFRESH_SECONDS = 1, 5
QUIET_SECONDS = 20.0
WITHIN = 400.0

OLD, NEW = (5_000, 10_000), (27_000, 30_000)
"""Where groups stand first and where they move to. Not before the oldest offset sync: stock would have no answer there;
and then so far ahead that its answer rises, rounded as it is."""


PARTS = ("emit", "refresh", "sync")
"""What a round of stock is made of."""


@dataclass
class Rounds:
    """What one side was seen to take, in seconds, and what it says of itself."""

    commits: float = 0.0
    all_new: float = 0.0
    tenth_moved: list[float] = field(default_factory=list)
    one_moved: list[float] = field(default_factory=list)
    says_of_tenth: list[float] = field(default_factory=list)
    says_of_nothing: list[float] = field(default_factory=list)
    says: dict[str, float] = field(default_factory=dict)

    def row(self, side: str, groups: int) -> dict[str, object]:
        def median(values: list[float]) -> float | None:
            return round(statistics.median(values), 3) if values else None

        return {
            "side": side,
            "groups": groups,
            "commits_on_a": round(self.commits, 3),
            "all_new": round(self.all_new, 3),
            "tenth_moved": median(self.tenth_moved),
            "one_moved": median(self.one_moved),
            "says_of_tenth_moved": median(self.says_of_tenth),
            "says_of_nothing_moved": median(self.says_of_nothing),
            **{name: round(value, 3) for name, value in self.says.items()},
            "tenths": [round(value, 3) for value in self.tenth_moved],
        }


class Bench:
    """One size: the steps that are the same for either side."""

    def __init__(self, source: KafkaCluster, target: KafkaCluster, alias: str, topic: str) -> None:
        self.source, self.target, self.alias, self.topic = source, target, alias, topic
        self._dice = random.Random(1)

    async def all_new(self, groups: Groups, rounds: Rounds) -> None:
        rounds.commits = await commit_all(self.source, groups)
        began = time.monotonic()
        nowhere: Groups = {group: dict.fromkeys(offsets, -1) for group, offsets in groups.items()}
        risen = await until_risen(self.target, on_target(nowhere, self.alias), within=WITHIN)
        rounds.all_new = risen - began

    async def moved(self, groups: Groups) -> float:
        stood = await self._stood(list(groups))
        await asyncio.sleep(self._dice.uniform(0, SYNC_SECONDS))
        await commit_all(self.source, spread(groups, self.topic, PARTITIONS, *NEW))
        began = time.monotonic()
        return await until_risen(self.target, stood, within=WITHIN) - began

    async def _stood(self, groups: list[str]) -> Groups:
        result = await self.target.committed(groups)
        stood: dict[str, dict[TopicPartition, int]] = {}
        for group, offsets in result.items():
            assert isinstance(offsets, Mapping), offsets
            assert len(offsets) == PARTITIONS, group
            stood[group] = {place: committed.offset for place, committed in offsets.items()}
        return stood


def parts(groups: Groups, tenth: int) -> Groups:
    size = len(groups) // 10
    return dict(list(groups.items())[tenth * size : (tenth + 1) * size])


async def collecting(status: Callable[[], ConnectorStatus], seconds_of: dict[int, float]) -> None:
    """The seconds of every round by its number, until cancelled."""
    while True:
        now = status()
        if now.last_round_seconds is not None:
            seconds_of[now.rounds] = now.last_round_seconds
        await asyncio.sleep(0.1)


async def ours(bench: Bench, groups: Groups, status: Callable[[], ConnectorStatus]) -> Rounds:
    rounds = Rounds()
    collected: dict[int, float] = {}
    watching = asyncio.create_task(collecting(status, collected))
    await bench.all_new(groups, rounds)
    await asyncio.sleep(REFRESH_SECONDS)
    rounds.says["says_of_all_new"] = max(collected.values())
    for tenth in range(MOVES):
        before = status().rounds
        rounds.tenth_moved.append(await bench.moved(parts(groups, tenth)))
        await asyncio.sleep(2 * SYNC_SECONDS)
        rounds.says_of_tenth.append(max(collected[number] for number in collected if number > before))
    quiet = status().rounds + 1
    await asyncio.sleep(QUIET_SECONDS)
    rounds.says_of_nothing = [collected[number] for number in collected if number > quiet]
    for number in range(PROBES):
        (name,) = list(parts(groups, 9))[number : number + 1]
        rounds.one_moved.append(await bench.moved({name: groups[name]}))
    watching.cancel()
    last = status()
    assert last.exact == last.groups * PARTITIONS, last
    return rounds


async def stock(
    bench: Bench, groups: Groups, log: SchedulerLog, checkpoints: Callable[[], Checkpoints]
) -> Rounds:
    rounds = Rounds()
    await bench.all_new(groups, rounds)
    await asyncio.sleep(REFRESH_SECONDS)
    log.take()
    beacon, falling = list(groups)[-1], iter(range(OLD[0] - 1, 0, -1))
    mark, beating = checkpoints(), asyncio.create_task(beat(bench, beacon, falling))
    for tenth in range(MOVES):
        rounds.tenth_moved.append(await bench.moved(parts(groups, tenth)))
    counts = {"emit": emitted(mark), **log.take()}
    if all(counts[name] for name in PARTS):
        rounds.says_of_tenth = [sum(max(counts[name]) for name in PARTS)]
    mark, counts = checkpoints(), {name: [] for name in counts}
    began = time.monotonic()
    while min(map(len, counts.values())) < 3 and time.monotonic() - began < WITHIN:
        await asyncio.sleep(QUIET_SECONDS / 4)
        for name, took in log.take().items():
            counts[name] += took
        counts["emit"] = emitted(mark)
    beating.cancel()
    rounds.says = {f"says_{name}": statistics.median(took) for name, took in counts.items() if took}
    rounds.says_of_nothing = [sum(rounds.says.get(f"says_{name}", math.nan) for name in PARTS)]
    for number in range(PROBES):
        (name,) = list(parts(groups, 9))[number : number + 1]
        rounds.one_moved.append(await bench.moved({name: groups[name]}))
    return rounds


def emitted(mark: Checkpoints) -> list[float]:
    """How long stock took to read and translate every group, each time."""
    return [cycle - SYNC_SECONDS for cycle in mark.cycles()]


async def beat(bench: Bench, group: str, offsets: Iterator[int]) -> None:
    """Moves one partition of one group back all the time: stock makes a checkpoint of it in every pass."""
    for offset in offsets:
        await commit_all(bench.source, {group: {TopicPartition(bench.topic, 0): offset}})
        await asyncio.sleep(0.5)


@pytest.mark.timeout(7200)
def test_sync_round(stack: LocalStack, source: Cluster, target: Cluster, worker: ConnectWorker) -> None:
    topic = mirrored_topic(
        worker, source, target, partitions=PARTITIONS, records=RECORDS, name="rounds-topic"
    )
    service = stack.service().url
    rows: list[dict[str, object]] = []
    medians: dict[str, float] = {}
    common: dict[str, object] = {
        "topics": topic,
        "tasks_max": 1,
        "refresh_groups_interval_seconds": REFRESH_SECONDS,
        "sync_group_offsets_interval_seconds": SYNC_SECONDS,
        "emit_checkpoints_interval_seconds": SYNC_SECONDS,
    }

    async def measure(size: int, side: str) -> Rounds:
        prefix = f"{side}-{size}-"
        groups = spread(names(prefix, size), topic, PARTITIONS, *OLD)
        async with both(source, target) as (a, b):
            bench = Bench(a, b, source.name, topic)
            if side == "ours":
                config = our_config(source, target, service, groups=f"{prefix}.*", **common)
                del config["emit.checkpoints.interval.seconds"]
                with (
                    connector(worker, config) as name,
                    httpx.Client(base_url=service, verify=NO_AUTHORITIES) as http,
                ):

                    def status() -> ConnectorStatus:
                        answer = http.get(f"/v1/connectors/{name}/status").raise_for_status()
                        return ConnectorStatus.model_validate_json(answer.content)

                    worker.rest.wait_running(name, tasks=1)
                    rounds = await ours(bench, groups, status)
            else:
                config = stock_checkpoints(source, target, groups=f"{prefix}.*", **common)
                log = SchedulerLog(worker.process.log)
                with connector(worker, config):

                    def checkpoints() -> Checkpoints:
                        internal = f"{source.name}.checkpoints.internal"
                        return Checkpoints(target.bootstrap, internal, list(groups)[-1])

                    rounds = await stock(bench, groups, log, checkpoints)
        for cluster in (source, target):
            forget_groups(cluster, list(groups))
        return rounds

    for size in SIZES:
        for side in ("ours", "stock"):
            rounds = asyncio.run(measure(size, side))
            rows.append(rounds.row(side, size))
            print(rows[-1])
            medians[side] = statistics.median(rounds.tenth_moved)
    write(
        "sync_round",
        ours=medians["ours"],
        other=medians["stock"],
        unit="s from the commits on A until a tenth of 10,000 groups stands on B",
        better="less",
        rows=rows,
    )
