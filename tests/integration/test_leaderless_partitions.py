"""The pipeline without Spark, where one of two brokers of a cluster is away: partitions that it alone has wait, and the
others are copied."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from confluent_kafka.cimpl import NewTopic

from bridge.local import Broker, LocalStack
from bridge.model.copying import PipelineState
from bridge.model.partition_states import PartitionState, PartitionStatus
from bridge.model.values import Side, TopicPartition
from tests.integration.copy_flow import CopyFlow
from tests.support import admin, bounds, create_topic, delete_topic, eventually, numbered, produce, unique
from tests.support.forms import mostly_long
from tests.support.traffic import Writer
from tests.support.waits import WAIT

SECOND = 2


class Same(CopyFlow):
    """Under names that tell no copy."""

    def remote(self, topic: str) -> str:
        return topic


def on_second(bootstrap: str, topic: str) -> None:
    """Makes a topic of one partition, which the second broker alone has."""
    new = NewTopic(topic, 1, replica_assignment=[[SECOND]])
    for made in admin(bootstrap).create_topics([new]).values():
        made.result(WAIT)


@pytest.mark.parametrize(
    ("side", "again"), mostly_long([(Side.SOURCE, False), (Side.SOURCE, True), (Side.TARGET, False)])
)
def test_partitions_without_a_leader_wait_alone(mortal_stack: LocalStack, side: Side, again: bool) -> None:
    """From the start on, and, `again`, while they are copied."""
    first = mortal_stack.source if side is Side.SOURCE else mortal_stack.target
    assert isinstance(first, Broker)
    flow = CopyFlow(mortal_stack.source, mortal_stack.target)
    well, gone = flow.topic(), unique("gone")
    # All else is on the first one, which is alone so far.
    second = mortal_stack.broker(
        unique(f"second-{side}-{again}"), properties={"node.id": str(SECOND)}, joins=first
    )
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
        if again:
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


@pytest.mark.long
def test_claims_of_others_that_cannot_be_read_hold_up_new_topics_alone(mortal_stack: LocalStack) -> None:
    """Nobody can tell whether a connector of the other alias copies to the same topic."""
    source, target = mortal_stack.source.bootstrap, mortal_stack.target
    assert isinstance(target, Broker)
    flow = CopyFlow(mortal_stack.source, target)
    well = TopicPartition(flow.topic(), 0)
    produce(source, well.topic, numbered(10))
    second = mortal_stack.broker(unique("second-claims"), properties={"node.id": str(SECOND)}, joins=target)
    claims = f"mm2-layout.{unique('other')}.internal"
    on_second(target.bootstrap, claims)
    with flow.pipeline(slots=1) as running:
        running.wait_position({well: 10})
        second.stop()
        new = TopicPartition(flow.topic(), 0)
        produce(source, new.topic, numbered(10))
        running.assign(flow.partitions())

        def waiting() -> str:
            (status,) = running.status.partitions
            assert (status.source, status.state) == (new, PartitionState.WAITING)
            return status.why

        assert claims in eventually(waiting, WAIT, what="what waits is named")
        produce(source, well.topic, numbered(10, start=10))
        running.wait_position({well: 20})
        second.start()
        running.wait_position({new: 10})
        eventually(lambda: not running.status.partitions, WAIT, what="nothing waits any more")
        second.stop()
        last = TopicPartition(flow.topic(), 0)
        produce(source, last.topic, numbered(10))
        running.assign(flow.partitions())
        eventually(lambda: running.status.partitions != [], WAIT, what="the next one waits")
        delete_topic(target.bootstrap, claims)
        running.wait_position({last: 10})
    flow.assert_copied()
    flow.assert_runs_true()
    second.close()


@pytest.mark.long
def test_claims_of_the_opposite_direction_that_cannot_be_read_hold_up_new_topics_alone(
    mortal_stack: LocalStack,
) -> None:
    """Records of what has begun do not go round: whoever claims it the other way has seen that it is copied."""
    source, target = mortal_stack.source, mortal_stack.target
    assert isinstance(source, Broker)
    flow, claims = Same(source, target), f"mm2-layout.{unique('back')}.internal"
    flow.settings = {"opposite_layouts": claims}
    well = TopicPartition(flow.topic(), 0)
    produce(source.bootstrap, well.topic, numbered(10))
    second = mortal_stack.broker(unique("second-back"), properties={"node.id": str(SECOND)}, joins=source)
    on_second(source.bootstrap, claims)
    with flow.pipeline(slots=1) as running:
        running.wait_position({well: 10})
        second.stop()
        new = TopicPartition(flow.topic(), 0)
        produce(source.bootstrap, new.topic, numbered(10))
        running.assign(flow.partitions())

        def waiting() -> str:
            (status,) = running.status.partitions
            assert (status.source, status.state) == (new, PartitionState.WAITING)
            return status.why

        assert claims in eventually(waiting, WAIT, what="what waits is named")
        produce(source.bootstrap, well.topic, numbered(10, start=10))
        running.wait_position({well: 20})
        second.start()
        running.wait_position({new: 10})
        eventually(lambda: not running.status.partitions, WAIT, what="nothing waits any more")
    flow.assert_copied()
    flow.assert_runs_true()
    second.stop()
    second.close()


@pytest.mark.parametrize("lacks", mostly_long(["replicas", "leader"]))
def test_partitions_that_can_no_longer_be_written_wait_alone(mortal_stack: LocalStack, lacks: str) -> None:
    """The transaction in which they are written can't be ended there: the others go on with another one."""
    source, target = mortal_stack.source.bootstrap, mortal_stack.target
    assert isinstance(target, Broker)
    flow = CopyFlow(mortal_stack.source, target)
    well, stuck = flow.topic(), create_topic(source, unique("stuck"))
    produce(source, well, numbered(1))
    flow.copy()  # transactions, too, are the business of the first broker, which is alone so far
    flow.topics.append(stuck)
    second = mortal_stack.broker(unique(f"second-{lacks}"), properties={"node.id": str(SECOND)}, joins=target)
    if lacks == "leader":
        on_second(target.bootstrap, flow.remote(stuck))
    else:
        both = NewTopic(
            flow.remote(stuck), 1, replica_assignment=[[1, SECOND]], config={"min.insync.replicas": "2"}
        )
        admin(target.bootstrap).create_topics([both])[flow.remote(stuck)].result(WAIT)
    places = TopicPartition(well, 0), TopicPartition(stuck, 0)
    with flow.pipeline(slots=1) as running, ExitStack() as writing:

        def wait_more(place: TopicPartition) -> None:
            def position() -> int:
                return running.status.progress[place].position

            before = eventually(position, WAIT, what=f"{place} is copied")
            eventually(lambda: position() >= before + 50, WAIT, what=f"more of {place} is copied")

        for place in places:
            writing.enter_context(Writer(source, place.topic).running())
        for place in places:
            wait_more(place)
        if lacks == "leader":
            second.kill()
        else:
            second.stop()

        def waiting() -> bool:
            shown = [(each.source, each.state) for each in running.status.partitions]
            return shown == [(places[1], PartitionState.WAITING)]

        eventually(waiting, WAIT, what="what can't be written is named")
        wait_more(places[0])
        assert running.status.state is PipelineState.COPYING
        assert running.status.restarts == 0, "that is no fault of the others"
        second.start()
        wait_more(places[1])
        eventually(lambda: not running.status.partitions, WAIT, what="nothing waits any more")
        writing.close()
        ends = {place: bounds(source, place.topic)[0][1] for place in places}
        running.wait_position(ends)
    flow.assert_copied()
    flow.assert_runs_true()
    second.stop()
    second.close()
