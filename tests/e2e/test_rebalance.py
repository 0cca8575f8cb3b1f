"""Two workers of one group: tasks move, zombies are fenced, and a worker stops in time whatever the service does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import httpx
import pytest

from bridge.local import BridgeService, ConnectWorker, LocalStack
from tests.e2e.faults import MOVE_SECONDS, lines_of, spread_over
from tests.e2e.ground import CLASS, SHIFT, WAIT, Ground, exactly, stays
from tests.support import commit, eventually, unique


@pytest.fixture(scope="module")
def pair(stack: LocalStack, ground: Ground) -> Iterator[tuple[Ground, ConnectWorker]]:
    """Ground on a worker of its own, and a second worker of the same group, which may be killed."""
    group_id = unique("pair")
    first, second = (stack.worker(f"{group_id}-{number}", group_id=group_id) for number in (1, 2))
    try:
        yield replace(ground, worker=first), second
    finally:
        second.close()
        first.close()


def test_every_group_goes_on_when_a_worker_is_killed_and_comes_back(
    pair: tuple[Ground, ConnectWorker],
) -> None:
    ground, second = pair
    topic, mark = ground.topic(1000), unique("moved")
    groups = [f"{mark}-{number}" for number in range(8)]

    def all_follow(offset: int) -> None:
        for group in groups:
            commit(ground.source.bootstrap, group, {(topic, 0): offset})
        for group in groups:
            ground.wait_there(group, {(topic, 0): offset + SHIFT}, timeout=MOVE_SECONDS)

    with ground.connector(f"{mark}.*", tasks_max=4) as name:
        spread_over(ground.worker, name, 2)
        all_follow(100)
        before = ground.service.sessions(name)
        second.kill()
        all_follow(200)
        spread_over(ground.worker, name, 1)
        second.start()
        spread_over(ground.worker, name, 2)
        all_follow(300)
        assert ground.service.task_states(name) == ["active"] * 4
        after = ground.service.sessions(name)
        assert sorted(after) == [0, 1, 2, 3]
        assert any(after[task] > before[task] for task in after), "tasks have moved"
        assert ground.service.status(name)["errors"] == []


def test_an_older_session_is_fenced_and_changes_nothing(ground: Ground) -> None:
    topic, group = ground.topic(), unique("fenced")
    other = unique("zombie")
    commit(ground.source.bootstrap, group, {(topic, 0): 40})
    commit(ground.source.bootstrap, other, {(topic, 0): 40})
    with ground.connector(exactly(group)) as name:
        ground.wait_there(group, {(topic, 0): 40 + SHIFT})
        status, config = ground.service.status(name), ground.config(exactly(other))
        session = status["tasks"][0]["session"]
        assert session[:13].isdigit()
        older = f"{int(session[:13]) - 60_000:013d}-zombie"
        task = f"{ground.service.url}/v1/connectors/{name}/tasks/0"
        start = {"session": older, "kind": "group_offset", "task_count": 1, "config": config}
        calls: dict[str, Callable[[], httpx.Response]] = {
            "start": lambda: httpx.put(task, json=start),
            "poll": lambda: httpx.post(f"{task}/poll", json={"session": older, "wait_ms": 0}),
            "ack": lambda: httpx.post(f"{task}/ack", json={"session": older, "acked": []}),
            "stop": lambda: httpx.request("DELETE", task, json={"session": older}),
            "connector": lambda: httpx.put(
                f"{ground.service.url}/v1/connectors/{name}",
                json={"session": older, "kind": "group_offset", "config": config},
            ),
        }
        for what, call in calls.items():
            answer = call()
            assert answer.status_code == httpx.codes.CONFLICT, f"{what}: {answer.text}"
            body = answer.json()
            assert body["error_code"] == "fenced", what
            assert older in body["message"], what
        ground.wait_rounds(name)
        assert ground.service.sessions(name) == {0: session}
        assert ground.there(other) == {}, "the zombie's configuration was taken"
        commit(ground.source.bootstrap, group, {(topic, 0): 50})
        ground.wait_there(group, {(topic, 0): 50 + SHIFT})


def test_a_worker_that_wakes_up_too_late_is_fenced(pair: tuple[Ground, ConnectWorker]) -> None:
    """SIGSTOP past the lease and the session timeout: the tasks move, and the sleeper's own are zombies."""
    ground, second = pair
    topic, group = ground.topic(1000), unique("sleeper")
    with ground.connector(exactly(group), tasks_max=4) as name:
        homes = spread_over(ground.worker, name, 2)
        commit(ground.source.bootstrap, group, {(topic, 0): 100})
        ground.wait_there(group, {(topic, 0): 100 + SHIFT})
        sleeping = [task for task, home in homes.items() if home == second.url.removeprefix("http://")]
        before = ground.service.sessions(name)
        second.process.pause()
        try:
            eventually(
                lambda: all(ground.service.task_states(name)[task] == "lapsed" for task in sleeping),
                WAIT,
                what="the sleeper's leases have run out",
            )
            spread_over(ground.worker, name, 1)
            eventually(
                lambda: ground.service.task_states(name) == ["active"] * 4,
                WAIT,
                what="all tasks are active again",
            )
            commit(ground.source.bootstrap, group, {(topic, 0): 200})
            ground.wait_there(group, {(topic, 0): 200 + SHIFT})
        finally:
            second.process.resume()
        taken = ground.service.sessions(name)
        assert all(taken[task] > before[task] for task in sleeping)
        told = "a newer session has taken over"
        eventually(lambda: lines_of(second, name, told), WAIT, what="the sleeper says that it is fenced")
        # Awake, it is given tasks again, in new sessions; the old ones are never served.
        spread_over(ground.worker, name, 2)
        after = ground.service.sessions(name)
        assert all(after[task] >= taken[task] for task in after)
        assert not any(before[task] == after[task] for task in sleeping)
        fenced = lines_of(second, name, told)
        assert len(fenced) <= len(sleeping), f"a zombie says so once: {fenced}"
        assert [task["state"] for task in ground.worker.rest.status(name)["tasks"]] == ["RUNNING"] * 4
        commit(ground.source.bootstrap, group, {(topic, 0): 300})
        ground.wait_there(group, {(topic, 0): 300 + SHIFT})
        stays(
            lambda: set(ground.there(group).values()) == {300 + SHIFT},
            2.0,
            what="nobody writes anything else",
        )


def test_a_worker_stops_in_time_while_the_service_hangs(
    stack: LocalStack, pair: tuple[Ground, ConnectWorker], record_property: Callable[[str, object], None]
) -> None:
    ground, second = pair
    hanging: BridgeService = stack.service(unique("hanging"))
    mine = replace(ground, process=hanging)
    topic, group = mine.topic(), unique("hanging")
    with mine.connector(exactly(group), tasks_max=4) as name:
        spread_over(mine.worker, name, 2)
        commit(mine.source.bootstrap, group, {(topic, 0): 50})
        mine.wait_there(group, {(topic, 0): 50 + SHIFT})
        hanging.process.pause()
        try:
            began = time.monotonic()
            second.stop()
            took = time.monotonic() - began
            record_property("seconds to stop a worker while the service hangs", round(took, 2))
            assert second.process.exit_status in (0, 143), "it ended by itself"
            assert took < 8.0, f"the worker took {took:.1f} s to stop"
            # The REST API of the one that is left is not held up either.
            began = time.monotonic()
            assert mine.worker.rest.validation_errors(CLASS, {**mine.config("x"), "name": "x"}) == {}
            assert time.monotonic() - began < 8.0
        finally:
            hanging.process.resume()
        eventually(
            lambda: hanging.process.running and mine.service.task_states(name) == ["active"] * 4,
            MOVE_SECONDS,
            what="all tasks are served again, by the other worker",
        )
        commit(mine.source.bootstrap, group, {(topic, 0): 60})
        mine.wait_there(group, {(topic, 0): 60 + SHIFT})
    second.start()
