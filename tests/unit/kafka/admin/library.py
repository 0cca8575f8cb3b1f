"""confluent_kafka's AdminClient without a broker: tests say what its calls answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from bridge.errors import KafkaFailure
from bridge.kafka.admin.admin_client import AsyncAdminClient

T = TypeVar("T")


class Library:
    """`asked`: each call's name, first argument and timeouts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.asked: list[tuple[str, Any, dict[str, float]]] = []
        self.network: Any = Network()

    def answers(self, name: str, answer: Callable[[Any], Any]) -> None:
        """`answer`: what the call of this name answers to its first argument; futures, or one."""

        def call(_: AdminClient, requested: Any = None, **how: float) -> Any:
            self.asked.append((name, requested, how))
            return answer(requested)

        self._monkeypatch.setattr(AdminClient, name, call)

    def run(self, work: Callable[[AsyncAdminClient], Awaitable[T]], seconds: float = 5.0) -> T:
        async def go() -> T:
            client = AsyncAdminClient({"bootstrap.servers": ""}, self.network, seconds)
            try:
                return await work(client)
            finally:
                await client.close()

        return asyncio.run(go())


class Network:
    """Counts how often it is asked for the controller; raises what it is given."""

    def __init__(self) -> None:
        self.asked = 0
        self.failure: KafkaFailure | None = None

    async def controller(self, doing: str) -> int:
        self.asked += 1
        if self.failure is not None:
            raise self.failure
        return 1


def done(answer: Any = None) -> Future[Any]:
    """A future of the library's, with a result or an error."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    if isinstance(answer, KafkaError):
        future.set_exception(KafkaException(answer))
    else:
        future.set_result(answer)
    return future
