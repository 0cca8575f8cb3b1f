"""The pipeline without Spark, where one of two brokers of a cluster is away: partitions that it alone has wait, and the
others are copied."""

from __future__ import annotations

import pytest
from confluent_kafka.cimpl import NewTopic

from bridge.local import Broker, LocalStack
from bridge.model.copying import PipelineState
from bridge.model.partition_states import PartitionState, PartitionStatus
from bridge.model.values import Side, TopicPartition
from tests.integration.copy_flow import CopyFlow
from tests.support import admin, create_topic, eventually, numbered, produce, unique
from tests.support.forms import mostly_long
from tests.support.waits import WAIT

SECOND = 2


def on_second(bootstrap: str, topic: str) -> None:
    """Makes a topic of one partition, which the second broker alone has."""
    new = NewTopic(topic, 1, replica_assignment=[[SECOND]])
    for made in admin(bootstrap).create_topics([new]).values():
        made.result(WAIT)


@pytest.mark.parametrize("side", mostly_long([Side.SOURCE, Side.TARGET]))
def test_partitions_without_a_leader_wait_alone(mortal_stack: LocalStack, side: Side) -> None:
    """From the start on, and the ones that lose it while they are copied."""
    first = mortal_stack.source if side is Side.SOURCE else mortal_stack.target
    assert isinstance(first, Broker)
    flow = CopyFlow(mortal_stack.source, mortal_stack.target)
    well, gone = flow.topic(), unique("gone")
    # All else is on the first one, which is alone so far.
    second = mortal_stack.broker(unique(f"second-{side}"), properties={"node.id": str(SECOND)}, joins=first)
    if side is Side.SOURCE:
        on_second(mortal_stack.source.bootstrap, gone)
        create_topic(mortal_stack.target.bootstrap, flow.remote(gone))
    else:
        create_topic(mortal_stack.source.bootstrap, gone)
        on_second(mortal_stack.target.bootstrap, flow.remote(gone))
    flow.topics.append(gone)
    places = TopicPartition(well, 0), TopicPartition(gone, 0)
    produce(mortal_stack.source.bootstrap, well, numbered(10))
    produce(mortal_stack.source.bootstrap, gone, numbered(10))
    partitions = flow.partitions()
    second.stop()
    with flow.pipeline(slots=1, partitions=partitions) as running:
        running.wait_position({places[0]: 10})

        def waiting() -> PartitionStatus:
            (status,) = running.status.partitions
            return status

        named = eventually(waiting, WAIT, what="what waits is named")
        assert (named.source, named.state) == (places[1], PartitionState.WAITING)
        assert running.status.state is PipelineState.COPYING, "the others are copied"
        produce(mortal_stack.source.bootstrap, well, numbered(10, start=10))
        running.wait_position({places[0]: 20})
        assert running.status.slices_running
        second.start()
        running.wait_position({places[1]: 10})
        eventually(lambda: not running.status.partitions, WAIT, what="nothing waits any more")
        if side is Side.SOURCE:
            second.stop()
            produce(mortal_stack.source.bootstrap, well, numbered(10, start=20))
            running.wait_position({places[0]: 30})
            second.start()
            produce(mortal_stack.source.bootstrap, gone, numbered(10, start=10))
            running.wait_position({places[1]: 20})
    flow.assert_copied()
    flow.assert_runs_true()
    second.stop()  # the controller knows at once, and gives it no partition of the topics to come
    second.close()
