"""The library's client and connections, with a limit to what a broker may send.

The library reads as many bytes as a broker says that its response has, up to 2 GiB, also of a broker that nobody has
authenticated yet.
"""

from __future__ import annotations

import asyncio
import struct
import weakref
from typing import Any

import aiokafka.client
from aiokafka.client import AIOKafkaClient
from aiokafka.conn import AIOKafkaConnection, CloseReason, OAuthAuthenticator
from aiokafka.errors import KafkaConnectionError

from bridge.kafka.protocol.wire import size_error

__all__ = ["AIOKafkaClient", "new_connection"]

_CANT_READ = "The broker's response can't be read"
_INT32 = struct.Struct(">i")


class _OAuthAuthenticator(OAuthAuthenticator):
    """Ends a login whose token the broker refuses with the broker's error.

    A broker answers such a token without an error code, with its reason as a challenge, and sends the error once that
    is answered (RFC 7628, 3.2.3). The library takes the challenge for a success, and its next request ends the
    connection: wrong credentials would look like a broker that is away.
    """

    _challenged = False

    async def step(self, payload: bytes | None) -> tuple[bytes, bool] | None:
        if payload and not self._challenged:
            self._challenged = True
            return b"\x01", True
        answer: tuple[bytes, bool] | None = await super().step(payload)  # type: ignore[no-untyped-call]
        return answer


class _Connection(AIOKafkaConnection):
    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            reader, writer = await AIOKafkaConnection.connect(self)
        except AssertionError as wrong:  # what the library asserts of a broker's versions
            raise KafkaConnectionError(f"{_CANT_READ}: {wrong}") from None
        return reader, writer

    def authenticator_oauth(self) -> OAuthAuthenticator:
        provider = self._sasl_oauth_token_provider
        return _OAuthAuthenticator(sasl_oauth_token_provider=provider)  # type: ignore[no-untyped-call]

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
            wrong = size_error(size)
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
    """What is wrong with a response; "" for nothing."""
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


async def _connected(host: str, port: int, **settings: Any) -> AIOKafkaConnection:
    connection = new_connection(host, port, **settings)
    await connection.connect()
    return connection


new_connection: type[AIOKafkaConnection] = _Connection
"""Closed at a length that no response can have; requests that wait for one fail with that reason."""
# The client has no way to be given other connections than the library's.
vars(aiokafka.client)["create_conn"] = _connected
