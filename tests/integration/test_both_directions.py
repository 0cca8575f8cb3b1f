"""LegacyReplicationPolicy: names stay, and the second of two directions is refused."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.local import Cluster, eventually
from bridge.model.copying import PipelineState
from bridge.model.partition_states import PartitionState
from bridge.model.values import TopicPartition
from bridge.pipeline.layouts.records import LayoutRecord, read_layouts
from tests.integration.copy_flow import CopyFlow
from tests.support import create_topic, produce, unique
from tests.support.records import varied
from tests.support.topics import bounds
from tests.support.waits import WAIT


@dataclass
class Legacy(CopyFlow):
    def remote(self, topic: str) -> str:
        return topic


def directions(one: Cluster, other: Cluster) -> tuple[Legacy, Legacy]:
    """A topic on both, there and back."""
    there, back = Legacy(one, other), Legacy(other, one)
    topic = unique("legacy")
    for cluster in (one, other):
        create_topic(cluster.bootstrap, topic, 1)
    for flow, opposite in ((there, back), (back, there)):
        flow.topics.append(topic)
        flow.settings = {"opposite_layouts": opposite.state_topics[1]}
    return there, back


def test_the_opposite_direction_is_refused_while_the_first_runs_and_not_after(
    source: Cluster, target: Cluster
) -> None:
    there, back = directions(source, target)
    topic = there.topics[0]
    produce(source.bootstrap, topic, varied(50))
    with there.pipeline() as running:
        running.wait_position({TopicPartition(topic, 0): 50})
        status = back.copy()
        assert (status.state, status.failure_code) == (PipelineState.FAILED, "copy_taken")
        assert status.failure is not None
        assert (
            f"connector {there.spec.name} copies {topic} to {topic} in the opposite direction"
            in status.failure
        )
        assert running.status.state is PipelineState.COPYING
        assert back.state(back.spec.layout_topic) == [] or all(
            b'"source"' not in (each.key or b"") or each.value is None
            for each in back.state(back.spec.layout_topic)
        )
    # The first has stopped in good order, and what is new on the other side may come back.
    with back.pipeline() as returning:

        def returned() -> None:
            assert returning.status.progress[TopicPartition(topic, 0)].position >= 50, returning.status

        eventually(returned, WAIT, what="what the other side has is copied back")
        before = newest(there)
        assert there.copy().failure_code == "copy_taken"
        # Who is refused leaves all that it knew of its layouts.
        assert newest(there) == before
    # Both own their copies now, and have stopped: none of them knows of a start of the other.
    with there.pipeline() as one, back.pipeline() as other:

        def refused() -> None:
            states = [one.status.state, other.status.state]
            assert sorted(states) == [PipelineState.COPYING, PipelineState.FAILED], (one.status, other.status)

        eventually(refused, WAIT, what="exactly one of them copies")


def test_records_that_go_round_stop_their_partition_alone(source: Cluster, target: Cluster) -> None:
    """Neither flow knows of the other, as with stock's mirror on the way back: the records alone show it."""
    there, back = directions(source, target)
    for flow in (there, back):
        flow.settings = {"opposite_layouts": unique("nobodys")}
    (topic,) = there.topics
    beside = create_topic(source.bootstrap, unique("beside"), 1)
    create_topic(target.bootstrap, beside, 1)
    there.topics.append(beside)
    produce(source.bootstrap, topic, varied(10))
    with there.pipeline() as one, back.pipeline() as other:

        def stopped() -> None:
            states = [each for flow in (one, other) for each in flow.status.partitions if each.topic == topic]
            assert any(each.state is PartitionState.FAILED and "come back" in each.why for each in states), (
                states
            )

        eventually(stopped, WAIT, what="one of them has noticed it")
        for cluster in (source, target):
            assert bounds(cluster.bootstrap, topic)[0][1] < 1000
        produce(source.bootstrap, beside, varied(50))
        one.wait_position({TopicPartition(beside, 0): 50})


def newest(flow: Legacy) -> LayoutRecord:
    """What its layout topic says of it."""
    return read_layouts(flow.state(flow.spec.layout_topic), flow.spec).newest
