"""What the service answers to a session that a newer one has taken over from."""

from __future__ import annotations

from collections.abc import Callable

import httpx

from bridge.local import NO_AUTHORITIES
from tests.e2e.flow import SHIFT, Flow, exactly
from tests.support import commit, unique
from tests.support.waiting import wait_equal


def test_an_older_session_is_fenced_and_changes_nothing(flow: Flow) -> None:
    topic, group = flow.topic(), unique("fenced")
    other = unique("zombie")
    commit(flow.source.bootstrap, group, {(topic, 0): 40})
    commit(flow.source.bootstrap, other, {(topic, 0): 40})
    with flow.connector(exactly(group)) as name:
        flow.wait_there(group, {(topic, 0): 40 + SHIFT})
        status, config = flow.service.status(name), flow.config(exactly(other))
        session = status["tasks"][0]["session"]
        assert session[:13].isdigit()
        older = f"{int(session[:13]) - 60_000:013d}-zombie"
        task = f"{flow.service.url}/v1/connectors/{name}/tasks/0"
        start = {"session": older, "kind": "group_offset", "task_count": 1, "config": config}
        calls: dict[str, Callable[[], httpx.Response]] = {
            "start": lambda: httpx.put(task, json=start, verify=NO_AUTHORITIES),
            "poll": lambda: httpx.post(
                f"{task}/poll", json={"session": older, "wait_ms": 0}, verify=NO_AUTHORITIES
            ),
            "ack": lambda: httpx.post(
                f"{task}/ack", json={"session": older, "acked": []}, verify=NO_AUTHORITIES
            ),
            "stop": lambda: httpx.request("DELETE", task, json={"session": older}, verify=NO_AUTHORITIES),
            "connector": lambda: httpx.put(
                f"{flow.service.url}/v1/connectors/{name}",
                json={"session": older, "kind": "group_offset", "config": config},
                verify=NO_AUTHORITIES,
            ),
        }
        for what, call in calls.items():
            answer = call()
            assert answer.status_code == httpx.codes.CONFLICT, f"{what}: {answer.text}"
            body = answer.json()
            assert body["error_code"] == "fenced", what
            assert older in body["message"], what
        flow.wait_rounds(name)
        wait_equal(lambda: flow.service.sessions(name), {0: session}, watched=flow.watched)
        assert flow.there(other) == {}, "the zombie's configuration was taken"
        commit(flow.source.bootstrap, group, {(topic, 0): 50})
        flow.wait_there(group, {(topic, 0): 50 + SHIFT})
