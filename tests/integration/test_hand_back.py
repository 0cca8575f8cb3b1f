"""Take-over and hand-back between two real brokers, without Connect: positions, runs, and who may still copy."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bridge.errors import KafkaFailure, OperationRefused
from bridge.local import Cluster
from bridge.model.copying import Copied, PipelineState, Transform
from bridge.model.values import TopicPartition
from bridge.pipeline.layouts.records import read_layouts
from bridge.pipeline.positions import hand_back
from bridge.translation.runs.source_offsets import HandBackOutcome, PartitionHandBack
from tests.integration.copy_flow import CopyFlow
from tests.support import (
    Record,
    create_topic,
    delete_topic,
    eventually,
    numbered,
    produce,
    read,
    set_topic_config,
    unique,
)
from tests.support.messages import message_pattern
from tests.support.waits import WAIT


class Handing(CopyFlow):
    """A flow whose partitions a stock mirror has copied up to `starts`; `stored` is what Connect keeps."""

    starts: Mapping[TopicPartition, int] = {}

    def partitions(self) -> list[Copied]:
        return [replace(each, start=self.starts.get(each.source)) for each in super().partitions()]

    def stock(self, topic: str, start: int, end: int) -> None:
        """What stock does with offsets [start, end) of partition 0: at least once, by itself."""
        produce(self.target.bootstrap, self.remote(topic), self.original(topic)[start:end])

    def _remote(self, topic: str) -> str | None:
        return self.remote(topic) if topic in self.topics else None

    def hand_back(self, *, force: bool = False, failing: bool = False) -> list[PartitionHandBack]:
        given: list[PartitionHandBack] = []

        def write(rows: Sequence[PartitionHandBack]) -> None:
            given.extend(rows)
            if failing:
                raise ConnectionError("Connect is away")

        rows = asyncio.run(hand_back(self.spec, self._remote, write, force=force))
        assert given == [row for row in rows if row.written]
        return rows


@pytest.fixture
def flow(source: Cluster, target: Cluster) -> Handing:
    return Handing(source, target)


def place(topic: str) -> TopicPartition:
    return TopicPartition(topic, 0)


def test_over_from_stock_and_back_and_over_again(flow: Handing) -> None:
    topic = flow.topic()
    produce(flow.source.bootstrap, topic, numbered(100))
    flow.stock(topic, 0, 40)
    flow.starts = {place(topic): 40}
    assert flow.copy().gaps == ()
    flow.assert_copied()
    # What stock has copied lies before our first run, and is covered by nothing.
    assert flow.runs()[place(topic)].runs[0].covered_from == 40

    with pytest.raises(ConnectionError):
        flow.hand_back(failing=True)
    assert flow.hand_back() == [PartitionHandBack(place(topic), 100, 99, HandBackOutcome.HANDED_BACK)]
    assert flow.hand_back() == [PartitionHandBack(place(topic), 100, None, HandBackOutcome.ALREADY)]

    produce(flow.source.bootstrap, topic, numbered(50, start=100))
    flow.stock(topic, 100, 130)
    flow.starts = {place(topic): 130}
    assert flow.copy().gaps == ()
    flow.assert_copied()
    known = flow.runs()[place(topic)]
    assert [run.covered_from for run in known.runs if run.upstream_start >= 100] == [130]
    assert not any(run.handed_back for run in known.runs)
    # Stock's offsets stay in Connect; they are older than what ours has copied since.
    produce(flow.source.bootstrap, topic, numbered(10, start=150))
    flow.copy()
    flow.assert_copied()


def test_what_transforms_sent_elsewhere_belongs_to_nobody_either(
    flow: Handing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    topic, other = flow.topic(), create_topic(flow.target.bootstrap, unique("other"))
    flow.also = [other]
    flow.transforms = [Transform("routes", "tests.own_transforms.routes", {"to": other}, (other,))]
    produce(flow.source.bootstrap, topic, numbered(10))
    flow.copy()
    there = read_layouts(flow.state(flow.spec.layout_topic), flow.spec)
    assert there.owner((topic, other)) == flow.spec.name
    flow.hand_back()
    assert read_layouts(flow.state(flow.spec.layout_topic), flow.spec).claims == {}


def test_while_slices_copy_nothing_is_handed_back_but_by_force_which_ends_them(flow: Handing) -> None:
    topic = flow.topic()
    produce(flow.source.bootstrap, topic, numbered(20))
    with flow.pipeline() as running:
        running.wait_position({place(topic): 20})
        said = message_pattern("copying.not_stopped", layout=1)
        with pytest.raises(OperationRefused, match=f"{said}.*--force"):
            flow.hand_back()
        assert flow.hand_back(force=True) == [
            PartitionHandBack(place(topic), 20, 19, HandBackOutcome.HANDED_BACK)
        ]
        produce(flow.source.bootstrap, topic, numbered(5, start=20))
        eventually(
            lambda: (
                any("transactional id" in error for error in running.status.errors)
                or running.status.state is not PipelineState.COPYING
            ),
            WAIT,
            what="the driver sees that it was shut out",
        )
        assert len(flow.copies(topic)) == 20


def test_topics_that_are_no_more_what_was_copied(flow: Handing) -> None:
    gone, again, empty = flow.topic(), flow.topic(), flow.topic()
    for topic in (gone, again):
        produce(flow.source.bootstrap, topic, numbered(5))
    flow.copy()
    delete_topic(flow.source.bootstrap, gone)
    delete_topic(flow.source.bootstrap, again)
    create_topic(flow.source.bootstrap, again, 1)
    rows = {row.source.topic: row for row in flow.hand_back()}
    assert rows == {
        gone: PartitionHandBack(place(gone), 5, None, HandBackOutcome.GONE),
        again: PartitionHandBack(place(again), 5, None, HandBackOutcome.MADE_AGAIN),
        empty: PartitionHandBack(place(empty), 0, None, HandBackOutcome.FROM_RESET),
    }


def test_positions_that_can_t_be_known(flow: Handing) -> None:
    topic = flow.topic()
    with pytest.raises(OperationRefused, match="holds no position of a topic"):
        flow.hand_back()
    produce(flow.source.bootstrap, topic, numbered(5))
    flow.copy()
    (whole,) = read(flow.target.bootstrap, flow.spec.runs_topic, committed_only=True)[-1:]
    later = replace(whole, key=b"\0\7" + (whole.key or b"")[2:], timestamp=None, partition=0)
    produce(flow.target.bootstrap, flow.spec.runs_topic, [later])
    with pytest.raises(OperationRefused, match=r"1 record\(s\) of .* can't be read.*version 7"):
        flow.hand_back()
    nowhere = Handing(flow.source, flow.target)
    for name in nowhere.state_topics:
        delete_topic(flow.target.bootstrap, name)
    with pytest.raises(OperationRefused, match=message_pattern("copying.no_positions")):
        nowhere.hand_back()


def test_a_position_that_the_source_does_not_reach_is_not_handed_back(flow: Handing) -> None:
    """Stock would skip what is not copied yet, or copy all again, as consumer.auto.offset.reset says."""
    topic = flow.topic()
    produce(flow.source.bootstrap, topic, numbered(5))
    flow.copy()
    last = flow.runs()[place(topic)].last
    assert last is not None
    produce(
        flow.target.bootstrap,
        flow.spec.runs_topic,
        [Record(last._replace(position=2**60).value(), key=last.key())],
    )
    with pytest.raises(OperationRefused, match=rf"{topic}-0 is copied up to {2**60}, and the log ends at 5"):
        flow.hand_back()
    # What it asks for helps.
    flow.copy()
    assert flow.hand_back() == [PartitionHandBack(place(topic), 5, 4, HandBackOutcome.HANDED_BACK)]


def test_positions_are_not_read_from_a_topic_that_loses_them(flow: Handing) -> None:
    topic = flow.topic()
    produce(flow.source.bootstrap, topic, numbered(5))
    flow.copy()
    set_topic_config(flow.target.bootstrap, flow.spec.runs_topic, {"cleanup.policy": "delete"})
    with pytest.raises(KafkaFailure, match=message_pattern("topics.not_compact")):
        flow.hand_back()
