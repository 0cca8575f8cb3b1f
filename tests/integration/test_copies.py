"""Copies of one topic by several connectors: each to a topic of its own is whole, and one topic has one writer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from bridge.errors import KafkaFailure, KafkaFault, OperationRefused
from bridge.kafka.config.settings import RawSettings
from bridge.kafka.producer.producer import fence
from bridge.local import Cluster
from bridge.model.copying import PipelineState, PipelineStatus
from bridge.model.values import TopicPartition
from bridge.pipeline.layouts import fencing
from bridge.pipeline.layouts.records import LayoutRecord, SliceReport, layout_key, read_layouts, report_key
from bridge.pipeline.layouts.slots import transactional_id
from bridge.pipeline.positions import hand_back as handing_back
from bridge.pipeline.slices.gaps import read_ledger
from bridge.translation.runs.runs import RunKey
from tests.integration.copy_flow import CopyFlow, gaps_of
from tests.support import Record, create_topic, eventually, produce
from tests.support.forms import mostly_long
from tests.support.records import varied
from tests.support.waits import WAIT


@pytest.fixture
def flow(source: Cluster, target: Cluster) -> CopyFlow:
    return CopyFlow(source, target)


@dataclass
class Beside(CopyFlow):
    """Another connector of the same source alias, and so with the same state topics."""

    identity: bool = False
    """Remote topics keep their names, as by IdentityReplicationPolicy."""

    def __post_init__(self) -> None:
        """The state topics are there already."""

    def adopt(self, topic: str) -> None:
        """A topic of the other flow, with a copy of its own."""
        create_topic(self.target.bootstrap, self.remote(topic), 1, {})
        self.topics.append(topic)

    def remote(self, topic: str) -> str:
        return f"{super().remote(topic)}.again" if self.identity else super().remote(topic)


def beside(
    flow: CopyFlow, name: str, topics: Sequence[str], *, identity: bool = False, **given: object
) -> Beside:
    settings = {**flow.settings, "name": name, **given}
    return Beside(flow.source, flow.target, settings, flow.props, flow.alias, list(topics), identity=identity)


def keyed(key: bytes | None, value: bytes | None) -> Record:
    return Record(value, key=key)


def owner(flow: CopyFlow, topic: str) -> str | None:
    layouts = read_layouts(flow.state(flow.spec.layout_topic), flow.spec)
    return layouts.owner((topic, flow.remote(topic)))


def hand_back(flow: CopyFlow) -> None:
    asyncio.run(handing_back(flow.spec, flow.remote, lambda rows: None))


def failed(status: PipelineStatus, owner: str) -> str:
    assert status.state is PipelineState.FAILED
    assert status.failure is not None
    assert status.failure_code == "copy_taken"
    assert f"connector {owner} copies" in status.failure
    assert f"bridge.take.over.from={owner}" in status.failure
    return status.failure


def test_a_copy_to_another_topic_is_whole_and_leaves_the_first_ones_runs(flow: CopyFlow) -> None:
    topic = flow.topic()
    produce(flow.source.bootstrap, topic, varied(200))
    flow.copy()
    before = flow.runs()
    other = beside(flow, "two", [], identity=True)
    other.adopt(topic)
    status = other.copy()
    assert status.state is PipelineState.CAUGHT_UP
    assert status.progress[TopicPartition(topic, 0)].position == 200
    other.assert_copied()
    other.assert_runs_true()
    flow.assert_copied()
    flow.assert_runs_true()
    assert {place: runs.runs for place, runs in flow.runs().items()} == {
        place: runs.runs for place, runs in before.items()
    }
    ledger = [read_ledger(each.key, each.value) for each in flow.state(flow.spec.gaps_topic)]
    assert ledger == []
    # And the first goes on, with what it has copied itself and nothing else.
    produce(flow.source.bootstrap, topic, varied(50, 200))
    assert flow.copy().progress[TopicPartition(topic, 0)].position == 250
    flow.assert_copied()
    flow.assert_runs_true()


def test_a_second_connector_to_the_same_topic_is_refused_and_names_the_owner(flow: CopyFlow) -> None:
    topic = flow.topic()
    produce(flow.source.bootstrap, topic, varied(100))
    flow.copy()
    message = failed(beside(flow, "two", [topic]).copy(), flow.spec.name)
    assert f"{topic} to {flow.remote(topic)}" in message
    assert owner(flow, topic) == flow.spec.name
    flow.assert_copied()


def test_of_two_that_start_at_once_one_copies(flow: CopyFlow) -> None:
    topic = flow.topic()
    produce(flow.source.bootstrap, topic, varied(100))
    other = beside(flow, "two", [topic])
    with flow.pipeline() as one, other.pipeline() as two:

        def settled() -> None:
            states = [each.status.state for each in (one, two)]
            assert PipelineState.FAILED in states, (one.status, two.status)

        eventually(settled, WAIT, what="one of the two is refused")
        first, second = (one, two) if two.status.state is PipelineState.FAILED else (two, one)
        failed(second.status, flow.spec.name if first is one else "two")
        first.wait_position({TopicPartition(topic, 0): 100})
        assert first.status.state is PipelineState.COPYING
    flow.assert_copied()
    flow.assert_runs_true()


def test_a_topic_of_another_connector_that_comes_later_is_left_out_and_said(flow: CopyFlow) -> None:
    ours, theirs = flow.topic(), flow.topic()
    other = beside(flow, "two", [theirs])
    flow.topics.remove(theirs)
    produce(flow.source.bootstrap, theirs, varied(30))
    other.copy()
    with flow.pipeline() as running:
        produce(flow.source.bootstrap, ours, varied(50))
        running.wait_position({TopicPartition(ours, 0): 50})
        flow.topics.append(theirs)
        running.assign(flow.partitions())
        error = eventually(lambda: running.status.errors[0], WAIT, what="the topic is refused")
        assert "connector two copies" in error
        produce(flow.source.bootstrap, ours, varied(50, 50))
        running.wait_position({TopicPartition(ours, 0): 100})
    other.assert_copied()
    flow.assert_copied()


def test_a_take_over_shuts_the_owner_out_and_goes_on_where_it_was(flow: CopyFlow) -> None:
    topic = flow.topic()
    place = TopicPartition(topic, 0)
    produce(flow.source.bootstrap, topic, varied(100))
    with flow.pipeline() as owning:
        owning.wait_position({place: 100})
        other = beside(flow, "two", [topic], take_over_from=(flow.spec.name,))
        with other.pipeline() as taking:
            produce(flow.source.bootstrap, topic, varied(100, 100))
            taking.wait_position({place: 200})
            assert taking.status.state is PipelineState.COPYING
            # The one that was shut out may try as often as it wants.
            again = flow.copy()
            failed(again, "two")
    flow.assert_copied()
    flow.assert_runs_true()
    assert owner(flow, topic) == "two"


def test_what_a_connector_leaves_out_another_one_copies_on(flow: CopyFlow) -> None:
    """A flow is split: the first one keeps a topic and leaves the other out, which goes on where it stands."""
    kept, left = flow.topic(), flow.topic()
    for topic in (kept, left):
        produce(flow.source.bootstrap, topic, varied(100))
    flow.copy()
    flow.topics.remove(left)
    other = beside(flow, "two", [left])
    with flow.pipeline() as narrowed:
        produce(flow.source.bootstrap, kept, varied(20, 100))
        narrowed.wait_position({TopicPartition(kept, 0): 120})
        assert list(narrowed.status.claimed) == [left]
        failed(other.copy(), flow.spec.name)
        # What is copied is not released, whoever asks for it.
        narrowed.release([kept, left])
        eventually(lambda: not narrowed.status.claimed, WAIT, what="the topic is released")
        produce(flow.source.bootstrap, left, varied(30, 100))
        assert other.copy().progress[TopicPartition(left, 0)].position == 130
        layout = narrowed.status.layout
        produce(flow.source.bootstrap, kept, varied(20, 120))
        narrowed.wait_position({TopicPartition(kept, 0): 140})
        assert narrowed.status.layout == layout, "nothing that is copied has paused"
    assert (owner(flow, kept), owner(other, left)) == (flow.spec.name, "two")
    flow.assert_copied()
    other.assert_copied()
    other.assert_runs_true()


@pytest.mark.long
def test_reports_of_another_connector_are_not_ours(flow: CopyFlow) -> None:
    """All connectors of a source alias share the layout topic; layouts have small numbers."""
    topic = flow.topic()
    with flow.pipeline() as running:
        produce(flow.source.bootstrap, topic, varied(10))
        running.wait_position({TopicPartition(topic, 0): 10})
        layout = running.status.layout
        report = SliceReport(
            layout, 0, failure="a right of payments is missing", moved=[TopicPartition(topic, 0)]
        )
        payments = beside(flow, "payments", [])
        produce(
            flow.target.bootstrap,
            flow.spec.layout_topic,
            [
                record
                for key in (report_key(payments.spec, 0), b"payments/0", f"{flow.spec.name}/0".encode())
                for record in [keyed(key, report.value())]
            ],
        )
        produce(flow.source.bootstrap, topic, varied(10, 10))
        running.wait_position({TopicPartition(topic, 0): 20})
        assert (running.status.state, running.status.layout) == (PipelineState.COPYING, layout)
        assert not running.status.errors


@pytest.mark.parametrize(
    "poison",
    mostly_long(
        [
            b'{"layout":1,"slots":1000000000}',
            b'{"layout":1,"slots":1,"slot":0,"moved":5}',
            b"[" * 5000,
            b"\xff",
        ]
    ),
    ids=["a billion slots", "moved is a number", "nested", "no text"],
)
def test_nonsense_in_the_layout_topic_stops_nothing(flow: CopyFlow, poison: bytes) -> None:
    topic = flow.topic()
    keys = (layout_key(flow.spec), report_key(flow.spec, 0), b"\xff", flow.spec.name.encode())
    with flow.pipeline() as running:
        produce(flow.source.bootstrap, topic, varied(10))
        running.wait_position({TopicPartition(topic, 0): 10})
        produce(flow.target.bootstrap, flow.spec.layout_topic, [keyed(key, poison) for key in keys])
        produce(flow.source.bootstrap, topic, varied(10, 10))
        running.wait_position({TopicPartition(topic, 0): 20})
    produce(flow.source.bootstrap, topic, varied(10, 20))
    assert flow.copy().state is PipelineState.CAUGHT_UP
    flow.assert_copied()
    flow.assert_runs_true()


@pytest.mark.long
def test_slots_that_could_not_be_fenced_are_fenced_by_the_next_driver(
    flow: CopyFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight slots, then two, and a coordinator out of reach in between: the other six were never fenced."""
    topic = flow.topic(8)
    produce(flow.source.bootstrap, topic, varied(80))
    flow.copy(slots=8)
    real, fenced = fence, list[str]()

    async def unreachable(*_: object, **_options: object) -> None:
        raise KafkaFailure(KafkaFault.TIMEOUT, "a coordinator is out of reach")

    monkeypatch.setattr(fencing, "fence", unreachable)
    with flow.pipeline(slots=2) as running:
        eventually(lambda: "out of reach" in str(running.status.errors), WAIT, what="fencing fails")

    async def recording(settings: RawSettings, ids: Sequence[str], **options: Any) -> set[str]:
        fenced.extend(ids)
        return await real(settings, ids, **options)

    monkeypatch.setattr(fencing, "fence", recording)
    assert flow.copy(slots=2).state is PipelineState.CAUGHT_UP
    assert {transactional_id(flow.spec, slot) for slot in range(8)} <= set(fenced)


def test_state_of_version_0_is_read_on(flow: CopyFlow) -> None:
    """Runs without the target topic in their keys, a layout under the connector's bare name, ids without escapes."""
    topic = flow.topic()
    produce(flow.source.bootstrap, topic, varied(100))
    flow.copy()
    old = [
        keyed(RunKey(named.source, "", named.upstream_start).encode(), each.value)
        for each in flow.state(flow.spec.runs_topic)
        if (named := RunKey.decode(each.key))
    ]
    newest = LayoutRecord(7, 2, stop=True).value()
    emptied = [keyed(each.key, None) for each in flow.state(flow.spec.runs_topic)]
    produce(flow.target.bootstrap, flow.spec.runs_topic, [*emptied, *old])
    emptied = [keyed(each.key, None) for each in flow.state(flow.spec.layout_topic)]
    produce(flow.target.bootstrap, flow.spec.layout_topic, [*emptied, keyed(flow.spec.name.encode(), newest)])
    produce(flow.source.bootstrap, topic, varied(50, 100))
    status = flow.copy()
    assert (status.state, status.layout, gaps_of(status)) == (PipelineState.CAUGHT_UP, 8, [])
    flow.assert_copied()
    flow.assert_runs_true()
    layouts = read_layouts(flow.state(flow.spec.layout_topic), flow.spec)
    assert layouts.unversioned is None
    assert layouts.owner((topic, flow.remote(topic))) == flow.spec.name


def test_only_the_owner_hands_a_copy_back_and_then_it_is_free(flow: CopyFlow) -> None:
    topic = flow.topic()
    produce(flow.source.bootstrap, topic, varied(100))
    flow.copy()
    other = beside(flow, "two", [topic])
    with pytest.raises(OperationRefused, match=f"is copied by {flow.spec.name}: name that connector"):
        hand_back(other)
    assert owner(flow, topic) == flow.spec.name
    hand_back(flow)
    assert owner(flow, topic) is None
    produce(flow.source.bootstrap, topic, varied(100, 100))
    assert other.copy().state is PipelineState.CAUGHT_UP
    flow.assert_copied()
    assert owner(flow, topic) == "two"
