"""`checkpoint_round`: 1,000 and 10,000 groups × 10 partitions, our checkpoint connector against stock's: one after the
other in the same worker, by the same JSON but for the class, on the same clusters, topic and syncs, with groups of the
same offsets under other names.

One observer follows the checkpoints topic, which both write through Connect:

- `all_new`: from the end of the commits on A until every partition of every group has its checkpoint there; the
  connector runs before, with no group to look at. Finding the groups is in it (refresh.groups.interval.seconds).
  `ratio` is made of this, at 10,000 groups.
- `tenth_moved`: a tenth of the groups is committed anew, at a random moment of the interval; from the end of these
  commits until all of their partitions have a checkpoint of the new offset. Nothing is subtracted; the interval that
  either side still waits is in it.

Stock is not waited for longer than WITHIN, and `missing` says what it lacked then; its figure is then a lower bound. At
10,000 groups it lacks most: the one sensor that its metrics share (B40) makes each written checkpoint cost as much as
there are groups' partitions, in the producer's own thread.

Ours answers by records and syncs together, so the answers of both sides are beside each other: `reread` is how many
records a consumer would read twice from the last checkpoints, on average for a partition (offsets are the
same on both sides here).
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from dataclasses import dataclass, field

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as LibTopicPartition

from bridge.local import Cluster, LocalStack, eventually
from bridge.mm2.records import Checkpoint
from tests.perf.group_rounds import (
    Groups,
    both,
    commit_all,
    forget_groups,
    mirrored_topic,
    names,
    on_target,
    our_checkpoints,
    spread,
)
from tests.perf.results import write
from tests.support import admin, bounds, connector, stock_config

PARTITIONS, RECORDS = 10, 30_000
SIZES = (1_000, 10_000)
MOVES = 3
EMIT_SECONDS, REFRESH_SECONDS = 1, 5
WITHIN = 240.0

OLD, NEW = (5_000, 10_000), (27_000, 30_000)
"""Where groups stand first and where they move to: not before the oldest offset sync, and so far ahead that stock's
answer rises, rounded as it is."""


@dataclass
class Rounds:
    """Seconds that one side was seen to take."""

    all_new: float = 0.0
    tenth_moved: list[float] = field(default_factory=list)
    reread: float = 0.0
    missing: int = 0

    def row(self, side: str, groups: int) -> dict[str, object]:
        return {
            "side": side,
            "groups": groups,
            "all_new": round(self.all_new, 3),
            "missing": self.missing,
            "tenth_moved": round(statistics.median(self.tenth_moved), 3) if self.tenth_moved else None,
            "reread": round(self.reread, 1),
            "tenths": [round(value, 3) for value in self.tenth_moved],
        }


class Observer:
    """Follows the checkpoints topic from its end as of now."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "nobody",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 20,
            }
        )
        _, end = bounds(bootstrap, topic)[0]
        self._consumer.assign([LibTopicPartition(topic, 0, end)])

    def until(self, groups: Groups) -> tuple[float, float, int]:
        """Until every partition of `groups` (of the target) has a checkpoint of its upstream offset: the clock then,
        the mean of what is read twice from there, and how many are missing after WITHIN."""
        waiting = {(group, place): at for group, offsets in groups.items() for place, at in offsets.items()}
        total, again = len(waiting), 0
        deadline = time.monotonic() + WITHIN
        while waiting and time.monotonic() < deadline:
            for message in self._consumer.consume(5_000, 0.05):
                assert message.error() is None, message.error()
                key, value = message.key(), message.value()
                assert isinstance(key, bytes)
                assert isinstance(value, bytes)
                decoded = Checkpoint.decode(key, value)
                if waiting.get((decoded.group, decoded.topic_partition)) == decoded.upstream_offset:
                    del waiting[decoded.group, decoded.topic_partition]
                    again += decoded.upstream_offset - decoded.downstream_offset
        return time.monotonic(), again / (total - len(waiting)), len(waiting)

    def close(self) -> None:
        self._consumer.close()


def measure(source: Cluster, target: Cluster, topic: str, prefix: str, size: int) -> Rounds:
    """With the connector running that looks at groups of this prefix."""
    rounds, dice = Rounds(), random.Random(1)
    observer = Observer(target.bootstrap, f"{source.name}.checkpoints.internal")

    def commit(groups: Groups) -> None:
        async def go() -> None:
            async with both(source, target) as (a, _):
                await commit_all(a, groups)

        asyncio.run(go())

    groups = spread(names(prefix, size), topic, PARTITIONS, *OLD)
    commit(groups)
    began = time.monotonic()
    ended, rounds.reread, rounds.missing = observer.until(on_target(groups, source.name))
    rounds.all_new = ended - began
    for tenth in range(0 if rounds.missing else MOVES):
        part = list(groups)[tenth * size // 10 : (tenth + 1) * size // 10]
        moved = spread(part, topic, PARTITIONS, *NEW)
        time.sleep(dice.uniform(0, EMIT_SECONDS))
        commit(moved)
        began = time.monotonic()
        ended, rounds.reread, missing = observer.until(on_target(moved, source.name))
        assert not missing, f"{missing} missing after {WITHIN:g} s"
        rounds.tenth_moved.append(ended - began)
    observer.close()
    forget_groups(source, list(groups))
    return rounds


@pytest.mark.timeout(7200)
def test_checkpoint_round(stack: LocalStack, source: Cluster, target: Cluster) -> None:
    # Connect keeps every record of a poll until it is written, and stock hands out all checkpoints in one.
    worker = stack.worker("checkpoints-worker", heap="2g")
    topic = mirrored_topic(
        worker, source, target, partitions=PARTITIONS, records=RECORDS, name="checkpoints-topic"
    )
    service = stack.service("checkpoints-service").url
    rows: list[dict[str, object]] = []
    seconds: dict[str, float] = {}
    common: dict[str, object] = {
        "topics": topic,
        "refresh_groups_interval_seconds": REFRESH_SECONDS,
        "emit_checkpoints_interval_seconds": EMIT_SECONDS,
    }
    internal = f"{source.name}.checkpoints.internal"

    def made() -> bool:
        return internal in admin(target.bootstrap).list_topics(timeout=10).topics

    for size in SIZES:
        for side in ("ours", "stock"):
            prefix = f"{side}-{size}-"
            if side == "ours":
                config = our_checkpoints(source, target, service, groups=f"{prefix}.*", **common)
            else:
                config = stock_config("Checkpoint", source, target, groups=f"{prefix}.*", **common)
            with connector(worker, config):
                eventually(made, 60, what=f"{internal} is there", watched=[worker.process])
                rounds = measure(source, target, topic, prefix, size)
            rows.append(rounds.row(side, size))
            print(rows[-1])
            assert side == "stock" or not rounds.missing, rows
            seconds[side] = rounds.all_new
    write(
        "checkpoint_round",
        ours=seconds["ours"],
        other=seconds["stock"],
        unit="s from the commits on A until 10,000 groups have their checkpoints",
        better="less",
        rows=rows,
    )
