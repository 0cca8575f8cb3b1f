"""Whether a cluster answers, and if not, what is in the way: the first connection, looked at closely."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import time
from dataclasses import dataclass
from enum import StrEnum

from aiokafka.errors import (
    AuthenticationFailedError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.admin.cluster_description import Description, describe
from bridge.kafka.config.settings import RawSettings
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.network.connection import connection_to
from bridge.kafka.network.library_client import MOST_BYTES
from bridge.kafka.protocol.wire import MAX_BEFORE_LOGIN_BYTES

MOST = 5
"""Bootstrap servers that are tried, at once."""


class Cause(StrEnum):
    REFUSED = "refused"
    NO_DNS = "no_dns"
    TLS = "tls"
    AUTHENTICATION = "authentication"
    TIMEOUT = "timeout"
    CLOSED = "closed"
    OTHER = "other"


_WORDS = {
    Cause.REFUSED: "{at} refuses connections: start the broker, or correct the port",
    Cause.NO_DNS: "{at} has no address in DNS: correct the name, or the resolver of the service's machine",
    Cause.TLS: "TLS with {at} fails ({detail}): check security.protocol, ssl.truststore.* and ssl.keystore.*",
    Cause.AUTHENTICATION: "{at} refuses the login ({detail}): check sasl.mechanism and sasl.jaas.config",
    Cause.TIMEOUT: "{at} does not answer in {detail}: check the address, firewalls, and whether the broker runs",
    Cause.CLOSED: "{at} closes the connection: check that security.protocol is that of the broker's listener",
    Cause.OTHER: "{at} can't be used ({detail}): check the address and the client properties",
}


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why `at` (host:port) can't be used; without secrets."""

    cause: Cause
    at: str
    detail: str = ""

    def __str__(self) -> str:
        return _WORDS[self.cause].format(at=self.at, detail=self.detail)


async def reach(settings: RawSettings, seconds: float) -> Description | list[Trouble]:
    """Returns what the cluster says of itself, or for each bootstrap server what is in the way. Never takes much longer
    than `seconds`, nor reads large responses: whoever writes a configuration says who is asked."""
    return await asyncio.create_task(_reach(settings, seconds))


async def _reach(settings: RawSettings, seconds: float) -> Description | list[Trouble]:
    MOST_BYTES.set(MAX_BEFORE_LOGIN_BYTES)  # for the connections of this task
    end = time.monotonic() + seconds
    servers = settings.bootstrap_servers[:MOST]
    tried = [asyncio.create_task(_trouble(server, settings, seconds)) for server in servers]
    troubles: list[Trouble] = []
    try:
        for each in asyncio.as_completed(tried):
            trouble = await each
            if trouble is None:
                return await _described(settings, servers, max(0.1, end - time.monotonic()), seconds)
            troubles.append(trouble)
    finally:
        for task in tried:
            task.cancel()
    return sorted(troubles, key=lambda trouble: servers.index(trouble.at))


async def _described(
    settings: RawSettings, servers: tuple[str, ...], left: float, seconds: float
) -> Description | list[Trouble]:
    """The bootstrap server answers; the brokers that it names may not."""
    client, listed = NetworkClient(settings), ", ".join(servers)
    try:
        async with asyncio.timeout(left):
            return await describe(client)
    except TimeoutError:
        where = f"a broker that {listed} names as its own (advertised.listeners)"
        return [Trouble(Cause.TIMEOUT, where, f"{seconds:g} s")]
    except KafkaFailure as failure:
        detail = f"it answers, but not as a cluster whose brokers can be reached: {failure}"
        return [Trouble(Cause.OTHER, listed, detail)]
    finally:
        await client.close()


async def _trouble(server: str, settings: RawSettings, seconds: float) -> Trouble | None:
    host, _, port = server.rpartition(":")
    connection = connection_to(host.strip("[]"), int(port), settings.arguments())
    try:
        async with asyncio.timeout(seconds):
            await connection.connect()
    except Exception as error:
        return trouble_of(error, server, settings, seconds)
    finally:
        connection.close()
    return None


def trouble_of(error: Exception, at: str, settings: RawSettings, seconds: float) -> Trouble:
    if isinstance(error, socket.gaierror):
        return Trouble(Cause.NO_DNS, at)
    if isinstance(error, TimeoutError):
        return Trouble(Cause.TIMEOUT, at, f"{seconds:g} s")
    if isinstance(error, ssl.SSLCertVerificationError):
        return Trouble(Cause.TLS, at, error.verify_message)
    if isinstance(error, ssl.SSLError):
        return Trouble(Cause.TLS, at, error.reason or type(error).__name__)
    mechanism = settings.sasl.mechanism if settings.sasl is not None else ""
    if isinstance(error, UnsupportedSaslMechanismError):
        return Trouble(Cause.AUTHENTICATION, at, f"it does not offer {mechanism}")
    if isinstance(error, SaslAuthenticationFailed | AuthenticationFailedError):
        return Trouble(Cause.AUTHENTICATION, at, mechanism)
    if isinstance(error, KafkaFailure):
        login = error.fault is KafkaFault.CREDENTIALS
        return Trouble(Cause.AUTHENTICATION if login else Cause.OTHER, at, str(error))
    if isinstance(error, OSError) and (error.errno == errno.ECONNREFUSED or "refused" in str(error).lower()):
        return Trouble(Cause.REFUSED, at)
    if isinstance(error, ConnectionError) or type(error).__name__ == "KafkaConnectionError":
        return Trouble(Cause.CLOSED, at)
    if isinstance(error, OSError):
        return Trouble(Cause.OTHER, at, error.strerror or type(error).__name__)
    return Trouble(Cause.OTHER, at, type(error).__name__)
