"""A topic that ours copies: its runs, and a group that has read on."""

from __future__ import annotations

from bridge.errors import KafkaFailure, KafkaFault
from bridge.model.copying import Copied
from bridge.model.values import Committed, TopicPartition
from bridge.translation.runs.partition_runs import PartitionRuns
from bridge.translation.runs.runs import Segment
from connectors.base import Summary
from tests.unit.connectors.checkpoint.checkpoint_harness import CheckpointHarness, put
from tests.unit.connectors.fake_clusters import JUNK, FakeCluster, mirrored
from tests.unit.connectors.group_offset.group_offset_harness import GroupOffsetHarness

RUNS = "mm2-offset-runs.A.internal"
ORIGINAL = TopicPartition("orders", 0)
COPY = TopicPartition("A.orders", 0)
UNREACHABLE = KafkaFailure(KafkaFault.UNREACHABLE, "nobody there")


def put_runs(target: FakeCluster, *segments: Segment, topic_id: str = "id-of-A.orders") -> None:
    """Has the runs topic say what is copied."""
    copied = Copied(ORIGINAL, "id-of-orders", "A.orders", topic_id)
    for key, value in PartitionRuns().commit(segments, segments[-1].upstream_end, copied):
        put(target, RUNS, key, value)


def behind(committed: int | Committed = 15) -> tuple[FakeCluster, FakeCluster]:
    """Of 20 records 10 are copied; the group `g` has read on."""
    source, target = mirrored(10)
    source.logs[ORIGINAL].append(10, first=10)
    put_runs(target, Segment(0, 0, JUNK, 10))
    source.group("g", {("orders", 0): committed})
    return source, target


def copy_the_rest(target: FakeCluster) -> None:
    target.logs[COPY].append(10, first=10)
    put_runs(target, Segment(0, 0, JUNK, 20))


async def gone(harness: GroupOffsetHarness | CheckpointHarness) -> Summary:
    """The source goes away; until a round without it has begun after now, and another one after that."""
    harness.source.away = UNREACHABLE
    return await harness.summaries(8)
