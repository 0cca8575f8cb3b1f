"""The pipeline without Spark, between two real brokers: what arrives, and what the runs say of it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from concurrent.futures import Future

import pytest

from bridge.local import Cluster
from bridge.model.copying import PipelineState
from bridge.model.values import TopicPartition
from bridge.pipeline.layouts.slots import LEFT_ID, Slice
from tests.integration.copy_flow import CopyFlow, ThreadJobs, gaps_of
from tests.support import delete_records, produce, produce_transaction
from tests.support.records import varied


@pytest.fixture
def flow(source: Cluster, target: Cluster) -> CopyFlow:
    return CopyFlow(source, target)


def test_all_that_is_there_is_copied_bit_for_bit(flow: CopyFlow) -> None:
    topic = flow.topic()
    for at, codec in enumerate(["none", "gzip", "snappy", "lz4", "zstd"]):
        produce(flow.source.bootstrap, topic, varied(200, 200 * at), compression=codec)
    assert flow.copy().state is PipelineState.CAUGHT_UP
    flow.assert_copied()
    flow.assert_runs_true()


def test_committed_transactions_are_copied_and_aborted_ones_are_not(flow: CopyFlow) -> None:
    topic = flow.topic()
    for at in range(6):
        produce_transaction(flow.source.bootstrap, topic, varied(50, 50 * at), commit=at % 2 == 0)
    produce(flow.source.bootstrap, topic, varied(20, 300))
    assert flow.copy().state is PipelineState.CAUGHT_UP
    flow.assert_copied()
    flow.assert_runs_true()


def test_a_second_pipeline_goes_on_where_the_first_ended(flow: CopyFlow) -> None:
    topics = [flow.topic(3), flow.topic(2)]
    for topic in topics:
        produce(flow.source.bootstrap, topic, varied(100))
    flow.copy(slots=3)
    for topic in topics:
        produce(flow.source.bootstrap, topic, varied(100, 100))
    flow.copy(slots=1)
    assert flow.copy(slots=2).state is PipelineState.CAUGHT_UP
    flow.assert_copied()
    flow.assert_runs_true()


def test_it_follows_and_takes_in_new_topics(flow: CopyFlow) -> None:
    first = flow.topic()
    with flow.pipeline() as running:
        produce(flow.source.bootstrap, first, varied(100))
        running.wait_position({TopicPartition(first, 0): 100})
        second = flow.topic()
        running.assign(flow.partitions())
        produce(flow.source.bootstrap, second, varied(50))
        produce(flow.source.bootstrap, first, varied(30, 100))
        running.wait_position({TopicPartition(first, 0): 130, TopicPartition(second, 0): 50})
        assert running.status.state is PipelineState.COPYING
    stopped = running.status
    assert stopped.state is PipelineState.STOPPED
    flow.assert_copied()
    flow.assert_runs_true()


class LeavingJobs(ThreadJobs):
    """Slices that leave a transactional id when they begin, and then the next one."""

    def __init__(self, times: int) -> None:
        super().__init__(1)
        self.times, self.starts = times, list[float]()

    def start(self, slices: Sequence[Slice]) -> Future[list[str]]:
        self.starts.append(time.monotonic())
        if len(self.starts) > self.times:
            return super().start(slices)
        left: Future[list[str]] = Future()
        left.set_result([LEFT_ID])
        return left


def test_layouts_of_slices_that_leave_one_id_after_the_other_come_with_pauses(flow: CopyFlow) -> None:
    produce(flow.source.bootstrap, flow.topic(), varied(10))
    jobs = LeavingJobs(3)
    with flow.pipeline(jobs=jobs, until_caught_up=True) as running:
        assert running.ended().restarts == 0
    pauses = [after - before for before, after in itertools.pairwise(jobs.starts)]
    assert all(pause > at_least for pause, at_least in zip(pauses, (0.3, 0.6, 1.2), strict=True))
    flow.assert_copied()


def test_what_retention_took_first_is_in_the_ledger(flow: CopyFlow) -> None:
    """B20: stock goes on at the log's start, and nobody learns what is missing."""
    topic = flow.topic()
    produce(flow.source.bootstrap, topic, varied(100))
    flow.copy()
    produce(flow.source.bootstrap, topic, varied(100, 100))
    delete_records(flow.source.bootstrap, topic, {0: 150})
    status = flow.copy()
    assert gaps_of(status) == [("truncated", 100, 150)]
    assert [each.content for each in flow.copies(topic)] == [
        each.content for each in (*varied(100), *varied(100, 100)[50:])
    ]
