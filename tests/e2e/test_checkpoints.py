"""Checkpoints by our connector on a real worker, from stock's own JSON."""

from __future__ import annotations

from bridge.mm2.records import Checkpoint
from bridge.model.values import TopicPartition
from tests.e2e.control import checkpointing, heartbeats, our_control, wait_checkpoint
from tests.e2e.flow import SHIFT, Flow, exactly
from tests.support import commit, connector, eventually, unique
from tests.support.waits import WAIT


def test_a_checkpoint_is_exact_and_follows_the_group(flow: Flow) -> None:
    topic, group = flow.topic(), unique("checkpointed")
    commit(flow.source.bootstrap, group, {(topic, 0): 42})
    with checkpointing(flow, exactly(group), topics=topic) as name:
        result = wait_checkpoint(flow, group, topic, 42 + SHIFT)
        assert result == Checkpoint(group, TopicPartition(flow.remote(topic), 0), 42, 42 + SHIFT, "")
        commit(flow.source.bootstrap, group, {(topic, 0): 77})
        wait_checkpoint(flow, group, topic, 77 + SHIFT)
        commit(flow.source.bootstrap, group, {(topic, 0): 5})
        wait_checkpoint(flow, group, topic, 5 + SHIFT)
        assert flow.there(group) == {}

        def ready() -> None:
            report = flow.service.report(group, name)
            assert (report["ready"], report["verdict"]) == (True, "exact"), report

        eventually(ready, WAIT, what=f"{group} is ready by its checkpoint", watched=flow.watched)


def test_heartbeats_arrive_once_an_interval(flow: Flow) -> None:
    config = our_control("Heartbeat", flow, emit_heartbeats_interval_seconds=1)
    with connector(flow.worker, config, unique("heart")):
        before = len(heartbeats(flow.target))

        def beats() -> None:
            result = heartbeats(flow.target)
            assert len(result) >= before + 3, f"{len(result) - before} heartbeats"
            last = result[-1]
            assert (last.source_alias, last.target_alias) == (flow.source.name, flow.target.name)

        eventually(beats, WAIT, what="three heartbeats", watched=flow.watched)
