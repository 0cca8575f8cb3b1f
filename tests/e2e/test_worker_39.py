"""The oldest worker that the shim runs in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.local import OLDEST_WORKER, ConnectFailed, LocalStack
from bridge.local.stack import SOURCE
from tests.e2e.control import aliased
from tests.e2e.copying import fill, sinking, wait_committed, wait_copied, wait_task
from tests.e2e.flow import CLASS, FULL_CLASS, SHIFT, Flow, exactly
from tests.support import commit, create_topic, eventually, unique
from tests.support.waiting import wait_equal
from tests.support.waits import WAIT


@pytest.fixture(scope="module")
def old(stack: LocalStack, flow: Flow) -> Flow:
    """The worker stands at the source."""
    return replace(flow, worker=stack.worker("worker-39", version=OLDEST_WORKER, on=SOURCE))


@pytest.mark.long
def test_the_oldest_worker_syncs_groups(old: Flow) -> None:
    worker = old.worker
    wait_equal(lambda: worker.rest.get("/")["version"], OLDEST_WORKER)
    topic, group = old.topic(partitions=2), unique("old")
    commit(old.source.bootstrap, group, {(topic, 0): 12, (topic, 1): 34})
    errors = worker.rest.validation_errors(CLASS, {**old.config(group, dry_run="perhaps"), "name": "x"})
    assert list(errors) == ["dry.run"]
    with old.connector(exactly(group), tasks_max=2, connector_class=FULL_CLASS) as name:
        worker.rest.wait_running(name, tasks=2)
        old.wait_there(group, {(topic, 0): 12 + SHIFT, (topic, 1): 34 + SHIFT})
        commit(old.source.bootstrap, group, {(topic, 1): 56})
        old.wait_there(group, {(topic, 0): 12 + SHIFT, (topic, 1): 56 + SHIFT})
        wait_equal(lambda: old.service.status(name)["exact"], 2, watched=old.watched)
        with pytest.raises(ConnectFailed, match=r"bridge\.task\.lease\.ms"):
            worker.rest.put(name, old.config(group, bridge_task_lease_ms=1))
    eventually(lambda: name not in worker.rest.connectors(), WAIT, what=f"{name} is gone")
    eventually(
        lambda: old.service.task_states(name) == ["stopped", "stopped"], WAIT, what="its tasks have ended"
    )


@pytest.mark.long
def test_the_oldest_worker_pauses_and_resumes_a_sink(old: Flow) -> None:
    way = aliased(old)
    topic = create_topic(way.source.bootstrap, unique("orders"), 2)
    fill(way, topic, 0, partitions=2)
    with sinking(way, topics=topic) as name:
        wait_copied(way, topic)
        wait_committed(way, name, topic)
        way.worker.rest.pause(name)
        wait_task(way, name, "lapsed")
        way.worker.rest.resume(name)
        wait_task(way, name, "active")
