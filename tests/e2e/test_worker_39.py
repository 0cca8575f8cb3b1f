"""The oldest worker that the shim runs in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.local import OLDEST_WORKER, ConnectFailed, LocalStack
from tests.e2e.flow import CLASS, FULL_CLASS, SHIFT, WAIT, Flow, exactly
from tests.support import commit, eventually, unique


def test_the_oldest_worker_syncs_groups(stack: LocalStack, flow: Flow) -> None:
    worker = stack.worker("worker-39", version=OLDEST_WORKER)
    assert worker.rest.get("/")["version"] == OLDEST_WORKER
    old = replace(flow, worker=worker)
    topic, group = old.topic(partitions=2), unique("old")
    commit(old.source.bootstrap, group, {(topic, 0): 12, (topic, 1): 34})
    errors = worker.rest.validation_errors(CLASS, {**old.config(group, dry_run="perhaps"), "name": "x"})
    assert list(errors) == ["dry.run"]
    with old.connector(exactly(group), tasks_max=2, connector_class=FULL_CLASS) as name:
        worker.rest.wait_running(name, tasks=2)
        old.wait_there(group, {(topic, 0): 12 + SHIFT, (topic, 1): 34 + SHIFT})
        commit(old.source.bootstrap, group, {(topic, 1): 56})
        old.wait_there(group, {(topic, 0): 12 + SHIFT, (topic, 1): 56 + SHIFT})
        assert old.service.status(name)["exact"] == 2
        with pytest.raises(ConnectFailed, match=r"bridge\.task\.lease\.ms"):
            worker.rest.put(name, old.config(group, bridge_task_lease_ms=1))
    eventually(lambda: name not in worker.rest.connectors(), WAIT, what=f"{name} is gone")
    eventually(
        lambda: old.service.task_states(name) == ["stopped", "stopped"], WAIT, what="its tasks have ended"
    )
    worker.close()
