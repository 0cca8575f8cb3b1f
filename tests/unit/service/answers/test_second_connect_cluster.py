"""Two Connect clusters, one service, one connector name: what is said of the first while the second comes and goes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.service.answers.ready_flow import FLOW, Flow
from tests.unit.service.service_fakes import session
from tests.unit.service.service_harness import ServiceHarness, error, run

SEEN = frozenset({"source", "target"})
FIRST, SECOND = "connect-east", "connect-west"
CONFIG: dict[str, str | None] = {"mode": "ok"}


class _First(Flow):
    """The flow, whose connectors are those of the first Connect cluster."""

    async def begin(self) -> None:
        for name, kind, count in (("g", "group_offset", 2), ("s", "source", 1)):
            self.table.start_connector(name, session(1), kind, FLOW, FIRST)
            for index in range(count):
                self.table.start_task(name, index, session(1), kind, count, FLOW, FIRST)
        await super().begin()
        self.round(clusters_seen=SEEN)

    async def said(self) -> Any:
        """What it is told of groups, flow and connectors, without times."""
        groups = await self.answers()
        health = (await self.at.client.get("/health")).json()
        listed = (await self.at.client.get("/v1/groups")).json()
        connectors = [(each["name"], each["state"], each["conditions"]) for each in health["connectors"]]
        return groups, health["status"], connectors, [each["group"] for each in listed["groups"]]


async def second(at: ServiceHarness, name: str, kind: str = "fake") -> None:
    """The second Connect cluster is refused, and takes everything back, as its workers do."""
    mine = {"session": session(9), "connect_group_id": SECOND}
    start = {**mine, "kind": kind, "config": CONFIG}
    error(await at.put(f"/v1/connectors/{name}", start), 409, "name_taken")
    error(await at.put(f"/v1/connectors/{name}/tasks/0", {**start, "task_count": 1}), 409, "name_taken")
    gone = await at.client.request("DELETE", f"/v1/connectors/{name}/tasks/0", json=mine)
    error(gone, 409, "name_taken")
    error(await at.put(f"/v1/connectors/{name}/stop", mine), 409, "name_taken")


@pytest.mark.parametrize("name", ["g", "s"])
def test_a_second_that_comes_and_goes_changes_no_answer(name: str) -> None:
    async def test(at: ServiceHarness) -> None:
        made = _First(at)
        await made.begin()
        before = await made.said()
        assert before[0][0] == {"one": "ready", "zero": "ready"}
        await second(at, name)
        assert await made.said() == before
        assert (await at.poll("/v1/connectors/g/tasks/0")).status_code == 200

    run(test)


def test_validation_refuses_the_name_to_the_second_alone() -> None:
    async def test(at: ServiceHarness) -> None:
        await _First(at).begin()
        config = {**CONFIG, "name": "g"}

        async def errors(**asked: object) -> dict[str, list[str]]:
            answer = (await at.put("/v1/plugins/fake/validate", {"config": config, **asked})).json()
            rows = [each["value"] for each in answer["configs"]]
            return {each["name"]: each["errors"] for each in rows if each["errors"]}

        (why,) = (await errors(connect_group_id=SECOND))["name"]
        assert FIRST in why
        assert "bridge.url" in why
        assert await errors(connect_group_id=FIRST) == {}
        assert await errors() == {}
        config["name"] = "another"
        assert await errors(connect_group_id=SECOND) == {}

    run(test)


def test_when_the_first_is_gone_the_second_begins_with_nothing_of_it() -> None:
    async def test(at: ServiceHarness) -> None:
        made = _First(at)
        await made.begin()
        at.clock.ms += 600_000
        at.service.expire()
        start = {"session": session(9), "connect_group_id": SECOND, "kind": "fake", "config": CONFIG}
        answer = await at.put("/v1/connectors/g/tasks/0", {**start, "task_count": 1})
        assert answer.status_code == 200, answer.text
        assert (await at.client.get("/v1/groups?connector=g")).json()["groups"] == []
        error(await at.poll("/v1/connectors/g/tasks/0"), 409, "fenced")

    run(test)
