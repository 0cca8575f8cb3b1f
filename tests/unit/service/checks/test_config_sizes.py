"""Configurations that would not fit into what crosses to the rounds process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice

import pytest

from bridge.errors import ConfigRejected, Overloaded
from bridge.protocol.messages import ConfigEntry, ValidateResponse
from bridge.service.checks import validation
from bridge.service.checks.validation import (
    MOST_CHARACTERS,
    MOST_OF_ONE,
    MOST_SETTINGS,
    check_room,
    check_tasks,
)
from bridge.service.ipc.messages import MOST_BYTES, pack_desired
from bridge.service.state.task_table import TaskTable
from tests.support.messages import message
from tests.unit.service.service_fakes import session
from tests.unit.service.service_harness import START, TASK, service_harness


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


def test_short_keys_of_characters_that_json_writes_longest_fit_too() -> None:
    """A setting has ten bytes of punctuation, and a character six."""
    table = TaskTable(lambda: 0.0)
    letters = [chr(each) for each in range(32) if chr(each) not in "\b\t\n\f\r"]
    keys = (a + b + c for a in letters for b in letters for c in letters)
    config = dict.fromkeys(islice(keys, MOST_SETTINGS))
    started = 0
    with suppress(Overloaded):
        for started in range(1000):
            check_room(table, f"c{started}", config)
            table.start_task(f"c{started}", 0, session(1), "fake", 1, config)
    assert 500 < started < 999
    assert len(pack_desired(table.desired())) < MOST_BYTES


def test_one_configuration_that_is_too_large_is_an_error_of_its_largest_key() -> None:
    with pytest.raises(ConfigRejected) as caught:
        check_room(TaskTable(lambda: 0.0), "c", {"a": "b", "topics": "x" * (MOST_OF_ONE + 1)})
    assert caught.value.errors[0].key == "topics"
    assert str(MOST_OF_ONE) in str(caught.value)


def test_a_service_that_has_its_most_tasks_takes_no_other_connector(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks that run already may start again: a worker that restarts is no new load."""
    monkeypatch.setattr(validation, "MOST_TASKS", 3)
    table = TaskTable(lambda: 0.0)
    config = {"topics": "t"}
    for index in range(3):
        check_tasks(table, "c", index)
        table.start_task("c", index, session(1), "fake", 4, config)
    for name, index in (("d", 0), ("c", 3)):
        with pytest.raises(Overloaded, match="this service has 3 tasks, and its limit is 3"):
            check_tasks(table, name, index)
    check_tasks(table, "c", 2)


def test_a_connector_cannot_have_more_tasks_than_the_service_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, only a new configuration was counted: more tasks of one that was there already were not."""
    monkeypatch.setattr(validation, "MOST_TASKS", 2)

    async def test() -> list[int]:
        async with service_harness() as at:
            body = {**TASK, "task_count": 3}
            return [(await at.put(f"/v1/connectors/c/tasks/{n}", body)).status_code for n in (0, 1, 2, 1)]

    assert asyncio.run(test()) == [200, 200, 503, 200]


def test_validation_says_what_a_start_would_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, Connect took the configuration, and its start was refused again and again."""
    monkeypatch.setattr(validation, "MOST_OF_ONE", 10_000)
    monkeypatch.setattr(validation, "MOST_CHARACTERS", 80_000)

    async def test() -> list[list[ConfigEntry]]:
        async with service_harness() as at:
            large = {"mode": "ok", "x": "y" * 9_900}
            answers = [await at.put("/v1/plugins/fake/validate", {"config": {**large, "z": "y" * 100}})]
            for number in range(8):
                body = {**START, "config": large}
                assert (await at.put(f"/v1/connectors/c{number}", body)).status_code == 200
            for name in ("c8", "c7"):
                body = {"config": {**large, "name": name, "z": "y" * 50}}
                answers.append(await at.put("/v1/plugins/fake/validate", body))
            assert {answer.status_code for answer in answers} == {200}
            found = [ValidateResponse.model_validate_json(answer.content).configs for answer in answers]
            return [[each for each in configs if each.value.errors] for configs in found]

    one, in_all, again = asyncio.run(test())
    assert [each.value.name for each in (*one, *in_all)] == ["x", "x"]
    sizes = {"size": 10_014, "length": 9_900, "key": "x", "most": 10_000}
    assert message("config.characters", **sizes) in said(one)
    assert "the configuration of c8 has " in said(in_all)
    assert "those of all connectors would have 89" in said(in_all)
    assert "the limit of one service is 80000" in said(in_all)
    assert again == [], "it takes the place of the one that it has"


def said(entries: Sequence[ConfigEntry]) -> str:
    return " ".join(text for each in entries for text in each.value.errors)


def test_a_start_says_so() -> None:
    async def test() -> tuple[int, str]:
        async with service_harness() as at:
            for number in range(9):
                body = {**START, "config": {"mode": "ok", "x": "y" * (MOST_OF_ONE - 1000)}}
                answer = await at.put(f"/v1/connectors/c{number}", body)
            return answer.status_code, answer.json()["error_code"]

    assert asyncio.run(test()) == (503, "overloaded")
