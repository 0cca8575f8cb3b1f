"""How long the login of one connection lasts, and what waits while the connection logs in again (KIP-368).

As in Java's clients a login goes first, on the open connection, when a request is due after 85 to 95 % of the time.
Brokers take a login also after the time is over, but no other request: they close the connection then, whatever is in
flight.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiokafka.errors import KafkaConnectionError

from bridge.kafka.network.login import LoggedIn

_EARLIEST, _LATEST = 0.85, 0.95
"""Of the time that a login lasts. Random, so that not all connections log in at once."""
_BEFORE = 2.0
"""Seconds before its end that a login is renewed at least, or half of its time if that is less: a request that was sent
right before may be on its way to a busy broker for as long."""
_APART = 1.1
"""Seconds between logins on one connection: brokers take one a second at most, and refuse the next with an error."""


@dataclass(frozen=True, slots=True)
class Held:
    """A request that waits for a login: exactly one of both is called, and neither waits."""

    send: Callable[[], None]
    fail: Callable[[BaseException], None]


class Session:
    """The login session of one connection, in one event loop. It refers to the connection only while that logs in
    again."""

    def __init__(self) -> None:
        self._due, self._began = math.inf, -math.inf
        self._held: deque[Held] = deque()
        self._again: asyncio.Task[None] | None = None

    def lasts(self, login: LoggedIn) -> None:
        """Sets how long the session lasts, after each login."""
        self._began = login.at
        part = random.uniform(_EARLIEST, _LATEST)  # noqa: S311  keeps no secret
        latest = max(login.seconds - _BEFORE, login.seconds / 2)
        self._due = login.at + min(login.seconds * part, latest) if login.seconds else math.inf

    @property
    def due(self) -> bool:
        """Whether a request has to wait for a login."""
        return self._again is not None or time.monotonic() >= self._due

    def hold(
        self,
        request: Held,
        log_in: Callable[[], Awaitable[LoggedIn]],
        end: Callable[[BaseException], None],
    ) -> None:
        """Keeps the request until its turn comes after a login. `log_in`: logs in on the connection, past this; `end`:
        ends the connection when that fails."""
        self._held.append(request)
        if self._again is None:
            self._again = asyncio.create_task(self._log_in_again(log_in, end))

    def close(self, why: BaseException | None = None) -> None:
        """Requests that wait fail, as the connection is closed."""
        again, self._again = self._again, None
        if again is not None:
            again.cancel()
        self._fail(why or KafkaConnectionError("The connection was closed"))

    async def _log_in_again(
        self, log_in: Callable[[], Awaitable[LoggedIn]], end: Callable[[BaseException], None]
    ) -> None:
        try:
            await asyncio.sleep(self._began + _APART - time.monotonic())
            self.lasts(await log_in())
        except asyncio.CancelledError:
            self._fail(KafkaConnectionError("The connection was closed"))
            raise
        except Exception as error:
            self._again = None  # it ends by itself
            self._fail(error)
            end(error)
            return
        self._again = None
        while self._held:
            self._held.popleft().send()

    def _fail(self, why: BaseException) -> None:
        held, self._held = self._held, deque()
        for each in held:
            each.fail(why)
