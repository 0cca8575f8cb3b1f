"""Two Connect clusters, one service, one connector name: the second is refused, and the first runs on undisturbed."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from bridge.local import NO_AUTHORITIES, ConnectFailed, LocalStack
from tests.e2e.flow import SHIFT, Flow, exactly
from tests.support import commit, connector, eventually, unique
from tests.support.waiting import wait_equal
from tests.support.waits import WAIT

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def sides(stack: LocalStack) -> tuple[Flow, Flow]:
    """A flow by a worker of one Connect cluster, and the same by one of another; both have the same service."""
    service = stack.service(unique("shared"))
    first, second = (stack.worker(unique(name), group_id=unique(name)) for name in ("east", "west"))
    flow = Flow(stack.source, stack.target, first, service)
    return flow, replace(flow, worker=second)


def _refused(flow: Flow, name: str, config: dict[str, str]) -> str:
    """What Connect answers to the PUT, which makes no connector."""
    with pytest.raises(ConnectFailed) as refusal:
        flow.worker.rest.put(name, config)
    assert name not in flow.worker.rest.connectors()
    return str(refusal.value)


def _tasks(flow: Flow, name: str) -> list[str]:
    return [task["state"] for task in flow.worker.rest.status(name)["tasks"]]


def _forget(flow: Flow, name: str) -> None:
    url = f"{flow.service.url}/v1/connectors/{name}"
    assert httpx.delete(url, verify=NO_AUTHORITIES).status_code == httpx.codes.NO_CONTENT


def test_a_name_that_another_connect_cluster_runs_is_refused_and_can_be_freed(
    sides: tuple[Flow, Flow],
) -> None:
    flow, other = sides
    topic, group = flow.topic(), unique("group")
    commit(flow.source.bootstrap, group, {(topic, 0): 40})
    config = flow.config(exactly(group))
    with connector(flow.worker, config, unique("same")) as name:
        flow.wait_there(group, {(topic, 0): 40 + SHIFT})
        sessions, tasks = flow.service.sessions(name), flow.worker.rest.tasks(name)
        why = _refused(other, name, other.config(exactly(unique("nobody"))))
        assert "Another Connect cluster runs" in why
        assert flow.worker.group_id in why
        flow.wait_undisturbed(name, sessions, tasks)
        flow.worker.rest.put(name, config | {"bridge.task.lease.ms": "6000"})  # its own is updated
        flow.wait_rounds(name)

        # Without the service nobody can refuse it at PUT.
        flow.process.stop()
        other.worker.rest.put(name, other.config(exactly(unique("nobody"))))
        flow.process.start()
        eventually(
            lambda: _tasks(other, name) == ["FAILED"], WAIT, what="the second fails", watched=flow.watched
        )
        assert flow.worker.group_id in other.worker.rest.status(name)["tasks"][0]["trace"]
        assert _tasks(flow, name) == ["RUNNING"]
        commit(flow.source.bootstrap, group, {(topic, 0): 50})
        flow.wait_there(group, {(topic, 0): 50 + SHIFT})
        other.worker.rest.delete(name)
        flow.wait_rounds(name)
        flow.wait_ready(group)
        assert flow.service.status(name)["conditions"] == []
        (known,) = (each for each in flow.service.health()["connectors"] if each["name"] == name)
        assert known["conditions"] == []

    # Deleted, or about to be back: nobody can tell.
    wait_equal(lambda: flow.service.task_states(name), ["stopped"], watched=flow.watched)
    assert f"mirror-bridge forget {name}" in _refused(other, name, config)
    _forget(flow, name)
    with connector(other.worker, config, name):
        commit(flow.source.bootstrap, group, {(topic, 0): 60})
        flow.wait_there(group, {(topic, 0): 60 + SHIFT})
