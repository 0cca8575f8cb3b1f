"""A service on fakes, its HTTP API, and what its clients send."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx

from bridge.protocol.messages import ErrorBody, GroupReport
from bridge.service.http.access import Access
from bridge.service.http.app import create_app
from bridge.service.ipc.messages import pack_report
from bridge.service.service import Service
from bridge.tokens import Tokens
from connectors.base import Summary
from tests.unit.service.service_fakes import (
    Clock,
    FakeKind,
    fake_service,
    session,
)

START = {"session": session(1), "kind": "fake", "config": {"mode": "ok"}, "version": "0.1.0", "protocol": 1}
TASK = {**START, "task_count": 2}
PATH = "/v1/connectors/c/tasks/0"


class ServiceHarness:
    """A service on a clock of its own, and a client of it."""

    def __init__(self, service: Service, client: httpx.AsyncClient, clock: Clock) -> None:
        self.service = service
        self.client = client
        self.clock = clock

    async def put(self, path: str, body: object) -> httpx.Response:
        return await self.client.put(path, json=body)

    async def poll(
        self, path: str = "/v1/connectors/c/tasks/0", at: int = 1, wait: int = 0
    ) -> httpx.Response:
        return await self.client.post(f"{path}/poll", json={"session": session(at), "wait_ms": wait})

    async def until_held(self) -> None:
        """Until a poll is held."""
        for _ in range(10_000):
            if self.service.long_polls.count:
                return
            await asyncio.sleep(0.001)
        raise AssertionError("no poll is held")

    def reports(self, *reports: GroupReport, connector: str = "c") -> None:
        """What a connector has found that runs for a day, and has asked both clusters just now."""
        if self.service.table.get(connector) is None:
            self.service.table.start_task(connector, 0, session(1), "fake", 1, {})
        for task in self.service.table.connector(connector).tasks.values():
            task.active_since = self.clock.ms - 86_400_000
        now_ms = int(time.time() * 1000)
        self.service.snapshots.summary(
            connector, 1, Summary(rounds=1, as_of_ms=now_ms, interval_ms=60_000, tasks=(0, 1))
        )
        self.service.snapshots.groups(connector, 1, [pack_report(item.group, item) for item in reports])

    def gone(self, group: str) -> None:
        self.service.snapshots.groups("c", 1, [pack_report(group, None)])


@asynccontextmanager
async def service_harness(
    token: str | None = None, kind: FakeKind | None = None, size: int = 1, queue: int = 8
) -> AsyncIterator[ServiceHarness]:
    clock = Clock()
    service = fake_service(clock, kind, size, queue)
    app = create_app(service, access=Access(lambda: Tokens() if token is None else Tokens((token,))))
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://bridge") as client,
    ):
        yield ServiceHarness(service, client, clock)


def run(test: Callable[[ServiceHarness], Awaitable[None]], **parts: Any) -> None:
    """Runs a test on a service of its own."""

    async def go() -> None:
        async with service_harness(**parts) as made:
            await test(made)

    asyncio.run(go())


def error(response: httpx.Response, status: int, code: str) -> ErrorBody:
    """The error that a response is, which has this status and code."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    body = ErrorBody.model_validate_json(response.content)
    assert body.error_code == code
    assert "Traceback" not in response.text
    return body


async def started(at: ServiceHarness, index: int = 0, **changes: object) -> int:
    """Starts a task, and returns the generation of its connector."""
    answer = await at.put(f"/v1/connectors/c/tasks/{index}", {**TASK, "task_count": 1, **changes})
    assert answer.status_code == 200, answer.text
    return at.service.table.connector("c").generation
