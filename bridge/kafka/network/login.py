"""A login by SASL, over whatever connection sends its requests: the first one and all that follow it (KIP-368).

Logs in by SCRAM, and lets no broker choose how long that takes, or how little guards the password.

The library does as many iterations as a broker asks for, before the broker has proved anything: two thousand million
take a thread for an hour, and of one whoever listens can guess the password.

A login by Kerberos (GSSAPI) with a ticket of the configuration's own keytab.

The library takes the ticket of the user's cache, and nobody else asks for one: kinit is run by librdkafka, which most
processes never load.

How long the login of one connection lasts, and what waits while the connection logs in again (KIP-368).

As in Java's clients a login goes first, on the open connection, when a request is due after 85 to 95 % of the time.
Brokers take a login also after the time is over, but no other request: they close the connection then, whatever is in
flight.
"""

from __future__ import annotations

import asyncio
import importlib
import math
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from aiokafka import errors as wire_errors
from aiokafka.conn import SaslGSSAPIAuthenticator, ScramAuthenticator
from aiokafka.errors import KafkaConnectionError

from bridge.errors import BridgeError, KafkaFailure, KafkaFault
from bridge.kafka.protocol import connection_requests
from bridge.kafka.protocol.error_codes import Errors
from bridge.kafka.protocol.wire import Call, Reader, Unreadable

Send = Callable[[Call], Awaitable[Reader]]
_OTHER_PRINCIPAL = "Cannot change principals"
"""How brokers begin to refuse a login on an open connection that is of somebody else than the last one."""
_SHOWN = 200
LEAST_ITERATIONS, MOST_ITERATIONS = 4096, 1_000_000
"""As few as Java's client takes; brokers of Kafka store 16,384 at most. The most take about a second."""
_REFUSED = (-1765328378, -1765328366, -1765328360, -1765328353, -1765328203)
"""By MIT's codes: a principal that the KDC does not know or has locked, a wrong key (two), no key in the keytab."""
_NO_CACHE = -1765328189
"""With a keytab: it has no key of the principal, so that nothing was put into the cache."""
_FAILURE_BITS = 1 << 32
_EARLIEST, _LATEST = 0.85, 0.95
"""Of the time that a login lasts. Random, so that not all connections log in at once."""
_BEFORE = 2.0
"""Seconds before its end that a login is renewed at least, or half of its time if that is less: a request that was sent
right before may be on its way to a busy broker for as long."""
_APART = 1.1
"""Seconds between logins on one connection: brokers take one a second at most, and refuse the next with an error."""


class Authenticator(Protocol):
    """A mechanism's part: the payload that answers a challenge, None for the first; None once all is said."""

    def step(self, payload: bytes | None) -> Awaitable[tuple[bytes, bool] | None]: ...


class LoggedIn(NamedTuple):
    """A login that a broker has accepted. `at`: no later than the broker counts from, in monotonic time; `seconds` that
    the login lasts, 0 for ever."""

    at: float
    seconds: float


async def log_in(mechanism: str, authenticator: Authenticator, send: Send) -> LoggedIn:
    """Logs in by SASL. Raises aiokafka's errors: SaslAuthenticationFailed where the broker refuses the credentials,
    KafkaConnectionError where only a new connection could log in, and for whatever can't be read: what answers has
    proved nothing yet, and another broker may be one."""
    try:
        return await _log_in(mechanism, authenticator, send)
    except Unreadable as wrong:
        raise wire_errors.KafkaConnectionError(str(wrong)) from None


async def _log_in(mechanism: str, authenticator: Authenticator, send: Send) -> LoggedIn:
    agreed = connection_requests.read_handshake(await send(connection_requests.handshake(mechanism)))
    if agreed.error not in (Errors.NONE, Errors.UNSUPPORTED_SASL_MECHANISM):
        raise wire_errors.for_code(agreed.error)(f"while a login by {mechanism} begins")
    if agreed.error or mechanism not in agreed.mechanisms:
        raise wire_errors.UnsupportedSaslMechanismError(
            f"The broker has no SASL mechanism {mechanism}, only {', '.join(agreed.mechanisms) or 'none'}"
        )
    at, challenge, lifetime_ms = time.monotonic(), None, 0
    while (said := await _step(authenticator, challenge)) is not None:
        call, at = connection_requests.authenticate(said[0]), time.monotonic()
        answer = connection_requests.read_authenticated(await send(call), call.API_VERSION)
        if answer.error:
            raise _refused(answer.error, answer.message)
        challenge, lifetime_ms = answer.challenge, answer.lifetime_ms
    return LoggedIn(at, max(0, lifetime_ms) / 1000)


async def _step(authenticator: Authenticator, challenge: bytes | None) -> tuple[bytes, bool] | None:
    """Takes the mechanism's next step. Raises aiokafka's errors, and ours of token providers and Kerberos."""
    try:
        return await authenticator.step(challenge)
    except (BridgeError, wire_errors.KafkaError):
        raise
    except (
        Exception
    ) as wrong:  # the library raises anything for a challenge that is malformed, or proves nothing
        if challenge is None:
            raise
        what = f"{type(wrong).__name__}: {str(wrong)[:_SHOWN]}"
        raise wire_errors.KafkaConnectionError(
            f"The broker's answer to the login can't be read, or proves nothing: {what}"
        ) from None


def _refused(code: int, message: str) -> wire_errors.KafkaError:
    if message.startswith(_OTHER_PRINCIPAL):
        # As with tokens of a role that AWS names anew with each session: nothing is wrong with them.
        return wire_errors.KafkaConnectionError(
            "The login is of another principal, and takes a new connection"
        )
    return wire_errors.for_code(code)(message)


class LimitedScramAuthenticator(ScramAuthenticator):
    """The library's authenticator; raises KafkaConnectionError where a broker asks for fewer or more iterations."""

    def __init__(self, mechanism: str, user: str, password: str, loop: asyncio.AbstractEventLoop) -> None:
        ScramAuthenticator.__init__(
            self,
            loop=loop,
            sasl_plain_password=password,
            sasl_plain_username=user,
            sasl_mechanism=mechanism,
        )

    def create_salted_password(self, salt: bytes, iterations: int) -> None:
        if not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
            raise KafkaConnectionError(
                f"The broker asks for {iterations} iterations of SCRAM; {LEAST_ITERATIONS} to {MOST_ITERATIONS} are "
                "done: store the user's credentials again with as many, unless it is no broker of yours"
            )
        ScramAuthenticator.create_salted_password(self, salt, iterations)


class KerberosAuthenticator(SaslGSSAPIAuthenticator):
    """Logs in by GSSAPI. `service`: as `kafka@HOST`; `principal`, `keytab`: of the client, None for what the user's
    cache has. Tickets of a keytab are kept in memory, one cache for each, and renewed by MIT's library."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, service: str, principal: str | None, keytab: str | None
    ) -> None:
        self._client, self._keytab = principal, keytab
        SaslGSSAPIAuthenticator.__init__(self, loop=loop, principal=service)

    async def step(self, payload: bytes | None) -> tuple[bytes, bool] | None:
        """Raises KafkaFailure for what somebody has to correct, and KafkaConnectionError for the rest."""
        gssapi = _gssapi()
        try:
            said: tuple[bytes, bool] | None = await SaslGSSAPIAuthenticator.step(self, payload)
        except gssapi.exceptions.GSSError as error:
            text = f"Kerberos: {' '.join(str(error).split())}"
            code = error.min_code - _FAILURE_BITS if error.min_code > 0 else error.min_code
            if code == _NO_CACHE and self._keytab:
                text = f"Kerberos: the keytab has no key of {self._client or 'any principal'}"
            elif code not in _REFUSED:
                raise KafkaConnectionError(text) from None
            raise KafkaFailure(KafkaFault.CREDENTIALS, text, retriable=False) from None
        return said

    def authenticator_gssapi(self) -> Generator[tuple[bytes, bool], bytes, None]:
        """The library's, with credentials: it has no way to be given some."""
        gssapi = _gssapi()
        name = gssapi.Name(self._principal, name_type=gssapi.NameType.hostbased_service)
        context = gssapi.SecurityContext(
            name=name.canonicalize(gssapi.MechType.kerberos),
            creds=self._credentials(),
            mech=gssapi.MechType.kerberos,
            usage="initiate",
        )
        token = None
        while not context.complete:
            token = yield context.step(token) or b"", True
        # One octet for authentication without a layer, three for the size of messages, then whom it is for (RFC 4752).
        layers = context.unwrap(token).message
        yield (
            context.wrap(bytes([layers[0] & 1]) + layers[1:] + self._principal.encode(), False).message,
            False,
        )

    def _credentials(self) -> Any:
        gssapi = _gssapi()
        if not self._keytab:
            return None
        name = None
        if self._client:
            name = gssapi.Name(self._client, name_type=gssapi.NameType.kerberos_principal)
        cache = f"MEMORY:{self._client or ''} {self._keytab}"
        store = {"client_keytab": f"FILE:{self._keytab}", "ccache": cache}
        return gssapi.Credentials(name=name, usage="initiate", store=store)


def _gssapi() -> Any:
    """The Python package gssapi, which is not required."""
    return importlib.import_module("gssapi")


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
        for request in held:
            request.fail(why)
