"""What /health/ready says of the service, and what status and health say that a connector waits for."""

from __future__ import annotations

import asyncio
import threading

import pytest

from bridge.service.ipc.messages import InstanceStatus
from bridge.service.state.snapshots import RoundsState
from connectors.base import Summary
from tests.support.messages import message
from tests.unit.service.service_fakes import FakeEngine, session
from tests.unit.service.service_harness import START, TASK, ServiceHarness, run


async def _ready(at: ServiceHarness) -> tuple[int, list[str]]:
    answer = await at.client.get("/health/ready")
    body = answer.json()
    assert body["status"] == ("not_ready" if body["reasons"] else "ready")
    return answer.status_code, body["reasons"]


def test_a_service_that_no_connector_has_reached_is_ready() -> None:
    """Who routes by readiness must let the first PUT through."""

    async def test(at: ServiceHarness) -> None:
        assert await _ready(at) == (200, [])
        await at.put("/v1/connectors/c/tasks/0", TASK)
        assert await _ready(at) == (200, [])

    run(test)


@pytest.mark.parametrize(
    ("state", "reason", "shown"),
    [
        (RoundsState.STARTING, "the rounds process is starting", "starting"),
        (RoundsState.RESTARTING, "the rounds process has ended and is restarting", "restarting"),
        (RoundsState.STALLED, "the rounds process has sent no heartbeat for 10 s", "stalled"),
        (RoundsState.STOPPED, "the rounds process is stopped", "stopped"),
    ],
)
def test_not_ready_while_the_rounds_process_does_not_run(state: RoundsState, reason: str, shown: str) -> None:
    async def test(at: ServiceHarness) -> None:
        await at.put("/v1/connectors/c/tasks/0", TASK)
        seen = Summary(rounds=int(shown != "starting"), clusters_seen=frozenset({"source", "target"}))
        at.service.snapshots.summary("c", 1, seen)
        rounds = at.service.rounds
        assert isinstance(rounds, FakeEngine)
        rounds.state = state
        assert await _ready(at) == (503, [reason])
        health = (await at.client.get("/health")).json()
        assert health["rounds_process"] == state
        assert [(each["state"], each["waiting_for"]) for each in health["connectors"]] == [
            (shown, ["rounds process"])
        ]
        assert (await at.client.get("/health/live")).json() == {"status": "ok"}
        rounds.state = RoundsState.RUNNING
        assert await _ready(at) == (200, [])

    run(test)


def test_not_ready_while_it_drains() -> None:
    async def test(at: ServiceHarness) -> None:
        at.service.long_polls.drain()
        assert await _ready(at) == (503, ["the service is shutting down"])

    run(test)


def test_not_ready_while_no_thread_can_take_another_configuration() -> None:
    async def test(at: ServiceHarness) -> None:
        free = threading.Event()
        try:
            calls = [asyncio.create_task(at.service.pools.starts.run(free.wait)) for _ in range(2)]
            await asyncio.sleep(0)
            message = "all 1 threads are busy and 1 calls wait already"
            assert await _ready(at) == (503, [message])
            refused = await at.put("/v1/connectors/c", START)
            assert (refused.status_code, message in refused.text) == (503, True)
        finally:
            free.set()
        await asyncio.gather(*calls)
        assert await _ready(at) == (200, [])

    run(test, queue=1)


def test_a_connector_says_what_it_waits_for() -> None:
    async def test(at: ServiceHarness) -> None:
        async def shown() -> tuple[str, list[str]]:
            (listed,) = (await at.client.get("/v1/connectors")).json()["connectors"]
            (in_health,) = (await at.client.get("/health")).json()["connectors"]
            status = (await at.client.get("/v1/connectors/c/status")).json()
            result = {(each["state"], *each["waiting_for"]) for each in (listed, in_health, status)}
            ((state, *waiting_for),) = result
            return state, waiting_for

        await at.put("/v1/connectors/c", START)
        assert await shown() == ("idle", ["a task: Connect has started none"])
        await at.put("/v1/connectors/c/tasks/0", TASK)
        assert await shown() == ("starting", ["source cluster", "target cluster"])
        at.service.snapshots.summary("c", 1, Summary(clusters_seen=frozenset({"source"})))
        assert await shown() == ("starting", ["target cluster"])
        both = frozenset({"source", "target"})
        at.service.snapshots.summary("c", 1, Summary(clusters_seen=both))
        assert await shown() == ("starting", ["its first round"])
        # Both clusters answer, and an error holds it up: it says what would be right, the clusters are not it.
        held_up = Summary(errors=("target cluster: replication.factor 3 is too high",))
        at.service.snapshots.summary("c", 1, held_up)
        assert await shown() == ("starting", list(held_up.errors))
        at.service.snapshots.summary("c", 1, Summary(rounds=1, clusters_seen=both))
        assert await shown() == ("running", [])
        # It worked, and a cluster has gone.
        away = Summary(rounds=1, clusters_seen=both, away_since_ms={"source": 5})
        at.service.snapshots.summary("c", 1, away)
        assert await shown() == ("waiting", ["source cluster"])
        at.service.snapshots.summary("c", 1, Summary(rounds=1, clusters_seen=both))
        at.clock.ms += 31_000
        at.service.expire()
        assert await shown() == ("idle", ["a task: the leases of all have expired"])
        await at.poll()
        assert await shown() == ("running", [])
        await at.put("/v1/connectors/c/stop", {"session": session(1)})
        await at.client.request("DELETE", "/v1/connectors/c/tasks/0", json={"session": session(1)})
        assert await shown() == ("idle", [message("health.waits_for_a_start")])

    run(test)


def test_a_paused_connector_waits_to_be_resumed() -> None:
    """Connect stops its connector, and keeps the tasks, which it polls no longer."""

    async def test(at: ServiceHarness) -> None:
        await at.put("/v1/connectors/c/tasks/0", TASK)
        await at.put("/v1/connectors/c/stop", {"session": session(1)})
        at.clock.ms += 10_000
        at.service.expire()
        status = (await at.client.get("/v1/connectors/c/status")).json()
        assert status["waiting_for"] == ["a resume: Connect has paused it"]

    run(test)


def test_a_connector_with_a_failure_waits_for_nothing() -> None:
    async def test(at: ServiceHarness) -> None:
        await at.put("/v1/connectors/c/tasks/0", TASK)
        at.service.snapshots.summary("c", 1, Summary(failure="the credentials are wrong"))
        status = (await at.client.get("/v1/connectors/c/status")).json()
        assert (status["state"], status["waiting_for"]) == ("failed", [])

    run(test)


def test_a_changed_configuration_waits_for_its_clusters_again() -> None:
    """The clusters that the old configuration named were seen, which says nothing of the new ones."""

    async def test(at: ServiceHarness) -> None:
        await at.put("/v1/connectors/c/tasks/0", TASK)
        seen = Summary(rounds=1, clusters_seen=frozenset({"source", "target"}))
        at.service.snapshots.summary("c", 1, seen)
        known = at.service.table.get("c")
        assert known is not None
        await at.put("/v1/connectors/c/tasks/0", {**TASK, "session": session(2), "config": {"how.many": "4"}})
        at.service.snapshots.instance_status(InstanceStatus("c", known.generation))
        status = (await at.client.get("/v1/connectors/c/status")).json()
        assert (status["state"], status["waiting_for"]) == ("starting", ["source cluster", "target cluster"])

    run(test)
