"""Wraps confluent_kafka's AdminClient for an event loop: its futures are awaited, its errors become KafkaFailure."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from bridge.backoff import pauses
from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.config.sasl import Setting
from bridge.kafka.config.settings import RECONNECT
from bridge.kafka.config.tokens import obtain_first
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol.error_codes import Errors
from bridge.kafka.protocol.errors import failure, of_librdkafka, refusal

log = logging.getLogger(__name__)
K = TypeVar("K")
V = TypeVar("V")
_MOST_SECONDS = 3600.0
"""The longest timeout that librdkafka takes."""
SOON = 1.0
"""Seconds after which a response is late."""
_CONTROLLER_PAUSES = (0.3, 0.6, 2)
"""Seconds before a controller that has moved is asked again: before the first retry, at most, and how many retries."""


class AsyncAdminClient:
    """One AdminClient. The library's own threads do the waiting."""

    def __init__(self, settings: Mapping[str, Setting], network: NetworkClient, seconds: float) -> None:
        """`settings`: librdkafka's; `network`: logs in as they do; `seconds`: the longest that a call takes."""
        # Below the level of its lines about brokers that are away, one per attempt: rounds log that themselves.
        self._settings: dict[str, Any] = {**RECONNECT, **settings, "log_level": 2}
        self._client: AdminClient | None = None
        self._replaced: list[AdminClient] = []
        self._under_way = Counter[int]()
        """Calls by the id of their client."""
        self._making = asyncio.Lock()
        self._network = network
        self.seconds = min(seconds, _MOST_SECONDS)
        """The longest that a call takes."""

    async def close(self) -> None:
        """Ends the library's threads; calls under way end as failures."""
        self._replace()
        await self._close_replaced(self._replaced)

    async def call(
        self, doing: str, method: Callable[..., Mapping[K, Future[V]]], *args: object, **how: object
    ) -> dict[K, V | KafkaError]:
        """Calls AdminClient, and returns the result or the error of each key. Raises KafkaFailure when the cluster as a
        whole does not answer."""
        results = await self._once(doing, method, *args, **how)
        for pause in pauses(*_CONTROLLER_PAUSES):
            if not any(
                isinstance(result, KafkaError) and result.code() == Errors.NOT_CONTROLLER
                for result in results.values()
            ):
                break
            await asyncio.sleep(pause)
            # librdkafka looks for the controller every few minutes only, and when it is new. Its describe_cluster ends
            # the process where a broker knows of no broker, as the only one does that has lost its session.
            self._replace()
            # Those without a call under way, which would fail.
            await self._close_replaced(
                [client for client in self._replaced if not self._under_way[id(client)]]
            )
            results = await self._once(doing, method, *args, **how)
        return results

    def _replace(self) -> None:
        """The next call makes a new client."""
        client, self._client = self._client, None
        if client is not None:
            self._replaced.append(client)

    async def _close_replaced(self, closing: Sequence[AdminClient]) -> None:
        self._replaced = [client for client in self._replaced if client not in closing]
        for client in closing:
            # Waits for the threads, of which one may be looking up a name.
            await asyncio.to_thread(client.__exit__, None, None, None)

    async def _made(self, doing: str) -> AdminClient:
        """It connects at once, so it is made for who has something to ask."""
        async with self._making:
            if self._client is None:
                # Should a broker's answer end this process (decision 0040), the last such line tells which cluster's.
                log.info("librdkafka admin client created for %s", self._settings.get("bootstrap.servers"))
                if "oauth_cb" in self._settings:
                    # librdkafka sends its tokens to whichever broker it is told of.
                    await self._network.verify_logins(doing)
                    try:  # its constructor waits for a token, in steps of a second
                        self._client = await asyncio.to_thread(self._make_logged_in)
                    except KafkaException as error:
                        raise of_librdkafka(error.args[0], doing) from None
                else:
                    self._client = self.make_client()
            return self._client

    def _make_logged_in(self) -> AdminClient:
        obtain_first(self._settings)
        return self.make_client()

    def make_client(self) -> AdminClient:
        return AdminClient(self._settings, logger=logging.getLogger("librdkafka"))

    async def _once(
        self, doing: str, method: Callable[..., Mapping[K, Future[V]]], *args: object, **how: object
    ) -> dict[K, V | KafkaError]:
        client = self._client or await self._made(doing)
        self._under_way[id(client)] += 1
        try:
            return await self._asked(client, doing, method, *args, **how)
        finally:
            self._under_way[id(client)] -= 1
            self._under_way = +self._under_way

    async def _asked(
        self,
        client: AdminClient,
        doing: str,
        method: Callable[..., Mapping[K, Future[V]]],
        *args: object,
        **how: object,
    ) -> dict[K, V | KafkaError]:
        try:
            futures = method(client, *args, request_timeout=self.seconds, **how)
        except ValueError as error:  # what it takes no request for
            raise failure(KafkaFault.OTHER, doing, str(error)) from None
        client.poll(0)  # hands its log lines over
        waits = {key: asyncio.wrap_future(future) for key, future in futures.items()}
        try:
            _, pending = await asyncio.wait(waits.values(), timeout=SOON)
            if pending:
                # librdkafka waits for its whole timeout where connections or logins are refused, and can't say why.
                await self._network.controller(doing)
                await asyncio.wait(pending)
            results: dict[K, V | KafkaError] = {}
            for key, wait in waits.items():
                failed = _error(wait)
                results[key] = wait.result() if failed is None else failed
        finally:
            for wait in waits.values():
                if not wait.cancel() and not wait.cancelled():
                    wait.exception()  # nobody misses it
        local = [result for result in results.values() if isinstance(result, KafkaError) and _local(result)]
        if local and len(local) == len(results):
            raise of_librdkafka(local[0], doing)
        return results


def _error(wait: asyncio.Future[V]) -> KafkaError | None:
    raised = wait.exception()
    if raised is None:
        return None
    if not isinstance(raised, KafkaException):
        raise raised
    error = raised.args[0]
    assert isinstance(error, KafkaError)
    return error


def _local(error: KafkaError) -> bool:
    """Whether librdkafka has raised it, and no broker has sent it."""
    return bool(error.code() < Errors.UNKNOWN_SERVER_ERROR)


def failure_of(error: KafkaError, doing: str, right: str) -> KafkaFailure:
    """In the broker's own words. `right`: what to grant where that is missing."""
    failed = None if _local(error) else refusal(error.code(), words(error), doing, right)
    return failed or of_librdkafka(error, doing)


def words(error: KafkaError) -> str:
    """The broker's own, "" where it has sent none: librdkafka then puts in its name of the code."""
    message = str(error.str())
    return "" if message == KafkaError(error.code()).str() else message
