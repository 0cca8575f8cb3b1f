"""Configurations that would not fit into what crosses to the rounds process."""

from __future__ import annotations

import asyncio

import pytest

from bridge.errors import ConfigRejected, Overloaded
from bridge.service.checks import config_sizes
from bridge.service.checks.config_sizes import MOST_CHARACTERS, MOST_OF_ONE, check_room
from bridge.service.ipc.messages import MOST_BYTES, pack_desired
from bridge.service.state.task_table import TaskTable
from tests.unit.service.http.test_routes import START, service_harness
from tests.unit.service.service_fakes import session


def test_what_is_accepted_fits_into_a_frame_and_what_would_not_is_refused() -> None:
    """Before, the rounds process ended on it, and on the next one's start again, for ever."""
    table = TaskTable(lambda: 0.0)
    config = {"topics": "\x01" * (MOST_OF_ONE - 100)}
    for number in range(8):
        check_room(table, f"c{number}", config)
        table.start_task(f"c{number}", 0, session(1), "fake", 1, config)
    with pytest.raises(Overloaded, match=f"the limit of one service is {MOST_CHARACTERS}"):
        check_room(table, "c8", config)
    assert len(list(table)) == 8
    assert len(pack_desired(table.desired())) < MOST_BYTES


def test_one_configuration_that_is_too_large_is_an_error_of_its_largest_key() -> None:
    with pytest.raises(ConfigRejected) as caught:
        check_room(TaskTable(lambda: 0.0), "c", {"a": "b", "topics": "x" * (MOST_OF_ONE + 1)})
    assert caught.value.errors[0].key == "topics"
    assert str(MOST_OF_ONE) in str(caught.value)


def test_a_service_that_has_its_most_tasks_takes_no_other_connector(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks that run already may start again: a worker that restarts is no new load."""
    monkeypatch.setattr(config_sizes, "MOST_TASKS", 3)
    table = TaskTable(lambda: 0.0)
    config = {"topics": "t"}
    for index in range(3):
        check_room(table, "c", config)
        table.start_task("c", index, session(1), "fake", 3, config)
    with pytest.raises(Overloaded, match="this service has 3 tasks, and its limit is 3"):
        check_room(table, "d", config)
    check_room(table, "c", config)


def test_a_start_says_so() -> None:
    async def test() -> tuple[int, str]:
        async with service_harness() as at:
            for number in range(9):
                body = {**START, "config": {"mode": "ok", "x": "y" * (MOST_OF_ONE - 1000)}}
                answer = await at.put(f"/v1/connectors/c{number}", body)
            return answer.status_code, answer.json()["error_code"]

    assert asyncio.run(test()) == (503, "overloaded")
