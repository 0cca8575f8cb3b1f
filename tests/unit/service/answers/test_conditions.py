"""What health says: each thing that a connector does not do has a name and a sentence, and none is `ok`."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from bridge.model.partition_states import PartitionState
from bridge.service.answers.status import STARTING_MS
from bridge.service.ipc.messages import InstanceStatus
from bridge.service.state.snapshots import MOST_FORGOTTEN, RoundsState, Snapshots
from bridge.service.state.task_table import FORGET_MS
from connectors.base import Summary
from tests.support.messages import message
from tests.unit.service.service_fakes import FakeEngine, session
from tests.unit.service.service_harness import START, ServiceHarness, run
from tests.unit.service.service_harness import TASK as OF_TWO

TASK = {**OF_TWO, "task_count": 1}
BOTH = frozenset({"source", "target"})
PAGE = Path(__file__).parents[4] / "docs" / "readiness.md"


def working(test: Callable[[ServiceHarness], Awaitable[None]]) -> None:
    """A connector `c` of one task that works."""

    async def begun(at: ServiceHarness) -> None:
        await at.put("/v1/connectors/c", START)
        await at.put("/v1/connectors/c/tasks/0", TASK)
        says(at)
        assert await health(at) == ("ok", [])
        await test(at)

    run(begun)


def says(at: ServiceHarness, **changes: Any) -> None:
    known = at.service.table.connector("c")
    given: dict[str, Any] = {"rounds": 1, "clusters_seen": BOTH} | changes
    at.service.snapshots.summary("c", known.generation, Summary(**given))


async def health(at: ServiceHarness) -> tuple[str, list[tuple[str, str]]]:
    """Of everything, and the names and sentences of the one connector's conditions, each of which the docs name."""
    body = (await at.client.get("/health")).json()
    (each,) = body["connectors"]
    status = (await at.client.get("/v1/connectors/c/status")).json()
    assert status["conditions"] == each["conditions"]
    result = [(one["condition"], one["detail"]) for one in each["conditions"]]
    text = PAGE.read_text("utf-8")
    assert all(f"| `{name}` |" in text for name, _ in result), result
    return body["status"], result


def test_before_there_is_a_task_it_is_starting_for_a_minute_and_no_longer() -> None:
    async def test(at: ServiceHarness) -> None:
        await at.put("/v1/connectors/c", START)
        assert await health(at) == ("starting", [("starting", "connector c has no task yet")])
        assert (await at.client.get("/health")).json()["connectors"][0]["errors"] == []
        at.clock.ms += STARTING_MS
        status, ((name, text),) = await health(at)
        assert (status, name) == ("degraded", "no_task")
        assert text == message("health.no_task", connector="c")

    run(test)


def test_before_the_first_round_it_is_starting_for_a_minute_and_no_longer() -> None:
    async def test(at: ServiceHarness) -> None:
        await at.put("/v1/connectors/c/tasks/0", TASK)
        waits = "connector c waits for: source cluster, target cluster"
        assert await health(at) == ("starting", [("starting", waits)])
        for _ in range(STARTING_MS // 1000):
            at.clock.ms += 1000
            at.service.table.poll("c", 0, session(1))
        status, ((name, text),) = await health(at)
        assert (status, name) == ("degraded", "not_begun")
        waits = "source cluster, target cluster"
        assert text == message("health.not_begun", connector="c", seconds=60, waits=waits)
        says(at)
        assert await health(at) == ("ok", [])

    run(test)


def test_a_configuration_that_is_changed_starts_anew() -> None:
    async def test(at: ServiceHarness) -> None:
        for _ in range(STARTING_MS // 1000):
            at.clock.ms += 1000
            at.service.table.poll("c", 0, session(1))
        await at.put("/v1/connectors/c", {**START, "session": session(2), "config": {"how.many": "4"}})
        at.service.snapshots.instance_status(InstanceStatus("c", at.service.table.connector("c").generation))
        assert (await health(at))[0] == "starting"

    working(test)


def test_a_task_that_another_service_looks_after_is_not_missing() -> None:
    async def test(at: ServiceHarness) -> None:
        await at.put("/v1/connectors/c/tasks/0", {**TASK, "session": session(2), "task_count": 2})
        for _ in range(2 * STARTING_MS // 1000):
            at.clock.ms += 1000
            at.service.table.poll("c", 0, session(2))
        for age_ms, status in ((1_000, "ok"), (7_000, "degraded")):
            says(at, other_tasks={1: (int(time.time() * 1000) - age_ms, 2_000, at.service.table.now_ms)})
            assert (await health(at))[0] == status

    working(test)


def test_a_task_that_connect_never_started_is_missing() -> None:
    async def test(at: ServiceHarness) -> None:
        await at.put("/v1/connectors/c/tasks/0", {**TASK, "session": session(2), "task_count": 3})
        assert await health(at) == ("starting", [("starting", "connector c has no task 1, 2 yet")])
        for _ in range(2 * STARTING_MS // 1000):
            at.clock.ms += 1000
            at.service.table.poll("c", 0, session(2))
        status, ((name, text),) = await health(at)
        assert (status, name) == ("degraded", "task_missing")
        assert text == message("health.task_missing", tasks="1, 2", connector="c")

    working(test)


def test_a_pause_a_stop_and_a_worker_that_dies() -> None:
    async def test(at: ServiceHarness) -> None:
        at.service.table.stop_connector("c", session(1))
        at.clock.ms += 1_500
        at.service.expire()
        assert await health(at) == (
            "degraded",
            [("paused", message("health.connector_paused", connector="c"))],
        )
        at.service.table.stop_task("c", 0, session(1))
        status, ((name, text),) = await health(at)
        assert (status, name) == ("degraded", "stopped")
        assert "mirror-bridge forget c" in text

    working(test)

    async def dies(at: ServiceHarness) -> None:
        at.clock.ms += STARTING_MS + 30_000
        at.service.expire()
        status, ((name, text),) = await health(at)
        assert (status, name) == ("degraded", "not_polled")
        assert "its worker" in text

    working(dies)


def test_tasks_that_say_that_connect_does_not_poll_them_are_paused_until_it_does() -> None:
    """Their connector's stop may have gone to the service of another worker."""

    async def test(at: ServiceHarness) -> None:
        for task in (0, 1):
            await at.put(f"/v1/connectors/c/tasks/{task}", {**TASK, "session": session(2), "task_count": 2})
        idle = {"session": session(2), "idle_ms": 1_000}
        at.clock.ms += 1_000
        assert (await at.client.post("/v1/connectors/c/tasks/1/idle", json=idle)).status_code == 200
        paused = message("health.task_paused", task=1, connector="c")
        assert await health(at) == ("degraded", [("task_paused", paused)])
        assert (await at.client.post("/v1/connectors/c/tasks/0/idle", json=idle)).status_code == 200
        status, ((name, text),) = await health(at)
        assert (status, name) == ("degraded", "paused")
        assert text == message("health.paused", connector="c")
        for task in (0, 1):
            at.service.table.poll("c", task, session(2))
        assert await health(at) == ("ok", [])

    working(test)


def test_a_poll_that_came_since_makes_an_idle_task_void_and_old_sessions_are_fenced() -> None:
    async def test(at: ServiceHarness) -> None:
        idle = {"session": session(1), "idle_ms": 1_000}
        at.clock.ms += 400
        assert (await at.client.post("/v1/connectors/c/tasks/0/idle", json=idle)).status_code == 200
        assert await health(at) == ("ok", [])
        await at.put("/v1/connectors/c/tasks/0", {**TASK, "session": session(2)})
        answer = await at.client.post("/v1/connectors/c/tasks/0/idle", json={**idle, "idle_ms": 0})
        assert (answer.status_code, answer.json()["error_code"]) == (409, "fenced")
        assert (await at.client.post("/v1/connectors/c/tasks/7/idle", json=idle)).status_code == 404
        assert await health(at) == ("ok", [])
        at.service.table.stop_task("c", 0, session(2))
        answer = await at.client.post("/v1/connectors/c/tasks/0/idle", json={**idle, "session": session(2)})
        assert answer.status_code == 409

    working(test)


def test_a_poll_that_is_answered_late_does_not_hide_that_the_task_is_idle() -> None:
    """A busy machine: the poll arrived before Connect paused the task."""

    async def test(at: ServiceHarness) -> None:
        idle = {"session": session(1), "idle_ms": 1_000}
        at.service.table.poll("c", 0, session(1))
        at.clock.ms += 1_700
        at.service.table.poll("c", 0, session(1), arrived=False)
        at.clock.ms += 100
        assert (await at.client.post("/v1/connectors/c/tasks/0/idle", json=idle)).status_code == 200
        status, ((name, _),) = await health(at)
        assert (status, name) == ("degraded", "paused")
        at.clock.ms += 1_000
        at.service.table.poll("c", 0, session(1), arrived=False)
        acked = {"session": session(1), "acked": []}
        assert (await at.client.post("/v1/connectors/c/tasks/0/ack", json=acked)).status_code == 200
        assert (await health(at))[0] == "degraded"
        at.service.table.poll("c", 0, session(1))
        assert await health(at) == ("ok", [])

    working(test)


def test_one_task_of_two_that_lapses_or_is_stopped() -> None:
    async def test(at: ServiceHarness) -> None:
        for task in (0, 1):
            await at.put(f"/v1/connectors/c/tasks/{task}", {**TASK, "session": session(2), "task_count": 2})
        assert await health(at) == ("ok", [])
        at.clock.ms += 29_000
        at.service.table.poll("c", 0, session(2))
        at.clock.ms += 2_000
        at.service.expire()
        status, ((name, text),) = await health(at)
        assert (status, name) == ("degraded", "task_lapsed")
        assert text == message("health.task_lapsed", task=1, connector="c", seconds=31)
        at.service.table.stop_task("c", 1, session(2))
        assert await health(at) == ("degraded", [("task_stopped", "task 1 of connector c is stopped")])

    working(test)


def test_what_a_node_of_dedicated_mode_runs_is_not_looked_for_in_connect() -> None:
    async def test(at: ServiceHarness) -> None:
        at.service.table.dedicated = True

        async def one(name: str, text: str) -> None:
            status, conditions = await health(at)
            assert (status, conditions) == ("degraded", [(name, text)])
            assert "Connect" not in (await at.client.get("/v1/connectors/c/status")).text

        await at.put("/v1/connectors/c", START)
        at.clock.ms += STARTING_MS
        await one("no_task", "this node has not started connector c yet: check the log of this node")
        await at.put("/v1/connectors/c/tasks/0", {**TASK, "task_count": 2})
        says(at)
        at.clock.ms += 1
        missing = "this node has not started task 1 of connector c: check the log of this node"
        await one("task_missing", missing)
        await at.put("/v1/connectors/c/tasks/1", {**TASK, "task_count": 2})
        assert (await health(at))[0] == "ok"
        at.clock.ms += 29_000
        at.service.table.poll("c", 0, session(1))
        at.clock.ms += 2_000
        at.service.expire()
        await one("task_lapsed", "task 1 of connector c has not polled for 31 s: check the log of this node")
        at.clock.ms += 31_000
        at.service.expire()
        await one("not_polled", "this node does not poll connector c: check the log of this node")
        at.service.table.stop_connector("c", session(1))
        await one("stopped", "connector c is stopped: its flow goes to another node, or this node ends")

    run(test)


def test_an_error_of_single_partitions_is_named_by_their_state_and_time() -> None:
    async def test(at: ServiceHarness) -> None:
        says(at, errors=["t-0: damaged", "other"], partitions={"t-0: damaged": (PartitionState.FAILED, 7)})
        assert await health(at) == ("degraded", [("partition_failed", "t-0: damaged"), ("trouble", "other")])
        (connector,) = (await at.client.get("/health")).json()["connectors"]
        assert [each["since_ms"] for each in connector["conditions"]] == [7, None]

    working(test)


def test_a_node_that_runs_a_connector_refuses_to_forget_it() -> None:
    async def test(at: ServiceHarness) -> None:
        at.service.table.dedicated = True
        await at.put("/v1/connectors/c", START)
        await at.put("/v1/connectors/c/tasks/0", TASK)
        answer = await at.client.delete("/v1/connectors/c")
        said = message("health.runs_here", connector="c")
        assert (answer.status_code, answer.json()["message"]) == (409, said)

    run(test)


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_cluster_that_is_away_is_named_with_the_last_error_and_since_when(side: str) -> None:
    async def test(at: ServiceHarness) -> None:
        says(at, away_since_ms={side: 1_000})
        assert await health(at) == (
            "degraded",
            [(f"{side}_unreachable", f"the {side} cluster does not answer")],
        )
        error = f"{side} cluster: refused"
        says(at, away_since_ms={side: 1_000}, errors=[error, "other"])
        assert await health(at) == ("degraded", [(f"{side}_unreachable", error), ("trouble", "other")])
        (connector,) = (await at.client.get("/health")).json()["connectors"]
        assert connector["conditions"][0]["since_ms"] == 1_000
        assert connector["errors"] == [error, "other"]
        at.service.table.stop_connector("c", session(1))
        at.service.table.stop_task("c", 0, session(1))
        names = [name for name, _ in (await health(at))[1]]
        assert names == ["stopped", f"{side}_unreachable", "trouble"]
        says(at)
        await at.put("/v1/connectors/c/tasks/0", {**TASK, "session": session(3)})
        assert (await health(at))[1] == []

    working(test)


@pytest.mark.parametrize("code", ["no_java", "copy_taken", "credentials", "fenced", "bad_config", ""])
def test_a_permanent_error_is_named_and_fails_the_task(code: str) -> None:
    async def test(at: ServiceHarness) -> None:
        says(at, failure="it is wrong: mend it", failure_code=code)
        assert await health(at) == ("down", [(code or "failed", "it is wrong: mend it")])
        polled = (await at.poll()).json()
        assert polled["failure"] == "it is wrong: mend it"
        await at.put("/v1/connectors/c/tasks/0", {**TASK, "session": session(2)})
        assert (await health(at))[0] == "ok", "an operator has restarted the task"

    working(test)


def test_an_instance_that_breaks_a_process_that_does_not_run_and_gaps() -> None:
    async def test(at: ServiceHarness) -> None:
        generation = at.service.table.connector("c").generation
        at.service.snapshots.instance_status(InstanceStatus("c", generation, "boom", 4.0, 3))
        text = "the connector's instance has failed 3 time(s) and restarts in 4 s: boom"
        assert await health(at) == ("degraded", [("restarting", text)])
        at.service.snapshots.instance_status(InstanceStatus("c", generation))
        says(at, gaps=["10 records were lost"])
        assert await health(at) == ("degraded", [("gap", "10 records were lost")])
        says(at)
        rounds = at.service.rounds
        assert isinstance(rounds, FakeEngine)
        rounds.state = RoundsState.STALLED
        stalled = message("health.rounds_stalled")
        assert await health(at) == ("down", [("rounds_process_down", stalled)])
        rounds.state = RoundsState.STARTING
        assert (await health(at))[0] == "starting"

    working(test)


def test_every_condition_of_the_docs_is_one_that_the_code_says() -> None:
    text = PAGE.read_text("utf-8").partition("## What health says")[2].partition("\n## ")[0]
    listed = set(re.findall(r"^\| `(\w+)` \|[^|]*\|[^|]*\|$", text, re.MULTILINE))
    root = PAGE.parents[1]
    code = "".join(
        (root / name).read_text("utf-8")
        for name in (
            "bridge/service/answers/status.py",
            "bridge/service/state/not_running.py",
            "bridge/pipeline/driver/launch.py",
            "bridge/pipeline/driver/supervisor.py",
            "bridge/service/rounds/connector_runner.py",
            "bridge/errors.py",
        )
    )
    assert listed
    for name in listed:
        side, _, rest = name.partition("_")
        known = f'"{name}"' in code or (side in ("source", "target") and f'{{side}}_{rest}"' in code)
        assert known, name


# -- what is deleted --------------------------------------------------------------------------------------------------


async def _series(at: ServiceHarness) -> list[str]:
    metrics = (await at.client.get("/metrics")).text
    return [line for line in metrics.splitlines() if 'connector="c"' in line]


@pytest.mark.parametrize("how", ["deleted", "forgotten"])
def test_metrics_and_groups_of_a_connector_go_with_it_and_do_not_come_back(how: str) -> None:
    async def test(at: ServiceHarness) -> None:
        generation = at.service.table.connector("c").generation
        says(at, last_success_ms=1, unreadable_records={"t": 1})
        assert any("seconds_since_last_success" in line for line in await _series(at))
        at.service.table.stop_connector("c", session(1))
        at.service.table.stop_task("c", 0, session(1))
        if how == "deleted":
            assert (await at.client.delete("/v1/connectors/c")).status_code == 204
        else:
            at.clock.ms += FORGET_MS
            at.service.expire()
        assert await _series(at) == []
        # The instance says its last words after that.
        at.service.snapshots.summary("c", generation, Summary(last_success_ms=1))
        at.service.snapshots.instance_status(InstanceStatus("c", generation))
        assert at.service.snapshots.names() == []
        await at.put("/v1/connectors/c/tasks/0", {**TASK, "session": session(5)})
        says(at, last_success_ms=1)
        assert at.service.snapshots.names() == ["c"]
        assert await _series(at)

    working(test)


def test_what_is_remembered_of_forgotten_connectors_is_bounded() -> None:
    snapshots = Snapshots()
    for number in range(2 * MOST_FORGOTTEN):
        snapshots.summary(f"c{number}", number + 1, Summary())
        snapshots.forget(f"c{number}")
    assert len(snapshots.forgotten) == MOST_FORGOTTEN
