"""The pipeline without Spark, over a source whose disk has lost bytes: one partition waits, the others are copied."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from bridge.kafka.consumer import fetcher
from bridge.kafka.record.batch import parse
from bridge.local import Broker, LocalStack
from bridge.model.copying import PipelineState
from bridge.model.partition_states import PartitionState, PartitionStatus, Skip
from bridge.model.values import TopicPartition
from tests.integration.copy_flow import CopyFlow, InProcess, gaps_of
from tests.support import eventually, numbered, produce
from tests.support.waits import WAIT

EACH = 100
"""Records of a batch."""
LENGTH = 8
"""Where the length of a batch stands in it, its highest byte first."""


def flow_with(mortal_stack: LocalStack, policy: str) -> tuple[CopyFlow, str, str]:
    """A flow of a topic whose second batch of three is going to be damaged, and of one that is well."""
    flow = CopyFlow(
        mortal_stack.source, mortal_stack.target, settings={"fail_on_refused_record": policy == "fail"}
    )
    bad, well = flow.topic(), flow.topic()
    for start in range(0, 3 * EACH, EACH):
        produce(mortal_stack.source.bootstrap, bad, numbered(EACH, start=start), linger_ms=100)
    produce(mortal_stack.source.bootstrap, well, numbered(EACH))
    return flow, bad, well


def failed(running: InProcess) -> PartitionStatus:
    (status,) = running.status.partitions
    assert status.state is PartitionState.FAILED
    return status


def damage(broker: Broker, topic: str, byte: int = 200, *, seconds: float = 0.0) -> None:
    """Flips a bit of the batch that begins at EACH, while the broker is stopped, in good order. `seconds`: for which it
    stays so, where that is part of the test."""
    broker.stop()
    threading.Event().wait(seconds)
    log = broker.data / f"{topic}-0" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    at = sum(len(each.data) for each in parse(bytes(data)) if each.last_offset < EACH)
    data[at + byte] ^= 0x10
    log.write_bytes(data)
    broker.start()


@pytest.mark.long
@pytest.mark.parametrize("policy", ["fail", "report"])
def test_a_damaged_batch_holds_up_its_partition_alone(mortal_stack: LocalStack, policy: str) -> None:
    flow, bad, well = flow_with(mortal_stack, policy)
    assert isinstance(mortal_stack.source, Broker)
    damage(mortal_stack.source, bad)
    passed = policy == "report"
    with flow.pipeline(slots=1) as running:
        running.wait_position({TopicPartition(well, 0): EACH})
        produce(mortal_stack.source.bootstrap, well, numbered(EACH, start=EACH))
        running.wait_position({TopicPartition(well, 0): 2 * EACH})
        if passed:
            running.wait_position({TopicPartition(bad, 0): 3 * EACH})
            assert gaps_of(running.status) == [("record_refused", EACH, 2 * EACH)]
        else:
            status = eventually(partial(failed, running), WAIT, what="the damage is named")
            assert status.source == TopicPartition(bad, 0)
            assert f"offset {EACH}" in status.why
            assert (status.offset, status.end) == (EACH, 2 * EACH)
            assert f"mirror-bridge skip {flow.spec.name} {bad}-0 goes on behind it" in status.way_out
            assert running.status.state is PipelineState.COPYING
            assert [error.startswith(f"{bad}-0: ") for error in running.status.errors] == [True]
            running.wait_position({TopicPartition(bad, 0): EACH})
    values = [each.value for each in flow.copies(bad)]
    rest = numbered(EACH, start=2 * EACH) if passed else []
    assert values == [each.value for each in [*numbered(EACH), *rest]]
    assert len(flow.copies(well)) == 2 * EACH
    ended = flow.copy(slots=1)
    if passed:
        assert ended.state is PipelineState.CAUGHT_UP
        assert [each.state for each in ended.partitions] == [PartitionState.GAP]
    else:
        (again,) = ended.partitions
        assert (again.state, again.since_ms) == (PartitionState.FAILED, status.since_ms), "it is the same"
        assert ended.state is PipelineState.FAILED
        assert ended.failure is not None
        assert f"{bad}-0" in ended.failure


@pytest.mark.long
def test_what_is_restored_is_copied_though_the_source_was_away_when_it_was_tried(
    mortal_stack: LocalStack,
) -> None:
    """The copier that was about to try the partition ended with the source."""
    flow, bad, well = flow_with(mortal_stack, "fail")
    assert isinstance(mortal_stack.source, Broker)
    damage(mortal_stack.source, bad)
    with flow.pipeline(slots=1) as running:
        eventually(partial(failed, running), WAIT, what="the damage is named")
        damage(mortal_stack.source, bad, seconds=10.0)
        running.wait_position({TopicPartition(bad, 0): 3 * EACH, TopicPartition(well, 0): EACH})
    assert len(flow.copies(bad)) == 3 * EACH


def test_an_operator_has_a_damaged_batch_skipped_while_all_is_copied(mortal_stack: LocalStack) -> None:
    flow, bad, well = flow_with(mortal_stack, "fail")
    assert isinstance(mortal_stack.source, Broker)
    damage(mortal_stack.source, bad)
    place = TopicPartition(bad, 0)
    with flow.pipeline(slots=1) as running:
        status = eventually(partial(failed, running), WAIT, what="the damage is named")
        running.skip(Skip(*place, status.offset - 1, status.end))
        running.skip(Skip(*TopicPartition(well, 0), 0, EACH))
        running.skip(Skip(*place, status.offset, status.end))
        running.wait_position({place: 3 * EACH, TopicPartition(well, 0): EACH})
        eventually(lambda: gaps_of(running.status) == [("skipped", EACH, 2 * EACH)], WAIT, what="a gap")
        produce(mortal_stack.source.bootstrap, bad, numbered(EACH, start=3 * EACH))
        running.wait_position({place: 4 * EACH})
    rest = numbered(2 * EACH, start=2 * EACH)
    assert [each.value for each in flow.copies(bad)] == [each.value for each in [*numbered(EACH), *rest]]
    assert len(flow.copies(well)) == EACH
    # No run claims to have copied what was left out.
    covered = [(run.covered_from, run.upstream_end) for run in flow.runs()[place].runs]
    assert not any(begin < 2 * EACH and end > EACH for begin, end in covered), covered
    assert flow.copy(slots=1).state is PipelineState.CAUGHT_UP


@pytest.mark.long
def test_a_damaged_length_is_named(mortal_stack: LocalStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker sends nothing from there on, and no error. What stands in later segments is out of no one's reach."""
    monkeypatch.setattr(fetcher, "SILENT_SECONDS", 1.0)
    flow, bad, well = flow_with(mortal_stack, "report")
    assert isinstance(mortal_stack.source, Broker)
    damage(mortal_stack.source, bad, LENGTH)
    place = TopicPartition(bad, 0)
    with flow.pipeline(slots=1) as running:
        status = eventually(partial(failed, running), WAIT, what="the damage is named")
        assert (status.source, status.offset, status.end) == (place, EACH, -1)
        assert f"from offset {EACH} on" in status.why
        assert f"mirror-bridge skip {flow.spec.name} {bad}-0 --to OFFSET" in status.way_out
        running.wait_position({TopicPartition(well, 0): EACH, place: EACH})
        running.skip(Skip(*place, EACH, 3 * EACH))
        eventually(lambda: gaps_of(running.status) == [("skipped", EACH, 3 * EACH)], WAIT, what="a gap")
        running.wait_position({place: 3 * EACH})
    assert [each.value for each in flow.copies(bad)] == [each.value for each in numbered(EACH)]
