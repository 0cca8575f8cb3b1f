"""The pipeline without Spark, where one of two brokers of a cluster is away: partitions that it alone has wait, and the
others are copied."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.cimpl import NewTopic

from bridge.local import Broker, LocalStack
from bridge.model.copying import PipelineState
from bridge.model.partition_states import PartitionState, PartitionStatus
from bridge.model.values import Side, TopicPartition
from tests.conftest import chosen_clusters
from tests.integration.copy_flow import CopyFlow
from tests.support import admin, create_topic, eventually, numbered, produce, unique
from tests.support.brokers import MORTAL
from tests.support.forms import mostly_long
from tests.support.waits import WAIT

SECOND = 2


@pytest.fixture(scope="module")
def own(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    if chosen_clusters(request.config):
        pytest.skip("stops brokers, so it needs brokers from jars")
    with LocalStack(
        tmp_path_factory.mktemp("leaderless"), broker_heap="384m", broker_properties=MORTAL
    ) as stack:
        stack.start_clusters()
        yield stack


def on_second(bootstrap: str, topic: str) -> None:
    """Makes a topic of one partition, which the second broker alone has."""
    new = NewTopic(topic, 1, replica_assignment=[[SECOND]])
    for made in admin(bootstrap).create_topics([new]).values():
        made.result(WAIT)


@pytest.mark.parametrize("side", mostly_long([Side.SOURCE, Side.TARGET]))
def test_partitions_without_a_leader_wait_alone(own: LocalStack, side: Side) -> None:
    """From the start on, and the ones that lose it while they are copied."""
    first = own.source if side is Side.SOURCE else own.target
    assert isinstance(first, Broker)
    flow = CopyFlow(own.source, own.target)
    well, gone = flow.topic(), unique("gone")
    # All else is on the first one, which is alone so far.
    second = own.broker(unique(f"second-{side}"), properties={"node.id": str(SECOND)}, joins=first)
    if side is Side.SOURCE:
        on_second(own.source.bootstrap, gone)
        create_topic(own.target.bootstrap, flow.remote(gone))
    else:
        create_topic(own.source.bootstrap, gone)
        on_second(own.target.bootstrap, flow.remote(gone))
    flow.topics.append(gone)
    places = TopicPartition(well, 0), TopicPartition(gone, 0)
    produce(own.source.bootstrap, well, numbered(10))
    produce(own.source.bootstrap, gone, numbered(10))
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
        produce(own.source.bootstrap, well, numbered(10, start=10))
        running.wait_position({places[0]: 20})
        assert running.status.slices_running
        second.start()
        running.wait_position({places[1]: 10})
        eventually(lambda: not running.status.partitions, WAIT, what="nothing waits any more")
        if side is Side.SOURCE:
            second.stop()
            produce(own.source.bootstrap, well, numbered(10, start=20))
            running.wait_position({places[0]: 30})
            second.start()
            produce(own.source.bootstrap, gone, numbered(10, start=10))
            running.wait_position({places[1]: 20})
    flow.assert_copied()
    flow.assert_runs_true()
    second.close()
