"""The life of a checkpoint and a heartbeat connector by the Connect REST API, and how many tasks they have."""

from __future__ import annotations

from collections import Counter

import httpx
import pytest

from bridge.local import ConnectFailed
from bridge.model.values import TopicPartition
from tests.e2e.control import aliased, beats, checkpoints, our_control, wait_checkpoint
from tests.e2e.flow import LONG_LEASE_MS, SHIFT, Flow, exactly, stays
from tests.support import commit, connector, delete_group, eventually, unique
from tests.support.forms import mostly_long
from tests.support.messages import message
from tests.support.waiting import wait_equal
from tests.support.waits import WAIT

INTERVALS = 2.0
"""Two intervals of connectors that emit every second."""


class Pair:
    """Both connectors, a group that moves on, and what has arrived of it on the target."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.topic, self.group = flow.topic(), unique("life")
        self.names = (unique("checkpoints"), unique("heart"))

    def put(self, **settings: object) -> None:
        for name, kind in zip(self.names, ("Checkpoint", "Heartbeat"), strict=True):
            groups = {"groups": exactly(self.group)} if kind == "Checkpoint" else {}
            chosen = {"emit_heartbeats_interval_seconds": 1, **groups, **settings}
            config = our_control(kind, self.flow, **chosen)
            self.flow.worker.rest.put(name, config | {"bridge.task.lease.ms": str(LONG_LEASE_MS)})

    def move(self, offset: int) -> None:
        commit(self.flow.source.bootstrap, self.group, {(self.topic, 0): offset})

    def lives(self, offset: int) -> None:
        """The group moves on, its checkpoint follows, and there is one more heartbeat."""
        before = len(beats(self.flow))
        self.move(offset)
        wait_checkpoint(self.flow, self.group, self.topic, offset + SHIFT)
        eventually(
            lambda: len(beats(self.flow)) > before,
            WAIT,
            what="one more heartbeat",
            watched=self.flow.watched,
        )

    def arrived(self) -> tuple[int, int]:
        """How many checkpoints and heartbeats there are."""
        return len(checkpoints(self.flow.target, self.flow.source.name)), len(beats(self.flow))

    def silent(self, what: str) -> None:
        before = self.arrived()
        stays(lambda: self.arrived() == before, INTERVALS, what=f"no record of a connector that is {what}")

    def sessions(self) -> dict[str, dict[int, str]]:
        return {name: self.flow.service.sessions(name) for name in self.names}

    def wait_tasks(self, state: str) -> None:
        """Until the service says this of all tasks."""

        def reported() -> None:
            for name in self.names:
                result = self.flow.service.status(name)
                states = {task["state"] for task in result["tasks"]}
                assert states == {state}, result

        eventually(reported, WAIT, what=f"all tasks are {state}", watched=self.flow.watched)


def test_what_is_told_by_rest_is_done(flow: Flow) -> None:
    pair = Pair(aliased(flow))
    rest = flow.worker.rest
    pair.put()
    try:
        for name in pair.names:
            rest.wait_running(name)
        pair.lives(10)
        first = pair.sessions()

        for name in pair.names:
            rest.pause(name)
        for name in pair.names:
            rest.wait_state(name, "PAUSED")
        paused = pair.arrived()
        pair.move(20)
        pair.wait_tasks("lapsed")
        for name in pair.names:
            ages = [task["last_poll_age_ms"] for task in flow.service.status(name)["tasks"]]
            assert max(ages) < LONG_LEASE_MS, "a pause is seen before the lease ends"
        assert pair.arrived() == paused, "what is made before the pause is seen waits"
        pair.silent("paused")
        for name in pair.names:
            rest.resume(name)
        wait_checkpoint(pair.flow, pair.group, pair.topic, 20 + SHIFT)
        pair.lives(30)
        assert pair.sessions() == first, "pausing restarts no task"

        for name in pair.names:
            rest.stop(name)
        for name in pair.names:
            rest.wait_state(name, "STOPPED", tasks=0)
        pair.wait_tasks("stopped")
        pair.move(40)
        pair.silent("stopped")
        for name in pair.names:
            rest.resume(name)
        wait_checkpoint(pair.flow, pair.group, pair.topic, 40 + SHIFT)
        pair.lives(50)
        second = pair.sessions()
        assert all(second[name][0] > first[name][0] for name in pair.names), (
            "the later session is the greater"
        )

        for name in pair.names:
            rest.restart(name, tasks=True)

        def restarted() -> bool:
            return all(pair.sessions()[name][0] > second[name][0] for name in pair.names)

        eventually(restarted, WAIT, what="both have new sessions", watched=flow.watched)
        pair.lives(60)

        pair.put(tasks_max=2)
        rest.wait_running(pair.names[0], tasks=2)
        rest.wait_running(pair.names[1], tasks=1)
        pair.lives(70)
    finally:
        for name in pair.names:
            rest.delete(name)
    pair.wait_tasks("stopped")
    pair.move(80)
    pair.silent("deleted")
    made = checkpoints(pair.flow.target, pair.flow.source.name)
    assert [each.upstream_offset for each in made] == list(range(10, 71, 10)), "one for each move, none twice"
    assert all(each.downstream_offset == each.upstream_offset + SHIFT for each in made)
    # One that Connect was writing when the task was restarted comes again: Connect has not said that it was written.
    assert list(dict.fromkeys(beats(pair.flow))) == sorted(set(beats(pair.flow)))


@pytest.mark.parametrize(
    ("kind", "settings", "tasks"),
    mostly_long(
        [
            ("Checkpoint", {"enabled": "false"}, 0),
            ("Checkpoint", {"enabled": "false", "emit_checkpoints_enabled": "false"}, 0),
            ("Checkpoint", {"tasks_max": 3}, 3),
            ("Heartbeat", {"enabled": "false"}, 1),
            ("Heartbeat", {"emit_heartbeats_enabled": "false"}, 0),
            ("Heartbeat", {"tasks_max": 3}, 1),
        ]
    ),
    ids=str,
)
def test_tasks_are_as_many_as_stock_has(
    flow: Flow, kind: str, settings: dict[str, object], tasks: int
) -> None:
    """D12; stock §1.1, §1.4: `enabled` is not asked by the heartbeat connector. (Without any group stock's checkpoint
    connector has no task either; ours does not restart its tasks because groups come, so it has them at once.)"""
    unique_flow = aliased(flow)
    with connector(flow.worker, our_control(kind, unique_flow, groups="nobody", **settings)) as name:
        flow.worker.rest.wait_running(name, tasks=tasks)
        wait_equal(lambda: len(flow.worker.rest.tasks(name)), tasks, watched=flow.watched)
        if kind == "Heartbeat" and tasks:
            eventually(lambda: len(beats(unique_flow)) > 0, WAIT, what="a heartbeat", watched=flow.watched)


def test_a_checkpoint_connector_that_emits_no_checkpoints_is_refused(flow: Flow) -> None:
    """stock §1.8: stock's words."""
    with pytest.raises(ConnectFailed) as refused:
        flow.worker.rest.put(
            unique("refused"),
            our_control("Checkpoint", aliased(flow), groups="nobody", emit_checkpoints_enabled="false"),
        )
    assert refused.value.status == httpx.codes.BAD_REQUEST
    assert message("connect.checkpoints_off") in str(refused.value)


def test_b12_each_group_has_one_task_and_groups_that_come_and_go_restart_none(flow: Flow) -> None:
    unique_flow = aliased(flow)
    topic, mark = unique_flow.topic(), unique("many")
    groups = [f"{mark}-{number}" for number in range(20)]
    place = TopicPartition(unique_flow.remote(topic), 0)

    def wait_checkpoints(expected: dict[str, int]) -> None:
        """Until the last checkpoints are exactly these, by group and source offset."""

        def written() -> None:
            last = {
                each.group: each.downstream_offset
                for each in checkpoints(unique_flow.target, unique_flow.source.name)
                if each.topic_partition == place
            }
            downstream = {group: offset + SHIFT for group, offset in expected.items()}
            assert {group: last.get(group) for group in expected} == downstream

        eventually(
            written, WAIT, what=f"{len(expected)} groups have their checkpoint", watched=unique_flow.watched
        )

    for number, group in enumerate(groups):
        commit(unique_flow.source.bootstrap, group, {(topic, 0): number + 1})
    with connector(
        unique_flow.worker, our_control("Checkpoint", unique_flow, groups=f"{mark}.*", tasks_max=3)
    ) as name:
        unique_flow.worker.rest.wait_running(name, tasks=3)
        wait_checkpoints({group: number + 1 for number, group in enumerate(groups)})
        homes = {group: unique_flow.service.report(group)["task"] for group in groups}
        assert set(homes.values()) == {0, 1, 2}, f"20 groups on three tasks: {Counter(homes.values())}"
        sessions, configs = unique_flow.service.sessions(name), unique_flow.worker.rest.tasks(name)

        added, removed = f"{mark}-added", groups[0]
        commit(unique_flow.source.bootstrap, added, {(topic, 0): 90})
        delete_group(unique_flow.source.bootstrap, removed)
        wait_checkpoints({added: 90})
        eventually(
            lambda: sorted(unique_flow.service.groups(name)) == sorted([*groups[1:], added]),
            WAIT,
            what="the group that is gone is reported no more",
            watched=unique_flow.watched,
        )
        one_of_each = {homes[group]: group for group in groups[1:]}
        for group in one_of_each.values():
            commit(unique_flow.source.bootstrap, group, {(topic, 0): 50})
        wait_checkpoints(dict.fromkeys(one_of_each.values(), 50))
        wait_equal(
            lambda: {task: unique_flow.service.report(group)["task"] for task, group in one_of_each.items()},
            {task: task for task in one_of_each},
            watched=unique_flow.watched,
        )
        assert len(configs) == 3
        unique_flow.wait_undisturbed(name, sessions, configs)
    made = Counter(
        (each.group, each.upstream_offset)
        for each in checkpoints(unique_flow.target, unique_flow.source.name)
    )
    assert set(made.values()) == {1}, "emitted by two tasks"
    assert len(made) == 20 + 1 + 3
