"""Checkpoints by our connector on a real worker, from stock's own JSON."""

from __future__ import annotations

from bridge.mm2.records import Checkpoint
from bridge.model.values import TopicPartition
from tests.e2e.control import checkpointing, heartbeats, our_control, wait_checkpoint
from tests.e2e.ground import SHIFT, WAIT, Ground, exactly
from tests.support import commit, connector, eventually, unique


def test_a_checkpoint_is_exact_and_follows_the_group(ground: Ground) -> None:
    topic, group = ground.topic(), unique("checkpointed")
    commit(ground.source.bootstrap, group, {(topic, 0): 42})
    with checkpointing(ground, exactly(group), topics=topic) as name:
        found = wait_checkpoint(ground, group, topic, 42 + SHIFT)
        assert found == Checkpoint(group, TopicPartition(ground.remote(topic), 0), 42, 42 + SHIFT, "")
        commit(ground.source.bootstrap, group, {(topic, 0): 77})
        wait_checkpoint(ground, group, topic, 77 + SHIFT)
        commit(ground.source.bootstrap, group, {(topic, 0): 5})
        wait_checkpoint(ground, group, topic, 5 + SHIFT)
        assert ground.there(group) == {}

        def ready() -> None:
            report = ground.service.report(group, name)
            assert (report["ready"], report["verdict"]) == (True, "exact"), report

        eventually(ready, WAIT, what=f"{group} is ready by its checkpoint", watched=ground.watched)


def test_heartbeats_arrive_once_an_interval(ground: Ground) -> None:
    config = our_control("Heartbeat", ground, emit_heartbeats_interval_seconds=1)
    with connector(ground.worker, config, unique("heart")):
        before = len(heartbeats(ground.target))

        def beats() -> None:
            found = heartbeats(ground.target)
            assert len(found) >= before + 3, f"{len(found) - before} heartbeats"
            last = found[-1]
            assert (last.source_alias, last.target_alias) == (ground.source.name, ground.target.name)

        eventually(beats, WAIT, what="three heartbeats", watched=ground.watched)
