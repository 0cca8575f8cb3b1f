"""What the service answers to a session that a newer one has taken over from."""

from __future__ import annotations

from collections.abc import Callable

import httpx

from tests.e2e.ground import SHIFT, Ground, exactly
from tests.support import commit, unique


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
