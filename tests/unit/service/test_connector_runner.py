"""A connector in the rounds process, without the process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace

from bridge.errors import Overloaded
from bridge.service.ipc.messages import Config, Desired, InstanceStatus
from bridge.service.rounds.connector_runner import ConnectorRunner
from bridge.service.rounds.publisher import PipeWriter
from connectors.base import Assignment
from tests.unit.service.service_fakes import rounds

DESIRED = Desired(
    "c", "fake", {"source.cluster.ssl.keystore.location": "/own.p12"}, 1, Assignment(0, frozenset())
)


class Statuses(PipeWriter):
    """Takes the first status, and ends the connector."""

    def __init__(self) -> None:
        super().__init__(None)  # type: ignore[arg-type]
        self.first = asyncio.get_running_loop().create_future()

    def instance_status(self, status: InstanceStatus) -> None:
        if not self.first.done():
            self.first.set_result(status)


async def first_status(open_key_stores: Callable[[Config], None]) -> InstanceStatus:
    statuses = Statuses()
    runner = ConnectorRunner(DESIRED, replace(rounds(), open_key_stores=open_key_stores), statuses)
    running = asyncio.create_task(runner.run())
    status: InstanceStatus = await statuses.first
    runner.set_desired(None)
    await running
    return status


def test_while_a_key_store_is_opened_the_loop_goes_on() -> None:
    opened = threading.Event()

    def open_key_stores(config: Config) -> None:
        loop.call_soon_threadsafe(opened.set)
        assert opened.wait(60), "the loop waits for us"

    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        assert runner.run(first_status(open_key_stores)).error is None


def test_a_process_that_opened_nothing_is_tried_again() -> None:
    def open_key_stores(config: Config) -> None:
        raise Overloaded("the process that opens key stores did not answer: exit status 1")

    status = asyncio.run(first_status(open_key_stores))
    assert status.error is not None
    assert "exit status 1" in status.error
    assert status.retry_in > 0
