"""What Connect has written comes back to the service: through the shim of a real worker."""

from __future__ import annotations

from tests.e2e.control import checkpointing, wait_checkpoint
from tests.e2e.flow import SHIFT, Flow, exactly
from tests.support import commit, eventually, unique
from tests.support.waiting import wait_equal
from tests.support.waits import WAIT


def test_b40_written_checkpoints_are_counted_with_the_latency_of_their_own_group(flow: Flow) -> None:
    topic, group, idle = flow.topic(), unique("checkpointed"), unique("idle")
    commit(flow.source.bootstrap, group, {(topic, 0): 42})
    with checkpointing(flow, f"{exactly(group)}, {exactly(idle)}", topics=topic) as name:
        wait_checkpoint(flow, group, topic, 42 + SHIFT)

        def acknowledged(records: int) -> None:
            status = flow.service.status(name)
            assert (status["records_written"], status["records_in_flight"], status["records_waiting"]) == (
                records,
                0,
                0,
            )
            latency = flow.service.report(group, name)["checkpoint_latency_ms"]
            assert latency["count"] == records, latency
            assert 0 < latency["mean"] <= latency["max"] < 10_000, latency

        eventually(
            lambda: acknowledged(1), WAIT, what="the first checkpoint is acknowledged", watched=flow.watched
        )
        commit(flow.source.bootstrap, group, {(topic, 0): 77})
        commit(flow.source.bootstrap, idle, {(topic, 0): 1})
        wait_checkpoint(flow, group, topic, 77 + SHIFT)
        wait_checkpoint(flow, idle, topic, 1 + SHIFT)
        eventually(lambda: _count(flow, group, name, 2), WAIT, what="its second", watched=flow.watched)
        eventually(lambda: _count(flow, idle, name, 1), WAIT, what="the other group's", watched=flow.watched)


def _count(flow: Flow, group: str, name: str, count: int) -> None:
    wait_equal(
        lambda: flow.service.report(group, name)["checkpoint_latency_ms"]["count"],
        count,
        watched=flow.watched,
    )
