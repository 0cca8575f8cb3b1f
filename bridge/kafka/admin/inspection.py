"""Asks for what doctor needs to know of a cluster: its brokers' versions, and what the user may do with topics and
groups.

Asks a cluster for its id, its brokers, and what the logged-in user may do with it.

Whether a cluster answers, and if not, what is in the way: the first connection, looked at closely.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from aiokafka.errors import (
    AuthenticationFailedError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)

from bridge.backoff import pauses
from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.config.settings import RawSettings
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.network.connection import connection_to
from bridge.kafka.network.library_client import MOST_BYTES
from bridge.kafka.protocol import group_requests, produce_requests
from bridge.kafka.protocol.connection_requests import api_versions, read_api_versions
from bridge.kafka.protocol.error_codes import Errors
from bridge.kafka.protocol.errors import of_code
from bridge.kafka.protocol.log_requests import NO_OPERATIONS, metadata, read_metadata
from bridge.kafka.protocol.produce_requests import ProducerIdAndEpoch
from bridge.kafka.protocol.wire import MAX_BEFORE_LOGIN_BYTES, ApiKeys, Call, Reader, Writer

OPERATIONS: Mapping[int, str] = {
    3: "READ",
    4: "WRITE",
    5: "CREATE",
    6: "DELETE",
    7: "ALTER",
    8: "DESCRIBE",
    9: "CLUSTER_ACTION",
    10: "DESCRIBE_CONFIGS",
    11: "ALTER_CONFIGS",
    12: "IDEMPOTENT_WRITE",
}
"""Names of the operations that ACLs are about, by their codes (AclOperation)."""
_A_CALL = 500
_NO_TIME = -1
"""A transaction.timeout.ms that every broker refuses, after it has looked at the right, and before it does anything."""
_PAUSES = (0.3, 2.4, 4)
"""Seconds before coordinators are looked for again, before the first retry and at most, and how many retries: a cluster
without groups has to make the offsets topic first."""
MOST = 5
"""Bootstrap servers that are tried, at once."""


def operations(bits: int) -> frozenset[str] | None:
    """Decodes authorized operations from the bits that brokers send; None where the broker does not say."""
    if bits == NO_OPERATIONS:
        return None
    return frozenset(name for code, name in OPERATIONS.items() if bits & (1 << code))


@dataclass(frozen=True, slots=True)
class Description:
    cluster_id: str
    brokers: Mapping[int, str]
    """host:port by id."""
    allowed: frozenset[str] | None
    """Operations on the cluster; None for not known."""


async def describe(client: NetworkClient) -> Description:
    """Raises KafkaFailure."""
    doing = "describe the cluster"
    return read_description(await client.send(None, describe_cluster(), doing), doing)


def describe_cluster() -> Call:
    """DescribeCluster v0 (Kafka 2.8), with authorized operations."""

    def write(writer: Writer, _version: int) -> None:
        writer.int8(1)
        writer.tags()

    return Call(ApiKeys.DESCRIBE_CLUSTER, versions=range(1), flexible_from=0, write=write)


def read_description(response: Reader, doing: str) -> Description:
    """Reads the response to `describe_cluster`. Raises KafkaFailure."""
    response.skip(4)
    code = response.int16()
    response.nullable_string()
    failed = of_code(code, doing)
    if failed is not None:
        raise failed
    cluster_id = response.string()
    response.skip(4)
    brokers = {}
    for _ in response.array():
        node, host, port = response.int32(), response.string(), response.int32()
        response.nullable_string()
        response.tags()
        brokers[node] = f"{host}:{port}"
    return Description(cluster_id, brokers, operations(response.int32()))


def describe_topics(topics: Sequence[str]) -> Call:
    """Metadata with authorized operations. Creates no topic."""
    return metadata(topics, operations=True)


class DescribedTopic(NamedTuple):
    """A topic, as a broker describes it. `error`: a protocol code; `allowed`: operations on it, None where the broker
    does not say."""

    error: int
    partitions: int
    allowed: frozenset[str] | None

    @property
    def denied(self) -> bool:
        """We may not describe it; whether it is there nobody tells us."""
        return self.error == Errors.TOPIC_AUTHORIZATION_FAILED


def read_topics(response: Reader, version: int) -> dict[str, DescribedTopic]:
    return {
        name: DescribedTopic(
            topic_metadata.error, len(topic_metadata.partitions), operations(topic_metadata.operations)
        )
        for name, topic_metadata in read_metadata(response, version).items()
    }


class Inspection:
    """Over a client of its own; every call raises KafkaFailure. For use in one event loop."""

    def __init__(self, settings: RawSettings) -> None:
        self._client = NetworkClient(settings)

    async def close(self) -> None:
        await self._client.close()

    async def versions(self) -> tuple[int, int]:
        """The highest of Fetch and of OffsetFetch that every broker speaks."""
        by_broker = []
        for node in await self._client.nodes():
            response = await self._client.send(node, api_versions(), "ask for versions")
            by_broker.append(read_api_versions(response))
        fetch, offset_fetch = (
            min(fields[key][1] for fields in by_broker) for key in (ApiKeys.FETCH, ApiKeys.OFFSET_FETCH)
        )
        return fetch, offset_fetch

    async def topics(self, names: Sequence[str]) -> dict[str, DescribedTopic]:
        """A topic that does not exist has no partitions; one that we may not describe allows nothing."""
        described: dict[str, DescribedTopic] = {}
        for start in range(0, len(names), _A_CALL):
            call = describe_topics(names[start : start + _A_CALL])
            response = await self._client.send(None, call, "describe topics")
            described |= read_topics(response, call.API_VERSION)
        nothing = frozenset[str]()
        return {
            name: topic._replace(allowed=nothing) if topic.denied else topic
            for name, topic in described.items()
        }

    async def groups(self, names: Sequence[str]) -> dict[str, frozenset[str] | None]:
        """The operations on each group; groups that can't be described now are left out."""
        nodes, errors = await self._client.coordinators(names)
        for pause in pauses(*_PAUSES):
            if not set(errors.values()) - {Errors.GROUP_AUTHORIZATION_FAILED}:
                break
            await asyncio.sleep(pause)
            nodes, errors = await self._client.coordinators(names)
        allowed: dict[str, frozenset[str] | None] = {
            name: frozenset() for name, code in errors.items() if code == Errors.GROUP_AUTHORIZATION_FAILED
        }
        for node, kept in nodes.items():
            for start in range(0, len(kept), _A_CALL):
                call = group_requests.describe_groups(kept[start : start + _A_CALL], operations=True)
                response = await self._client.send(node, call, "describe groups")
                for name, group in group_requests.read_described_groups(response).items():
                    if group.error == Errors.GROUP_AUTHORIZATION_FAILED:
                        allowed[name] = frozenset()
                    elif of_code(group.error, "describe groups") is None:
                        allowed[name] = operations(group.operations)
        return allowed

    async def ids(self, names: Sequence[str]) -> dict[str, frozenset[str]]:
        """Whether each transactional id may be written. Brokers don't tell that of themselves: each is asked for a
        producer id with a timeout that none takes, so that none is handed out and no transaction is ended."""
        allowed = {}
        for name in names:
            call = produce_requests.init_producer_id(name, _NO_TIME, ProducerIdAndEpoch())
            response = await self._client.send(None, call, f"ask for the rights on transactional id {name}")
            code, _ = produce_requests.read_producer_id(response)
            denied = code == Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            allowed[name] = frozenset() if denied else frozenset({"DESCRIBE", "WRITE"})
        return allowed


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
        for future in asyncio.as_completed(tried):
            trouble = await future
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
