"""A broker of a login that says what it is told to, and has proved nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaConnectionError

from bridge.kafka.network.library_client import LibraryConnection
from bridge.kafka.network.login import LoggedIn
from bridge.kafka.protocol.wire import ApiKeys, Call, Reader, Writer

PASSWORD = "geheim"
NONCE = "n" * 32
"""Stands for the client's, which has as many characters."""


def handshake(mechanism: str) -> bytes:
    """Returns the response to SaslHandshake."""
    writer = Writer(flexible=False)
    writer.int16(0)
    writer.array(1)
    writer.string(mechanism)
    return bytes(writer.encode())


def challenge(said: bytes, version: int = 0, lifetime_ms: int = 0) -> bytes:
    """Returns the response to SaslAuthenticate."""
    writer = Writer(flexible=version >= 2)
    writer.int16(0)
    writer.string(None)
    writer.blob(said)
    if version >= 1:
        writer.int64(lifetime_ms)
    writer.tags()
    return bytes(writer.encode())


def log_in(mechanism: str, responses: Sequence[bytes], version: int = 0) -> LoggedIn:
    """Logs in where the broker sends these, and closes the connection then. `version`: of SaslAuthenticate."""

    async def go() -> LoggedIn:
        left, nonce = list(responses), b""

        async def send(call: Call) -> Reader:
            nonlocal nonce
            call.prepare({ApiKeys.SASL_HANDSHAKE: (0, 1), ApiKeys.SASL_AUTHENTICATE: (0, version)})
            begin, is_first, said = bytes(call.encode()).partition(b",r=")
            if is_first and not nonce and b"n,,n=" in begin:
                nonce = said[: len(NONCE)]
            if not left:
                raise KafkaConnectionError("closed")
            return Reader(left.pop(0).replace(NONCE.encode(), nonce), flexible=call.flexible)

        connection = LibraryConnection(
            "x",
            1,
            sasl_mechanism=mechanism,
            sasl_plain_username="me",
            sasl_plain_password=PASSWORD,
            sasl_oauth_token_provider=_Token(),
        )
        return await connection.log_in(send)

    return asyncio.run(go())


class _Token(AbstractTokenProvider):
    async def token(self) -> str:
        return "token"
