"""A second group connector that was deleted or renamed in Connect: for the service it is stopped, and no more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bridge.service.ipc.messages import pack_report
from tests.support.messages import message
from tests.unit.service.answers.ready_flow import FLOW, RECORD, Flow
from tests.unit.service.service_fakes import FakeEngine, report, session
from tests.unit.service.service_harness import ServiceHarness, run

SEEN = frozenset({"source", "target"})
NAME = "h"


class Deleted(Flow):
    """The flow, and a connector `h` of groups that Connect has stopped or deleted."""

    async def begin(self, *groups: str, config: dict[str, str] = FLOW) -> None:
        await super().begin()
        self.table.start_connector(NAME, session(1), "group_offset", config)
        self.table.start_task(NAME, 0, session(1), "group_offset", 1, config)
        self.at.reports(*(report(each, NAME) for each in groups), connector=NAME)
        self.table.stop_task(NAME, 0, session(1))
        self.table.stop_connector(NAME, session(1))

    def later(self, minutes: float) -> None:
        """Connect polls the tasks that run."""
        self.at.clock.ms += 60_000 * minutes
        for name in ("g", "s"):
            for task in self.table.connector(name).tasks.values():
                if not task.stopped:
                    self.table.poll(name, task.index, task.session)
        self.at.service.expire()
        self.round(clusters_seen=SEEN)
        self.copied()

    async def get(self, path: str) -> Any:
        return (await self.at.client.get(path)).json()

    async def conditions(self) -> tuple[str, list[str]]:
        """The status of health, and the conditions of the connector that is gone."""
        health = await self.get("/health")
        (gone,) = (each for each in health["connectors"] if each["name"] == NAME)
        return health["status"], [each["condition"] for each in gone["conditions"]]


def play(test: Callable[[Deleted], Awaitable[None]], *groups: str, **given: Any) -> None:
    async def begun(at: ServiceHarness) -> None:
        made = Deleted(at)
        await made.begin(*groups, **given)
        await test(made)

    run(begun)


def test_after_ten_minutes_it_does_not_degrade_health_and_its_groups_stay_listed() -> None:
    async def test(made: Deleted) -> None:
        made.later(9)
        assert await made.conditions() == ("degraded", ["stopped"])
        made.later(2)
        assert await made.conditions() == ("ok", ["gone"])
        (two,) = (await made.get("/v1/groups/two"))["reports"]
        assert two["readiness"] == "cannot_tell"
        (reason,) = two["reasons"]
        assert reason["detail"] == message("health.gone", connector=NAME, minutes=10)
        assert (await made.get("/v1/readiness"))["readiness"] == "cannot_tell", "nobody follows its group"
        status = await made.get(f"/v1/connectors/{NAME}/status")
        assert status["errors"] == []

    play(test, "two")


def test_it_is_forgotten_once_running_connectors_of_the_flow_report_all_of_its_groups() -> None:
    """It was renamed."""

    async def test(made: Deleted) -> None:
        made.later(0.9)
        made.snapshots.groups("g", 1, [pack_report("two", report("two", "g"))])
        assert made.table.get(NAME) is not None, "it may be on its way to another worker"
        made.later(0.2)
        assert made.table.get(NAME) is None
        assert (await made.get("/v1/readiness"))["readiness"] == "ready"
        assert (await made.get("/v1/groups"))["total"] == 3
        made.later(1)
        assert (await made.get("/health"))["status"] == "ok"

    play(test, "one", "two")


def test_a_group_that_it_has_moved_stays_its_own() -> None:
    """Only its own connector can roll it back."""

    async def test(made: Deleted) -> None:
        moved = report("one", NAME).model_copy(update={"ready": False, "reason": "moved", "moved_at_ms": 5})
        made.snapshots.groups(NAME, 1, [pack_report("one", moved)])
        made.later(11)
        assert made.table.get(NAME) is not None

    play(test, "one")


@pytest.mark.parametrize("how", ["paused", "alone", "another flow", "started again"])
def test_it_is_not_gone_while_it_may_come_back(how: str) -> None:
    """Pauses are no deletions; where nothing else of the flow runs Connect's workers may all have ended."""

    async def test(made: Deleted) -> None:
        if how == "paused":
            made.table.start_connector(NAME, session(2), "group_offset", FLOW)
            made.table.start_task(NAME, 0, session(2), "group_offset", 1, FLOW)
            made.table.stop_connector(NAME, session(3))
        if how == "alone":
            for task in (0, 1):
                made.table.stop_task("g", task, session(1))
        if how == "started again":
            made.table.start_connector(NAME, session(2), "group_offset", config)
        made.later(11)
        made.later(11)
        _, conditions = await made.conditions()
        assert "gone" not in conditions

    config = {**FLOW, "source.cluster.alias": "C"} if how == "another flow" else FLOW
    play(test, "two", config=config)


def test_failover_of_all_moves_the_groups_of_the_other_connectors_and_names_those_it_leaves() -> None:
    async def test(made: Deleted) -> None:
        body = {"flow": "A-to-B", "all": True, "dry_run": True}
        refused = await made.at.client.post("/v1/failover", json=body)
        assert refused.status_code == 409
        made.later(11)
        planned = await made.at.client.get("/v1/failover/plan?flow=A-to-B")
        assert planned.status_code == 200, planned.text
        assert [each["group"] for each in planned.json()["groups"]] == ["one", "zero"]
        left = [{"group": "two", "connector": NAME}]
        assert planned.json()["left_out"] == left
        rounds = made.at.service.rounds
        assert isinstance(rounds, FakeEngine)
        rounds.answer = lambda name, operation, arguments: {
            "moved": dict.fromkeys(arguments.get("groups", ()), RECORD),
            "refused": {},
        }
        answer = await made.at.client.post("/v1/failover", json=body)
        assert answer.status_code == 200, answer.text
        assert answer.json()["left_out"] == left
        assert any("two" in line and NAME in line for line in answer.json()["next"])
        named = await made.at.client.post("/v1/failover", json={"flow": "A-to-B", "groups": ["two"]})
        assert named.status_code == 409
        assert NAME in named.json()["validation_errors"][0]["message"]

    play(test, "one", "two")
