"""A connector's life by the Connect REST API, and what health, status and the groups on the target make of it."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack

import httpx
import pytest

from bridge.local import ConnectFailed
from tests.e2e.flow import LONG_LEASE_MS, SHIFT, Flow, Json, exactly, stays
from tests.support import commit, delete_group, eventually, unique
from tests.support.waiting import wait_equal
from tests.support.waits import WAIT

IDLE_MS = 800
"""A task reports that it is not polled after five checks, 200 ms apart; the first may follow a poll at once."""
INTERVALS = 3.0
"""Three intervals of a connector that syncs every second."""


def _in_health(flow: Flow, name: str) -> Json:
    (result,) = [each for each in flow.service.health()["connectors"] if each["name"] == name]
    return result


def _follows(flow: Flow, group: str, topic: str, offset: int) -> None:
    commit(flow.source.bootstrap, group, {(topic, 0): offset})
    flow.wait_there(group, {(topic, 0): offset + SHIFT})


def _wait_rest(flow: Flow, name: str) -> None:
    """A round that was under way when the connector's tasks ended comes to its end."""
    rounds, since = -1, 0.0

    def rests() -> bool:
        nonlocal rounds, since
        if (now := flow.service.status(name)["rounds"]) != rounds:
            rounds, since = now, time.monotonic()
        return time.monotonic() - since > 2.0

    eventually(rests, WAIT, what=f"{name} has ended its last round", watched=flow.watched)


def _follows_no_more(flow: Flow, group: str, topic: str, offset: int) -> None:
    before = flow.there(group)
    commit(flow.source.bootstrap, group, {(topic, 0): offset})
    stays(lambda: flow.there(group) == before, INTERVALS, what=f"{group} stands at {before}")


def _wait_state(flow: Flow, name: str, state: str, tasks: list[str]) -> None:
    def reached() -> None:
        status = flow.service.status(name)
        result = [task["state"] for task in status["tasks"]]
        assert (status["state"], result) == (state, tasks), status
        assert _in_health(flow, name)["state"] == state

    eventually(reached, WAIT, what=f"{name} is {state} with tasks {tasks}", watched=flow.watched)


@pytest.mark.long
def test_groups_appear_and_vanish_without_any_task_restarting(flow: Flow) -> None:
    topic, mark = flow.topic(), unique("churn")
    first = [f"{mark}-first-{number}" for number in range(9)]
    later = [f"{mark}-later-{number}" for number in range(9)]
    for number, group in enumerate(first):
        commit(flow.source.bootstrap, group, {(topic, 0): number + 1})
    with flow.connector(f"{mark}.*", tasks_max=3) as name:
        flow.worker.rest.wait_running(name, tasks=3)
        for number, group in enumerate(first):
            flow.wait_there(group, {(topic, 0): number + 1 + SHIFT})
        _wait_state(flow, name, "running", ["active"] * 3)

        def counted() -> tuple[int, int, int, list[str]]:
            status = _in_health(flow, name)
            return status["task_count"], status["groups"], status["exact"], status["errors"]

        # The offsets are on the target before the round ends that counts them.
        whole: tuple[int, int, int, list[str]] = (3, 9, 9, [])
        wait_equal(counted, whole, watched=flow.watched)
        sessions, configs = flow.service.sessions(name), flow.worker.rest.tasks(name)
        assert sorted(sessions) == [0, 1, 2]

        for number, group in enumerate(later):
            commit(flow.source.bootstrap, group, {(topic, 0): number + 50})
        for number, group in enumerate(later):
            flow.wait_there(group, {(topic, 0): number + 50 + SHIFT})
        for group in first:
            delete_group(flow.source.bootstrap, group)
        eventually(
            lambda: sorted(flow.service.groups(name)) == later,
            WAIT,
            what="groups that are gone are reported no more",
            watched=flow.watched,
        )
        tasks = {group: flow.service.report(group)["task"] for group in later}
        assert set(tasks.values()) <= {0, 1, 2}
        assert max(Counter(tasks.values()).values()) < len(later), f"one task has everything: {tasks}"
        # What was synced stays on the target: groups that end on the source may go on there.
        assert all(flow.there(group) for group in first)

        assert len(configs) == 3
        flow.wait_undisturbed(name, sessions, configs)


@pytest.mark.long
def test_a_paused_connector_is_idle_before_its_lease_ends_and_goes_on_when_resumed(flow: Flow) -> None:
    topic, group = flow.topic(), unique("paused")
    with flow.connector(exactly(group), tasks_max=2, bridge_task_lease_ms=LONG_LEASE_MS) as name:
        _follows(flow, group, topic, 10)
        sessions = flow.service.sessions(name)
        flow.worker.rest.pause(name)
        flow.worker.rest.wait_state(name, "PAUSED")
        _wait_state(flow, name, "idle", ["lapsed", "lapsed"])
        ages = [task["last_poll_age_ms"] for task in flow.service.status(name)["tasks"]]
        assert IDLE_MS <= min(ages) <= max(ages) < LONG_LEASE_MS, (
            "a pause is seen, nobody waits for the lease"
        )
        _wait_rest(flow, name)
        _follows_no_more(flow, group, topic, 20)
        flow.worker.rest.resume(name)
        flow.wait_there(group, {(topic, 0): 20 + SHIFT})
        _wait_state(flow, name, "running", ["active", "active"])
        wait_equal(lambda: flow.service.sessions(name), sessions, watched=flow.watched)


def test_a_stopped_connector_lets_go_at_once_and_comes_back_in_new_sessions(flow: Flow) -> None:
    topic, group = flow.topic(), unique("stopped")
    with flow.connector(exactly(group), tasks_max=2, bridge_task_lease_ms=LONG_LEASE_MS) as name:
        _follows(flow, group, topic, 10)
        sessions = flow.service.sessions(name)
        flow.worker.rest.stop(name)
        flow.worker.rest.wait_state(name, "STOPPED", tasks=0)
        _wait_state(flow, name, "idle", ["stopped", "stopped"])
        ages = [task["last_poll_age_ms"] for task in flow.service.status(name)["tasks"]]
        assert max(ages) < LONG_LEASE_MS, "a stop is told, nobody waits for the lease"
        _wait_rest(flow, name)
        _follows_no_more(flow, group, topic, 20)
        flow.worker.rest.resume(name)
        flow.wait_there(group, {(topic, 0): 20 + SHIFT})
        _wait_state(flow, name, "running", ["active", "active"])
        after = flow.service.sessions(name)
        assert all(after[task] > sessions[task] for task in (0, 1)), "the later session is the greater"


@pytest.mark.long
def test_restarts_begin_new_sessions_of_what_was_restarted(flow: Flow) -> None:
    topic, group = flow.topic(), unique("restarted")
    with flow.connector(exactly(group), tasks_max=2) as name:
        _follows(flow, group, topic, 10)
        first = flow.service.sessions(name)

        flow.worker.rest.restart_task(name, 1)
        eventually(lambda: flow.service.sessions(name)[1] > first[1], WAIT, what="task 1 has a new session")
        second = flow.service.sessions(name)
        assert second[0] == first[0], "only task 1 was restarted"
        _wait_state(flow, name, "running", ["active", "active"])
        _follows(flow, group, topic, 20)

        flow.worker.rest.restart(name, tasks=False)
        flow.worker.rest.wait_running(name, tasks=2)
        _follows(flow, group, topic, 30)
        wait_equal(lambda: flow.service.sessions(name), second, watched=flow.watched)

        flow.worker.rest.restart(name, tasks=True)
        eventually(
            lambda: all(flow.service.sessions(name)[task] > second[task] for task in (0, 1)),
            WAIT,
            what="both tasks have new sessions",
        )
        flow.worker.rest.wait_running(name, tasks=2)
        _wait_state(flow, name, "running", ["active", "active"])
        _follows(flow, group, topic, 40)


def test_a_deleted_connector_writes_nothing_more(flow: Flow) -> None:
    topic, group = flow.topic(), unique("deleted")
    with flow.connector(exactly(group)) as name:
        _follows(flow, group, topic, 10)
    eventually(lambda: name not in flow.worker.rest.connectors(), WAIT, what=f"{name} is gone")
    with pytest.raises(ConnectFailed) as gone:
        flow.worker.rest.config(name)
    assert gone.value.status == httpx.codes.NOT_FOUND
    _wait_state(flow, name, "idle", ["stopped"])
    _wait_rest(flow, name)
    _follows_no_more(flow, group, topic, 20)


def test_a_new_configuration_is_taken_over(flow: Flow) -> None:
    topic, first, second = flow.topic(), unique("one"), unique("two")
    with flow.connector(exactly(first)) as name:
        _follows(flow, first, topic, 10)
        commit(flow.source.bootstrap, second, {(topic, 0): 30})
        flow.worker.rest.put(name, flow.config(exactly(second), tasks_max=2))
        flow.wait_there(second, {(topic, 0): 30 + SHIFT})
        flow.worker.rest.wait_running(name, tasks=2)
        eventually(
            lambda: list(flow.service.groups(name)) == [second], WAIT, what="only the new group is reported"
        )
        _follows_no_more(flow, first, topic, 20)


def test_connectors_of_both_directions_and_several_names_share_a_service(flow: Flow) -> None:
    back = flow.reversed()
    topic, returning = flow.topic(), back.topic(shift=3)
    both, forward, backward = unique("both"), unique("forward"), unique("backward")
    with ExitStack() as running:
        names = [
            running.enter_context(way.connector("|".join(map(exactly, groups))))
            for way, groups in ((flow, (both, forward)), (back, (both, backward)))
        ]
        commit(flow.source.bootstrap, forward, {(topic, 0): 40})
        commit(flow.target.bootstrap, backward, {(returning, 0): 60})
        flow.wait_there(forward, {(topic, 0): 40 + SHIFT})
        back.wait_there(backward, {(returning, 0): 60 + 3})
        # One id on both clusters: each connector has its own report, and neither mirrors what the other wrote.
        commit(flow.source.bootstrap, both, {(topic, 0): 50})
        flow.wait_there(both, {(topic, 0): 50 + SHIFT})
        commit(flow.target.bootstrap, both, {(returning, 0): 70})
        eventually(
            lambda: back.there(both).get((back.remote(returning), 0)) == 73, WAIT, what=f"{both} is back on A"
        )
        for way, name in zip((flow, back), names, strict=True):
            way.wait_rounds(name)
            report = flow.service.report(both, name)
            assert (report["source"], report["target"]) == (way.source.name, way.target.name)
            assert [row["topic"] for row in report["partitions"]] == [topic if way is flow else returning]
        here = {(topic, 0): 50, (back.remote(returning), 0): 73}
        assert back.there(both) == here
        assert flow.there(both) == {(flow.remote(topic), 0): 57, (returning, 0): 70}
        for name in names:
            status = flow.service.status(name)
            assert (status["state"], status["waiting_for"]) == ("running", [])
