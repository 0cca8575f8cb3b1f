"""The library's client and connections, with a limit to what a broker may send, and with logins that are renewed.

The library reads as many bytes as a broker says that its response has, up to 2 GiB, also of a broker that nobody has
authenticated yet. And it logs in once for each connection, which brokers close when the login's time is over.
"""

from __future__ import annotations

import asyncio
import struct
import weakref
from collections.abc import Awaitable, Collection, Coroutine, Mapping
from contextvars import ContextVar
from typing import Any

import aiokafka.client
from aiokafka.abc import AbstractTokenProvider
from aiokafka.client import AIOKafkaClient
from aiokafka.cluster import ClusterMetadata
from aiokafka.conn import AIOKafkaConnection, CloseReason, OAuthAuthenticator
from aiokafka.errors import KafkaConnectionError

from bridge.errors import KafkaFailure
from bridge.kafka.config.token_provider import SharedTokens
from bridge.kafka.network.login import (
    Authenticator,
    Held,
    KerberosAuthenticator,
    LimitedScramAuthenticator,
    LoggedIn,
    Send,
    Session,
    log_in,
)
from bridge.kafka.protocol.wire import MAX_BEFORE_LOGIN_BYTES, MAX_RESPONSE_BYTES, Call, size_error

_CANT_READ = "The broker's response can't be read"
_INT32 = struct.Struct(">i")
MOST_BYTES: ContextVar[int] = ContextVar("most_bytes", default=MAX_RESPONSE_BYTES)
"""Of a response to connections that are opened in this context."""
_KNOWN_BROKERS_SECONDS = 10.0
"""For which brokers that are known are asked for metadata, before the bootstrap servers are."""


class _OAuthAuthenticator(OAuthAuthenticator):
    """Ends a login whose token the broker refuses with the broker's error.

    A broker answers such a token without an error code, with its reason as a challenge, and sends the error once that
    is answered (RFC 7628, 3.2.3). The library takes the challenge for a success, and its next request ends the
    connection: wrong credentials would look like a broker that is away.
    """

    def __init__(self, provider: AbstractTokenProvider) -> None:
        OAuthAuthenticator.__init__(self, sasl_oauth_token_provider=provider)
        self._challenged = False

    async def step(self, payload: bytes | None) -> tuple[bytes, bool] | None:
        if payload and not self._challenged:
            self._challenged = True
            return b"\x01", True
        answer: tuple[bytes, bool] | None = await OAuthAuthenticator.step(self, payload)
        return answer


class LibraryConnection(AIOKafkaConnection):
    """Closed at a length that no response can have; requests that wait for one fail with that reason. A request that
    is due after most of a login's time waits until the connection has logged in again."""

    def __init__(self, host: str, port: int, **settings: Any) -> None:
        AIOKafkaConnection.__init__(self, host, port, **settings)
        self.session = Session()
        self._most_bytes = MAX_BEFORE_LOGIN_BYTES
        """Of a response to a Call."""

    @property
    def versions(self) -> Mapping[int, tuple[int, int]]:
        """The lowest and highest version of each API that the broker speaks, once connected."""
        versions: Mapping[int, tuple[int, int]] = self._versions
        return versions

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            reader, writer = await AIOKafkaConnection.connect(self)
        except AssertionError as wrong:  # what the library asserts of a broker's versions
            raise KafkaConnectionError(f"{_CANT_READ}: {wrong}") from None
        self._most_bytes = MOST_BYTES.get()
        return reader, writer

    @property
    def most_bytes(self) -> int:
        """Of the next response. What the library asks for itself are versions, logins, and brokers with a topic at
        most: of something larger it would make an object for every few bytes, gigabytes in all."""
        of_call = bool(self._requests) and isinstance(self._requests[0][1], Call)
        return self._most_bytes if of_call else min(self._most_bytes, MAX_BEFORE_LOGIN_BYTES)

    def send(self, request: Any, expect_response: bool = True) -> Coroutine[Any, Any, Any]:
        if self._reader is None or not self.session.due:
            return self._send_now(request, expect_response)
        sent: asyncio.Future[Coroutine[Any, Any, Any]] = asyncio.get_running_loop().create_future()

        def send() -> None:
            if not sent.done():
                try:
                    sent.set_result(self._send_now(request, expect_response))
                except Exception as error:
                    sent.set_exception(error)

        def fail(why: BaseException) -> None:
            if not sent.done():
                sent.set_exception(why)

        self.session.hold(Held(send, fail), self._log_in_again, self._end)
        return _answer(sent)

    def close(self, reason: CloseReason | None = None, exc: BaseException | None = None) -> Awaitable[None]:
        self.session.close()
        closed: Awaitable[None] = AIOKafkaConnection.close(self, reason=reason, exc=exc)
        return closed

    async def log_in(self, send: Send) -> LoggedIn:
        """Logs in with the credentials of now, over `send`. Raises what the library raises, and what token providers
        do."""
        return await log_in(self._sasl_mechanism, self._authenticator(), send)

    def _authenticator(self) -> Authenticator:
        mechanism: str = self._sasl_mechanism
        made: Authenticator
        if mechanism == "OAUTHBEARER":
            if isinstance(self._sasl_oauth_token_provider, SharedTokens):
                self._sasl_oauth_token_provider.verify(self._host)
            made = _OAuthAuthenticator(self._sasl_oauth_token_provider)
        elif mechanism == "GSSAPI":
            # The library has no fields for these two, and does not use its own for a user and a password then.
            principal, keytab = self._sasl_plain_username, self._sasl_plain_password
            made = KerberosAuthenticator(self._loop, self.sasl_principal, principal, keytab)
        elif mechanism == "PLAIN":
            made = AIOKafkaConnection.authenticator_plain(self)
        else:
            user, password = self._sasl_plain_username, self._sasl_plain_password
            made = LimitedScramAuthenticator(mechanism, user, password, self._loop)
        return made

    async def _do_sasl_handshake(self) -> None:
        """The first login, by the library's name for it."""
        self.session.lasts(await self._log_in_again())

    async def _log_in_again(self) -> LoggedIn:
        return await self.log_in(self._send_now)

    def _send_now(self, request: Any, expect_response: bool = True) -> Coroutine[Any, Any, Any]:
        answered: Coroutine[Any, Any, Any] = AIOKafkaConnection.send(self, request, expect_response)
        return answered

    def _end(self, why: BaseException) -> None:
        self.close(reason=CloseReason.AUTH_FAILURE, exc=why)

    @staticmethod
    async def _read(self_ref: weakref.ref[AIOKafkaConnection]) -> None:
        # As in the library there is no reference to the connection while it waits, so that one that nobody closes is
        # collected. What is raised ends it.
        connection = self_ref()
        if connection is None or connection._reader is None:
            return
        reader = connection._reader
        del connection
        while True:
            (size,) = _INT32.unpack(await reader.readexactly(_INT32.size))
            connection = self_ref()
            if not isinstance(connection, LibraryConnection):
                return
            wrong = size_error(size, connection.most_bytes)
            del connection
            response = b"" if wrong else await reader.readexactly(size)
            connection = self_ref()
            if connection is None:
                return
            if not wrong:
                wrong = _handled(connection, response)
            if wrong:
                _refuse(connection, KafkaConnectionError(wrong))
                return
            del connection


def _handled(connection: AIOKafkaConnection, response: bytes) -> str:
    """Returns what is wrong with a response; "" for nothing."""
    try:
        connection._handle_frame(response)
    except (
        Exception
    ) as wrong:  # whatever the library does with bytes that are no response, or with a response to nothing
        return f"{_CANT_READ}: {wrong!r}"
    return ""


def _refuse(connection: AIOKafkaConnection, error: KafkaConnectionError) -> None:
    for _, _, waiting in connection._requests:
        if not waiting.done():
            waiting.set_exception(error)
    connection.close(reason=CloseReason.OUT_OF_SYNC, exc=error)


async def _answer(sent: asyncio.Future[Coroutine[Any, Any, Any]]) -> Any:
    """Returns the response to a request that had to wait before it was sent."""
    try:
        answered = await sent
    except asyncio.CancelledError:
        if sent.done() and not sent.cancelled() and sent.exception() is None:
            sent.result().close()  # nobody waits for it any more
        raise
    return await answered


class LibraryClient(AIOKafkaClient):
    """Keeps asking for metadata also while there is no token to log in with: the library's task for it would end. Asks
    its bootstrap servers again where no broker that it knows answers: all may have new addresses by now (KIP-899)."""

    def __init__(self, **settings: Any) -> None:
        AIOKafkaClient.__init__(self, **settings)
        self.dropped = 0
        """Connections that broke, but for those that were not used for long."""

    def _on_connection_closed(self, conn: AIOKafkaConnection, reason: CloseReason) -> None:
        self.dropped += reason in (CloseReason.CONNECTION_BROKEN, CloseReason.CONNECTION_TIMEOUT)
        AIOKafkaClient._on_connection_closed(self, conn, reason)

    async def _metadata_update(self, cluster_metadata: ClusterMetadata, topics: Collection[str]) -> bool:
        try:
            async with asyncio.timeout(_KNOWN_BROKERS_SECONDS):
                if await AIOKafkaClient._metadata_update(self, cluster_metadata, topics):
                    return True
        except KafkaFailure:
            return False
        except TimeoutError:
            pass  # each of them may take as long as a connection to nobody does
        try:
            await AIOKafkaClient.bootstrap(self)
        except (KafkaFailure, KafkaConnectionError):
            return False
        return True


async def _connected(host: str, port: int, **settings: Any) -> AIOKafkaConnection:
    connection = LibraryConnection(host, port, **settings)
    await connection.connect()
    return connection


# The client has no way to be given other connections than the library's.
vars(aiokafka.client)["create_conn"] = _connected
