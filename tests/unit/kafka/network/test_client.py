"""A client of a broker in memory, in states that brokers are in for a moment only."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiokafka.client
import pytest
from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import KafkaConnectionError, KafkaError
from aiokafka.protocol.metadata import MetadataRequest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.config.settings import client_settings
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.network.library_client import MOST_BYTES, LibraryConnection
from bridge.kafka.protocol.wire import MAX_BEFORE_LOGIN_BYTES, MAX_RESPONSE_BYTES, ApiKeys, Call
from bridge.local.processes import ReservedPort
from bridge.model.values import Side
from tests.support.waits import WAIT


class Joining:
    """A broker that is number 1 of its cluster, and that names itself once it has `joined`."""

    def __init__(self) -> None:
        self.joined = False
        self.port = 0
        self.writers: list[asyncio.StreamWriter] = []

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                api, _, number = struct.unpack_from(">hhi", await reader.readexactly(size))
                body = struct.pack(">i", number) + (
                    self._versions() if api == ApiKeys.API_VERSIONS else self._metadata()
                )
                writer.write(struct.pack(">i", len(body)) + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    @staticmethod
    def _versions() -> bytes:
        return struct.pack(">hi6h", 0, 2, ApiKeys.API_VERSIONS, 0, 0, ApiKeys.METADATA, 0, 0)

    def _metadata(self) -> bytes:
        """Version 0: brokers, and no topics."""
        brokers = [struct.pack(">ih9si", 1, 9, b"127.0.0.1", self.port)] if self.joined else []
        return struct.pack(">i", len(brokers)) + b"".join(brokers) + struct.pack(">i", 0)


class Lying(Joining):
    """A broker that says of its answers to Metadata that they have `size` bytes."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.left = asyncio.Event()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        _, _, number = struct.unpack_from(">hhi", await reader.readexactly(size))
        body = struct.pack(">i", number) + self._versions()
        writer.write(struct.pack(">i", len(body)) + body)
        await reader.readexactly(4)
        writer.write(struct.pack(">i", self.size) + bytes(100))
        await reader.read()
        writer.close()
        await writer.wait_closed()
        self.left.set()


def a_call() -> Call:
    """Of ours, unlike MetadataRequest, which is the library's own."""
    return Call(ApiKeys.METADATA, range(1), flexible_from=9, write=lambda writer, _: writer.int32(0))


@asynccontextmanager
async def listening(broker: Joining, port: int = 0) -> AsyncIterator[int]:
    """The port on which the broker accepts connections: this one, or a free one."""
    server = await asyncio.start_server(broker.connected, "127.0.0.1", port)
    try:
        async with asyncio.timeout(10):
            yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in broker.writers:
            writer.close()
        await server.wait_closed()


@asynccontextmanager
async def connection_to(broker: Joining) -> AsyncIterator[AIOKafkaConnection]:
    """The library's connection, to be connected."""
    async with listening(broker) as port:
        connection = LibraryConnection("127.0.0.1", port, request_timeout_ms=20_000)
        try:
            yield connection
        finally:
            await connection.close()


@pytest.mark.parametrize("size", [-4, 3, MAX_RESPONSE_BYTES + 1])
def test_a_length_that_no_answer_has_ends_the_librarys_connection(size: int) -> None:
    async def work() -> None:
        broker = Lying(size)
        async with connection_to(broker) as connection:
            await connection.connect()
            with pytest.raises(KafkaConnectionError, match=f"sent a response of {size} bytes"):
                await connection.send(a_call())
            await broker.left.wait()

    asyncio.run(work())


class Talking(Lying):
    """A broker that sends these bytes as soon as somebody connects."""

    def __init__(self, sent: bytes) -> None:
        super().__init__(0)
        self.sent = sent

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(struct.pack(">i", len(self.sent)) + self.sent)
        await reader.read()
        writer.close()
        await writer.wait_closed()
        self.left.set()


@pytest.mark.parametrize(
    "sent",
    [
        struct.pack(">ihi", 1, 0, 1) + struct.pack(">3h", ApiKeys.API_VERSIONS, 5, 2),
        struct.pack(">ihi", 1, 0, 1 << 30),
        struct.pack(">ih", 1, 0),
        struct.pack(">i", 77),
    ],
    ids=["lowest above highest", "a billion versions", "cut short", "to something else"],
)
def test_what_the_library_can_not_read_ends_its_connection(sent: bytes) -> None:
    async def work() -> None:
        broker = Talking(sent)
        async with connection_to(broker) as connection:
            with pytest.raises(KafkaError):
                await connection.connect()
            await broker.left.wait()

    asyncio.run(work())


def test_before_the_login_of_a_probe_and_of_brokers_no_answer_is_large() -> None:
    """Whoever listens there, and wherever a configuration sends us."""

    class Promising(Talking):
        async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(struct.pack(">i", MAX_BEFORE_LOGIN_BYTES + 1) + bytes(100))
            await reader.read()
            writer.close()
            await writer.wait_closed()
            self.left.set()

    async def before_login() -> None:
        broker = Promising(b"")
        async with connection_to(broker) as connection:
            with pytest.raises(
                KafkaConnectionError, match=f"sent a response of {MAX_BEFORE_LOGIN_BYTES + 1} bytes"
            ):
                await connection.connect()
            await broker.left.wait()

    async def probing() -> None:
        broker = Lying(MAX_BEFORE_LOGIN_BYTES + 1)
        MOST_BYTES.set(MAX_BEFORE_LOGIN_BYTES)
        async with connection_to(broker) as connection:
            await connection.connect()
            with pytest.raises(
                KafkaConnectionError, match=f"more than {MAX_BEFORE_LOGIN_BYTES} are not read"
            ):
                await connection.send(a_call())
            await broker.left.wait()

    async def naming_brokers() -> None:
        broker = Lying(MAX_BEFORE_LOGIN_BYTES + 1)
        async with connection_to(broker) as connection:
            await connection.connect()
            with pytest.raises(
                KafkaConnectionError, match=f"more than {MAX_BEFORE_LOGIN_BYTES} are not read"
            ):
                await connection.send(MetadataRequest([]))
            await broker.left.wait()

    asyncio.run(before_login())
    asyncio.run(probing())
    asyncio.run(naming_brokers())


def test_the_client_has_such_connections() -> None:
    assert vars(aiokafka.client)["create_conn"].__module__ == "bridge.kafka.network.library_client"


def test_a_broker_that_names_no_brokers_yet_is_asked_again() -> None:
    async def work() -> None:
        broker = Joining()
        async with listening(broker) as broker.port:
            props = {"target.cluster.bootstrap.servers": f"127.0.0.1:{broker.port}"}
            client = NetworkClient(client_settings(Side.TARGET, props).raw)
            try:
                with pytest.raises(KafkaFailure, match="The cluster named no brokers") as failed:
                    await client.nodes()
                assert failed.value.fault is KafkaFault.UNREACHABLE
                assert failed.value.retriable
                broker.joined = True
                assert await client.nodes() == [1]
            finally:
                await client.close()

    asyncio.run(work())


def any_metadata() -> Call:
    return Call(ApiKeys.METADATA, versions=range(1), flexible_from=9, write=lambda writer, _: writer.array(0))


def test_brokers_that_have_other_addresses_by_now_are_found_by_the_bootstrap_servers() -> None:
    """KIP-899: the only known broker is gone, and back on the second of the bootstrap servers' ports."""

    async def work() -> None:
        broker, first, second = Joining(), ReservedPort(), ReservedPort()
        broker.joined = True
        servers = f"{first.address},{second.address}"
        client = NetworkClient(
            client_settings(Side.TARGET, {"target.cluster.bootstrap.servers": servers}).raw
        )
        try:
            async with listening(broker, first.number) as broker.port:
                await client.send(None, any_metadata(), "ask")
            async with listening(broker, second.number) as broker.port:
                async with asyncio.timeout(WAIT):
                    while True:
                        try:
                            await client.send(None, any_metadata(), "ask")
                            break
                        except KafkaFailure:
                            await asyncio.sleep(0.05)
        finally:
            await client.close()
            first.release()
            second.release()

    asyncio.run(work())
