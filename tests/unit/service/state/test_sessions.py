"""Whose task it is when workers' clocks are wrong: through the HTTP contract, as shims speak it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.service.http.app import create_app
from bridge.service.service import Service
from bridge.service.state.sessions import Sessions
from tests.unit.service.service_fakes import fake_service

HOUR = 3_600_000_000
TASK = "/v1/connectors/c/tasks/0"
START = {"kind": "fake", "config": {"mode": "ok"}}


@dataclass
class Time:
    """What passes for everybody, in microseconds."""

    us: int = 50_000_000


class Client:
    """Of one run of the service."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._app = create_app(service)

    def send(self, method: str, path: str, **body: object) -> httpx.Response:
        async def answered() -> httpx.Response:
            async with httpx.AsyncClient(
                transport=httpx.ASGITransport(self._app), base_url="http://bridge"
            ) as client:
                return await client.request(method, path, json=body)

        return asyncio.run(answered())


@dataclass
class Task:
    """A task as the shim runs it: when it began, and the session that it was given."""

    time: Time
    client: Client
    began: int
    session: str | None = None

    def asks(self) -> None:
        answer = self.client.send("POST", "/v1/sessions", age_us=self.time.us - self.began)
        self.session = answer.raise_for_status().json()["session"]

    def starts(self) -> httpx.Response:
        return self.client.send("PUT", TASK, session=self.session, task_count=1, **START)

    def polls(self) -> httpx.Response:
        return self.client.send("POST", f"{TASK}/poll", session=self.session, wait_ms=0)

    def runs(self) -> bool:
        """Whether it gets its work, as the shim goes about it: known, asked again, or fenced."""
        answer = self.polls() if self.session is not None else None
        if answer is None or answer.status_code == httpx.codes.NOT_FOUND:
            self.asks()
            answer = self.starts()
            answer = self.polls() if answer.is_success else answer
        return answer.is_success


class World:
    """A service whose clock shows the time of the world, or an hour more or less, and its tasks."""

    def __init__(self) -> None:
        self.time = Time()
        self.serve(0)

    def serve(self, ahead: int) -> Service:
        """A new run of the service, maybe on another machine."""
        sessions = Sessions(lambda: 10 * HOUR + self.time.us + ahead)
        self.client = Client(fake_service(lambda: self.time.us / 1000, size=2, sessions=sessions))
        return self.client.service

    def task(self) -> Task:
        return Task(self.time, self.client, self.time.us)

    def moves(self, task: Task) -> Task:
        task.client = self.client
        return task


@pytest.fixture
def world() -> World:
    return World()


def test_the_task_that_started_last_runs_whatever_order_they_come_in(world: World) -> None:
    cut_off = world.task()
    world.time.us += 20_000_000
    rightful = world.task()
    assert rightful.runs()
    assert not cut_off.runs(), "it started first, and was only heard last"
    assert rightful.runs()


def test_a_question_that_was_on_its_way_for_a_minute_takes_nothing_over(world: World) -> None:
    gone = world.task()
    gone.asks()
    world.time.us += 1_000_000
    rightful = world.task()
    assert rightful.runs()
    world.time.us += 60_000_000
    assert gone.starts().json()["error_code"] == "fenced"
    assert rightful.runs()


@pytest.mark.parametrize("ahead", [HOUR, -HOUR, 0])
def test_a_service_on_a_machine_with_another_clock_keeps_the_order(world: World, ahead: int) -> None:
    zombie = world.task()
    assert zombie.runs()
    world.time.us += 20_000_000
    rightful = world.task()
    assert rightful.runs()
    assert not zombie.runs()
    world.serve(ahead)
    assert world.moves(zombie).runs(), "nobody else is known yet"
    assert world.moves(rightful).runs()
    assert not zombie.runs()
    world.time.us += 1_000
    newer = world.task()
    assert newer.runs()
    assert not rightful.runs()


def test_a_session_of_another_run_starts_nothing(world: World) -> None:
    task = world.task()
    task.asks()
    world.serve(0)
    answer = world.moves(task).starts()
    assert (answer.status_code, answer.json()["error_code"]) == (404, "unknown_task")
    assert "before the service restarted" in answer.json()["message"]
    assert task.runs()


def test_a_connector_of_another_run_is_stopped_all_the_same(world: World) -> None:
    connector, task = world.task(), world.task()
    connector.asks()
    assert task.runs()
    service = world.serve(-HOUR)
    assert world.moves(task).runs()
    stop = {"session": connector.session}
    assert world.client.send("PUT", "/v1/connectors/c/stop", **stop).is_success
    assert service.table.connector("c").stopped
    again = world.task()
    again.asks()
    assert world.client.send("PUT", "/v1/connectors/c", session=again.session, **START).is_success
    assert not service.table.connector("c").stopped
    assert world.client.send("PUT", "/v1/connectors/c/stop", **stop).json()["error_code"] == "fenced"


def test_a_shim_that_makes_its_own_sessions_is_served(world: World) -> None:
    """One that is older, by its worker's clock: as before, that has to be right."""
    older = world.task()
    older.session = "0000036040000-9b2f0c5e-0001-4a6b"
    assert older.starts().is_success
    assert older.polls().is_success
    assert world.task().runs()


@given(st.lists(st.tuples(st.integers(1, 10_000_000), st.integers(0, 5_000_000)), min_size=2, max_size=8))
def test_sessions_are_in_the_order_of_the_starts(starts: list[tuple[int, int]]) -> None:
    """`starts`: after how long each follows the one before, which has its answer by then, and how long that takes."""
    now = 0
    sessions = Sessions(lambda: HOUR + now)
    given: list[str] = []
    for gap, way in starts:
        now += way
        given.append(sessions.begin(0))
        now += gap
    assert given == sorted(given)
