"""Logs that are cut, deleted and made again, on either side: seen before anything is committed, in the ledger, and no
answer of the runs is ever too high (promise R7)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from bridge.kafka.consumer.broker_fetcher import BrokerFetcher
from bridge.local import Cluster, eventually
from bridge.model.copying import PipelineState
from bridge.model.values import TopicPartition
from tests.integration.copy_flow import CopyFlow, InProcess, fetch_by_name, gaps_of, ledger
from tests.support import (
    create_topic,
    delete_records,
    delete_topic,
    numbered,
    produce,
)
from tests.support.forms import mostly_long
from tests.support.records import FLUSH_SECONDS, open_transaction, produce_transaction, values
from tests.support.waits import WAIT


@pytest.fixture
def flow(source: Cluster, target: Cluster) -> CopyFlow:
    return CopyFlow(source, target)


class Gate:
    """Holds fetches back while it is closed, so that a topic can change between two of them."""

    def __init__(self) -> None:
        self._opened, self._held = threading.Event(), threading.Event()
        self.open = self._opened.set
        self.open()

    async def passed(self) -> None:
        if not self._opened.is_set():
            self._held.set()
            await asyncio.to_thread(self._opened.wait, 20.0)

    def close(self) -> None:
        """Done when a fetch is held back."""
        self._held.clear()
        self._opened.clear()
        assert self._held.wait(60.0)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    gate, real = Gate(), BrokerFetcher.ready

    async def ready(broker: BrokerFetcher, room: int) -> bool:
        is_ready = await real(broker, room)
        if is_ready:
            await gate.passed()
        return is_ready

    monkeypatch.setattr(BrokerFetcher, "ready", ready)
    return gate


@pytest.fixture(params=mostly_long(["by id", "by name"]))
def fetches(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "by name":
        fetch_by_name(monkeypatch)
    return str(request.param)


def made_again(flow: CopyFlow, topic: str, records: int) -> None:
    delete_topic(flow.source.bootstrap, topic)
    create_topic(flow.source.bootstrap, topic)
    produce(flow.source.bootstrap, topic, numbered(records, start=1000))


def wait_copies(flow: CopyFlow, running: InProcess, topic: str, expected: Sequence[bytes | None]) -> None:
    def there() -> None:
        assert values(flow.copies(topic)) == list(expected), running.status

    eventually(there, WAIT, what=f"{topic} is copied")


# -- the source ----------------------------------------------------------------------------------------------------


def test_truncated_while_it_runs(flow: CopyFlow) -> None:
    """B20. An open transaction holds the copy back, and retention does not wait for it."""
    topic = flow.topic()
    with flow.pipeline() as running:
        produce(flow.source.bootstrap, topic, numbered(100))
        running.wait_position({TopicPartition(topic, 0): 100})
        with open_transaction(flow.source.bootstrap, topic, numbered(50, start=500)) as kept:
            produce(flow.source.bootstrap, topic, numbered(50, start=100))
            delete_records(flow.source.bootstrap, topic, {0: 170})
            kept.commit_transaction(FLUSH_SECONDS)
        produce(flow.source.bootstrap, topic, numbered(10, start=150))
        wait_copies(flow, running, topic, values([*numbered(100), *numbered(40, start=120)]))
    assert ledger(flow) == [("truncated", 100, 170)]
    flow.assert_answers_safe()


def test_with_fail_nothing_is_committed_behind_a_gap(flow: CopyFlow) -> None:
    """B20, for whoever would rather stop."""
    topic = flow.topic(2)
    place = TopicPartition(topic, 0)
    both = [*numbered(50), *numbered(50, partition=1)]
    produce(flow.source.bootstrap, topic, both)
    flow.copy()
    produce(flow.source.bootstrap, topic, both)
    delete_records(flow.source.bootstrap, topic, {0: 70})
    flow.settings = {"fail_on_gap": True}
    status = flow.copy(slots=1)
    assert status.state is PipelineState.FAILED
    assert status.failure is not None
    for words in ("source.gap.policy", f"{topic}-0", "[50, 70)"):
        assert words in status.failure
    assert len(flow.copies(topic)) == 50
    assert len(flow.copies(topic, 1)) == 50
    assert ledger(flow) == []
    assert flow.runs()[place].position == 50
    flow.settings = {"fail_on_gap": False}
    assert flow.copy().state is PipelineState.CAUGHT_UP
    assert len(flow.copies(topic)) == 80
    assert ledger(flow) == [("truncated", 50, 70)]
    flow.assert_answers_safe()


@pytest.mark.parametrize("records", mostly_long([30, 300]), ids=["shorter", "overtaken"])
def test_made_again_between_two_fetches(flow: CopyFlow, gate: Gate, fetches: str, records: int) -> None:
    """B20: stock goes on at its old position in the new topic, or begins anew, and says nothing."""
    topic = flow.topic()
    with flow.pipeline() as running:
        produce(flow.source.bootstrap, topic, numbered(100))
        running.wait_position({TopicPartition(topic, 0): 100})
        gate.close()
        made_again(flow, topic, records)
        gate.open()
        wait_copies(flow, running, topic, values([*numbered(100), *numbered(records, start=1000)]))
    assert ledger(flow) == [("source_recreated", 100, -1)]
    flow.assert_answers_safe()


@pytest.mark.long
def test_made_again_while_it_is_down(flow: CopyFlow, fetches: str) -> None:
    topic = flow.topic()
    produce(flow.source.bootstrap, topic, numbered(100))
    flow.copy()
    made_again(flow, topic, 300)
    assert gaps_of(flow.copy()) == [("source_recreated", 100, -1)]
    assert values(flow.copies(topic)) == values([*numbered(100), *numbered(300, start=1000)])
    flow.assert_answers_safe()


def test_a_topic_that_is_gone_comes_back_when_it_is_wanted_again(flow: CopyFlow) -> None:
    topic, other = flow.topic(), flow.topic()
    with flow.pipeline() as running:
        produce(flow.source.bootstrap, topic, numbered(100))
        running.wait_position({TopicPartition(topic, 0): 100})
        delete_topic(flow.source.bootstrap, topic)
        produce(flow.source.bootstrap, other, numbered(20))
        wait_copies(flow, running, other, values(numbered(20)))
        eventually(lambda: running.status.layout > 1, WAIT, what="a layout without the topic")
        create_topic(flow.source.bootstrap, topic)
        running.assign(flow.partitions())
        produce(flow.source.bootstrap, topic, numbered(10, start=1000))
        wait_copies(flow, running, topic, values([*numbered(100), *numbered(10, start=1000)]))
    assert ledger(flow) == [("source_recreated", 100, -1)]
    flow.assert_answers_safe()


# -- the target ----------------------------------------------------------------------------------------------------


def test_the_remote_topic_made_again_while_it_runs(flow: CopyFlow, gate: Gate) -> None:
    """Records are produced by topic name: only their offsets tell that the topic is another one."""
    topic = flow.topic()
    with flow.pipeline() as running:
        produce(flow.source.bootstrap, topic, numbered(100))
        running.wait_position({TopicPartition(topic, 0): 100})
        gate.close()
        delete_topic(flow.target.bootstrap, flow.remote(topic))
        create_topic(flow.target.bootstrap, flow.remote(topic))
        produce(flow.source.bootstrap, topic, numbered(10, start=100))
        gate.open()
        running.wait_position({TopicPartition(topic, 0): 110})
    flow.assert_copied()
    flow.assert_runs_true()
    assert ledger(flow) == [("target_recreated", 0, 0)]
    runs = flow.runs()[TopicPartition(topic, 0)].runs
    assert {run.target_topic_id for run in runs} == {flow.partitions()[0].target_topic_id}
    assert (runs[0].covered_from, runs[-1].recopy_end) == (0, 0)
    flow.assert_answers_safe()


def made_again_on_target(flow: CopyFlow) -> tuple[str, str]:
    """A topic of which 100 records were copied, and its copy, which was deleted and is empty."""
    topic = flow.topic()
    produce(flow.source.bootstrap, topic, numbered(100))
    flow.copy()
    delete_topic(flow.target.bootstrap, flow.remote(topic))
    create_topic(flow.target.bootstrap, flow.remote(topic))
    return topic, flow.remote(topic)


@pytest.mark.long
def test_the_remote_topic_made_again_where_copying_is_to_continue(flow: CopyFlow) -> None:
    flow.settings = {"recopy": False}
    topic, _ = made_again_on_target(flow)
    produce(flow.source.bootstrap, topic, numbered(10, start=100))
    assert gaps_of(flow.copy()) == [("target_recreated", -1, 100)]
    assert values(flow.copies(topic)) == values(numbered(10, start=100))
    flow.assert_answers_safe()


@pytest.mark.long
def test_the_remote_topic_made_again_that_others_have_written_to(flow: CopyFlow) -> None:
    """Whether the first of its records are copies nobody can tell: nothing is copied again."""
    topic, remote = made_again_on_target(flow)
    produce(flow.target.bootstrap, remote, numbered(5, start=1000))
    produce(flow.source.bootstrap, topic, numbered(10, start=100))
    status = flow.copy()
    assert gaps_of(status) == [("target_recreated", -1, 100)]
    assert f"not copied again: {remote}-0 is not empty" in status.gaps[0].detail
    assert values(flow.copies(topic)) == values([*numbered(5, start=1000), *numbered(10, start=100)])
    flow.assert_answers_safe()


@pytest.mark.long
def test_the_remote_topic_made_again_when_the_source_has_lost_some(flow: CopyFlow) -> None:
    """What a slice sent that was killed is no copy: the topic counts as empty."""
    topic, remote = made_again_on_target(flow)
    delete_records(flow.source.bootstrap, topic, {0: 30})
    produce_transaction(flow.target.bootstrap, remote, numbered(5), commit=False)
    produce(flow.source.bootstrap, topic, numbered(10, start=100))
    assert gaps_of(flow.copy()) == [("target_recreated", 30, 30), ("truncated", 0, 30)]
    assert values(flow.copies(topic)) == values(numbered(80, start=30))
    flow.assert_answers_safe()


@pytest.mark.long
def test_the_remote_topic_gone_for_a_while(flow: CopyFlow) -> None:
    topic, other = flow.topic(), flow.topic()
    with flow.pipeline(slots=1) as running:
        produce(flow.source.bootstrap, topic, numbered(100))
        running.wait_position({TopicPartition(topic, 0): 100})
        delete_topic(flow.target.bootstrap, flow.remote(topic))
        produce(flow.source.bootstrap, topic, numbered(10, start=100))
        produce(flow.source.bootstrap, other, numbered(10))
        wait_copies(flow, running, other, values(numbered(10)))
        create_topic(flow.target.bootstrap, flow.remote(topic))
        running.assign(flow.partitions())
        wait_copies(flow, running, topic, values(numbered(110)))
    assert ledger(flow) == [("target_recreated", 0, 0)]
    flow.assert_answers_safe()
