"""`bridge.copy.max.bytes.per.second`, measured at the target's logs: on Spark, over layouts, and where slices idle."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest

from bridge.local import Cluster
from bridge.model.copying import Copied, PipelineState, PipelineStatus
from bridge.model.values import TopicPartition
from bridge.pipeline.layouts.records import read_layouts
from bridge.pipeline.slices.rate_limit import STALL
from tests.integration.copy_flow import CopyFlow
from tests.integration.drivers import driven, until
from tests.support import Record, bounds, eventually, produce
from tests.support.waits import WAIT

LIMIT = 400_000
SECONDS = 10.0
WINDOWS = 4
"""Times that the rate is measured at most, one behind the other: what a machine that stands still holds up in one is
made up for in the next, so it takes two in a row."""
SETTINGS = {"max_rate": LIMIT, "transaction_interval": 0.25, "batch_size": 2048}
"""Some commits, as what is measured is what is committed, and each has an offset of its own; and small batches, as each
is sent whole."""


def backlog(flow: CopyFlow, topics: Sequence[str], records: int) -> None:
    made = [Record(b"%0300d" % number) for number in range(records)]
    for topic in topics:
        produce(flow.source.bootstrap, topic, made, batch_size=4096)


def there(flow: CopyFlow, topics: Sequence[str]) -> tuple[float, int]:
    """Now, and how many offsets the copies have."""
    before = time.monotonic()
    ends = sum(bounds(flow.target.bootstrap, flow.remote(topic))[0][1] for topic in topics)
    return (before + time.monotonic()) / 2, ends


async def records_per_second(flow: CopyFlow, topics: Sequence[str]) -> float:
    first = await asyncio.to_thread(there, flow, topics)
    await asyncio.sleep(SECONDS)  # what is measured is time
    last = await asyncio.to_thread(there, flow, topics)
    return (last[1] - first[1]) / (last[0] - first[0])


async def rates(flow: CopyFlow, topics: Sequence[str], size: float) -> list[float]:
    """Bytes per second, again and again until two in a row are the limit. None is more than a bucket can hold."""
    result: list[float] = []
    while len(result) < WINDOWS and not kept(result):
        result.append(await records_per_second(flow, topics) * size)
    most = 1.05 * LIMIT * (SECONDS + STALL) / SECONDS
    assert max(result) <= most, result
    return result


def kept(rates: Sequence[float]) -> bool:
    """Whether the last two are the limit."""
    return len(rates) >= 2 and all(abs(rate - LIMIT) <= 0.05 * LIMIT for rate in rates[-2:])


def bytes_of_a_record(status: PipelineStatus) -> float:
    """As the limit counts them: with what batches cost."""
    progress = status.progress.values()
    return sum(each.bytes for each in progress) / sum(each.records for each in progress)


async def _over_layouts(flow: CopyFlow, topics: Sequence[str], partitions: Sequence[Copied]) -> None:
    async with driven(flow.spec, partitions[:2]) as pipeline:
        await until(lambda: sum(each.records for each in pipeline.status.progress.values()) > 200, pipeline)
        before = await rates(flow, topics, bytes_of_a_record(pipeline.status))
        layout = pipeline.status.layout
        changed = await asyncio.to_thread(there, flow, topics)
        pipeline.assign(partitions)
        await until(lambda: pipeline.status.layout > layout and len(pipeline.status.progress) == 3, pipeline)
        resumed = await asyncio.to_thread(there, flow, topics)
        size = bytes_of_a_record(pipeline.status)
        after = await rates(flow, topics, size)
        ended = await asyncio.to_thread(there, flow, topics)
        copied, seconds, gap = (ended[1] - changed[1]) * size, ended[0] - changed[0], resumed[0] - changed[0]
        least, most = 0.9 * LIMIT * (seconds - gap), 1.05 * LIMIT * (seconds + STALL)
        said = [[round(each) for each in (*before, *after)], round(least), round(copied), round(most), gap]
        print(
            "bytes per second before and after; least, copied, most over the change of layout; its seconds:",
            said,
        )
        assert kept(before), said
        assert kept(after), said
        assert least <= copied <= most, said


@pytest.mark.soak
def test_slices_on_spark_copy_at_the_limit_before_and_after_a_layout_that_changes(
    source: Cluster, target: Cluster
) -> None:
    flow = CopyFlow(source, target, SETTINGS)
    topics = [flow.topic() for _ in range(3)]
    backlog(flow, topics, 70_000)
    asyncio.run(_over_layouts(flow, topics, flow.partitions()))


@pytest.mark.soak
def test_what_idle_slices_leave_goes_to_the_busy_one(source: Cluster, target: Cluster) -> None:
    flow = CopyFlow(source, target, SETTINGS)
    topics = [flow.topic() for _ in range(4)]
    backlog(flow, topics[:1], 150_000)
    backlog(flow, topics[1:], 1)
    with flow.pipeline(slots=4) as running:

        def shared() -> None:
            newest = read_layouts(flow.state(flow.spec.layout_topic), flow.spec).newest
            assert max(newest.rates, default=0) > 0.9 * LIMIT, newest
            assert sum(newest.rates) <= LIMIT

        eventually(shared, WAIT, what="the busy slice has the share of the others")
        size = bytes_of_a_record(running.status)
        measured = asyncio.run(rates(flow, topics, size))
        print("bytes per second of one slice of four:", [round(each) for each in measured])
        assert kept(measured), measured
    assert running.status.state is PipelineState.STOPPED


def test_a_limited_copy_ends_with_all_that_is_there(source: Cluster, target: Cluster) -> None:
    """And what waits for the limit is not held back: it is committed as always, and a stop does not wait for it."""
    flow = CopyFlow(source, target, {**SETTINGS, "max_rate": 50_000, "transaction_interval": 0.1})
    topic = flow.topic()
    backlog(flow, [topic], 450)
    began = time.monotonic()
    assert flow.copy().state is PipelineState.CAUGHT_UP
    assert time.monotonic() - began > 2.0
    flow.assert_copied()
    flow.assert_runs_true()
    backlog(flow, [topic], 20_000)
    with flow.pipeline() as running:
        eventually(
            lambda: running.status.progress[TopicPartition(topic, 0)].position > 470,
            WAIT,
            what="some are copied",
        )
    assert running.status.state is PipelineState.STOPPED
    assert running.status.progress[TopicPartition(topic, 0)].position < 20_450, (
        "it did not wait for the limit"
    )
