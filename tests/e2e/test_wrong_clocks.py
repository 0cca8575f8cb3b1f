"""Workers whose time of day is an hour off, either way: their tasks run, and go from one to the other, as ever."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bridge.local import ConnectWorker, LocalStack
from tests.e2e.flow import SHIFT, Flow, exactly
from tests.support import bounds, commit, eventually, unique
from tests.support.records import last
from tests.support.waits import WAIT
from tests.support.wrong_clock import COMPILER, clock_library, shifted

HOUR = 3600
CLASSES = ("MirrorGroupOffsetConnector", "BridgeMirrorCheckpointConnector")

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(COMPILER is None, reason="a clock is made wrong by a library in C: needs cc"),
]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return clock_library(tmp_path_factory.mktemp("clock"))


@pytest.fixture
def workers(stack: LocalStack, library: Path) -> Iterator[ConnectWorker]:
    """An hour ahead, and then, once that one is killed, an hour behind."""
    group = unique("clocks")
    return (
        stack.worker(unique("clock"), group_id=group, environment=shifted(library, seconds))
        for seconds in (HOUR, -HOUR)
    )


def test_tasks_go_from_a_worker_an_hour_ahead_to_one_an_hour_behind(
    unique_flow: Flow, workers: Iterator[ConnectWorker]
) -> None:
    flow = replace(unique_flow, worker=next(workers))
    topic, groups = flow.topic(), [unique("group") for _ in CLASSES]
    names = [unique("ours") for _ in CLASSES]
    settings = {
        "sync.group.offsets.enabled": "true",
        "emit.checkpoints.interval.seconds": "1",
        "checkpoints.topic.replication.factor": "1",
    }

    def move_on(flow: Flow, offset: int) -> None:
        for group in groups:
            commit(flow.source.bootstrap, group, {(topic, 0): offset})
        for group in groups:
            flow.wait_there(group, {(topic, 0): offset + SHIFT}, WAIT)

    def check_clock(ahead: int) -> None:
        """That the worker's time of day is so many seconds ahead: what it writes of its own has that time."""
        statuses = f"{flow.worker.group_id}-status"

        def there() -> None:
            _, end = bounds(flow.target.bootstrap, statuses)[0]
            record = last(flow.target.bootstrap, statuses, 0, end)
            assert record is not None
            assert record.timestamp is not None
            assert abs(record.timestamp / 1000 - time.time() - ahead) < HOUR / 2

        eventually(there, WAIT, what="a status with the worker's time", watched=flow.watched)

    for cls, name, group in zip(CLASSES, names, groups, strict=True):
        commit(flow.source.bootstrap, group, {(topic, 0): 10})
        config = flow.config(exactly(group), connector_class=cls)
        flow.worker.rest.put(name, config | (settings if "Checkpoint" in cls else {}))
    check_clock(HOUR)
    move_on(flow, 20)
    before = [flow.service.sessions(name) for name in names]
    flow.worker.kill()
    flow = replace(flow, worker=next(workers))

    def taken_over() -> None:
        for name, sessions in zip(names, before, strict=True):
            assert flow.service.sessions(name)[0] > sessions[0]
            assert flow.service.task_states(name) == ["active"]

    eventually(taken_over, WAIT, what="the tasks run there", watched=flow.watched)
    check_clock(-HOUR)
    move_on(flow, 30)
    for name in names:
        assert flow.worker.rest.status(name)["tasks"][0]["state"] == "RUNNING"
        flow.worker.rest.delete(name)
