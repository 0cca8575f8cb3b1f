"""Connections for what is large, to a server in memory that does what no broker does on demand."""

from __future__ import annotations

import asyncio
import random
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import NamedTuple, TypeVar

import pytest
from aiokafka.client import AIOKafkaClient
from aiokafka.cluster import ClusterMetadata
from aiokafka.errors import CorrelationIdError, KafkaConnectionError

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.config.settings import client_settings
from bridge.kafka.network import connection as connection_module
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.network.connection import BulkConnection
from bridge.kafka.protocol.wire import MAX_RESPONSE_BYTES, ApiKeys, Call, Reader, Writer
from bridge.model.values import Side
from tests.support.messages import message_pattern

T = TypeVar("T")
ECHO, OLD = ApiKeys.PRODUCE, ApiKeys.FETCH
"""The server speaks version 3 of the one, as an echo, and version 1 of the other."""
SETTINGS = {"client_id": "tests"}


def echo(*blobs: bytes | bytearray | memoryview) -> Call:
    """A request of these; its answer is all of them, one behind the other."""

    def write(writer: Writer, _version: int) -> None:
        for blob in blobs:
            writer.blob(blob)

    return Call(ECHO, versions=range(3, 5), flexible_from=9, write=write)


def all_of(answer: Reader) -> bytes:
    return bytes(answer.data[answer.at :])


class Request(NamedTuple):
    number: int
    blobs: Sequence[bytes]

    def answer(self, number: int | None = None) -> bytes:
        body = struct.pack(">i", self.number if number is None else number) + b"".join(self.blobs)
        return struct.pack(">i", len(body)) + body


class Server:
    """Answers each request by `serve`; reads nothing while `deaf`."""

    def __init__(self) -> None:
        self.serve: Callable[[Request, asyncio.StreamWriter], Awaitable[None]] = self.echo
        self.hearing = asyncio.Event()
        self.hearing.set()
        self.connections = 0
        self.port = 0
        self.requests: list[Request] = []

    @staticmethod
    async def echo(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(request.answer())

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                body = await self._body(reader, size)
                api, version, number, name = struct.unpack_from(">hhih", body)
                rest = Reader(body[10 + name :], flexible=False)
                if api == 18:
                    speaks = (*(18, 0, 0), *(ECHO, 3, 3), *(OLD, 1, 1))
                    result = struct.pack(">ihi9h", number, 0, 3, *speaks)
                    writer.write(struct.pack(">i", len(result)) + result)
                    continue
                assert version == 3
                blobs = []
                while rest.at < len(rest.data):
                    blobs.append(rest.blob())
                self.requests.append(Request(number, blobs))
                await self.serve(self.requests[-1], writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _body(self, reader: asyncio.StreamReader, size: int) -> bytes:
        """The first bytes of a request arrive whether the server hears them or not."""
        first = await reader.readexactly(min(size, 100))
        await self.hearing.wait()
        return first + await reader.readexactly(size - len(first))


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    server = Server()
    listening = await asyncio.start_server(server.connected, "127.0.0.1", 0, limit=1 << 16)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        server.hearing.set()


def run(work: Callable[[Server, BulkConnection], Awaitable[T]], **settings: object) -> T:
    async def go() -> T:
        async with asyncio.timeout(30), serving() as server:
            connection = await BulkConnection.open("127.0.0.1", server.port, {**SETTINGS, **settings})
            try:
                return await work(server, connection)
            finally:
                await connection.close()

    return asyncio.run(go())


@pytest.mark.parametrize("seed", range(12))
def test_answers_arrive_whole_however_they_are_cut(seed: int) -> None:
    dice = random.Random(seed)
    sizes = [0, 1, 3, 5_000, 70_000, 2_000_000, 1]
    contents = [dice.randbytes(size) for size in dice.sample(sizes, len(sizes))]

    async def work(server: Server, connection: BulkConnection) -> None:
        kept = bytearray()

        async def cut(request: Request, writer: asyncio.StreamWriter) -> None:
            kept.extend(request.answer())
            while kept and (len(kept) > 100_000 or len(server.requests) == len(contents)):
                piece = kept[: dice.choice((1, 2, 7, 60_000, 300_000))]
                writer.write(piece)
                del kept[: len(piece)]
                await writer.drain()
                await asyncio.sleep(0)

        server.serve = cut
        answers = await asyncio.gather(*(connection.send(echo(content), all_of) for content in contents))
        assert answers == contents

    run(work)


def test_what_is_large_is_sent_bit_for_bit_also_when_the_broker_reads_late() -> None:
    dice = random.Random(1)
    large, view = bytearray(dice.randbytes(9_000_000)), memoryview(bytearray(dice.randbytes(3_000_000)))
    small = dice.randbytes(1000)

    async def work(server: Server, connection: BulkConnection) -> None:
        server.hearing.clear()
        full, pause = asyncio.Event(), connection.pause_writing
        connection.pause_writing = lambda: (pause(), full.set())  # type: ignore[assignment,func-returns-value]
        both = asyncio.gather(
            connection.send(echo(small, large, small, view[1:]), all_of),
            connection.send(echo(small), all_of),
        )
        await full.wait()
        assert connection.unsent <= 256 * 1024
        server.hearing.set()
        assert list(await both) == [small + large + small + view[1:], small]
        first, second = server.requests
        assert first.blobs == [small, large, small, view[1:]]
        assert second.blobs == [small]

    run(work)


def test_an_answer_is_read_before_its_bytes_are_used_again() -> None:
    async def work(_: Server, connection: BulkConnection) -> None:
        views = [await connection.send(echo(content), lambda answer: answer.data) for content in (b"a", b"b")]
        assert bytes(views[0]) == bytes(
            views[1]
        )  # overwritten: whoever keeps more than copies reads nonsense

    run(work)


@pytest.mark.parametrize("answered", [b"", b"\0\0\0\x0cabc"])
def test_when_the_broker_goes_whoever_waits_is_told(answered: bytes) -> None:
    async def work(server: Server, connection: BulkConnection) -> None:
        async def go(_: Request, writer: asyncio.StreamWriter) -> None:
            if len(server.requests) == 3:
                writer.write(answered)
                writer.close()

        server.serve = go
        result = await asyncio.gather(
            *(connection.send(echo(b"x"), all_of) for _ in range(3)), return_exceptions=True
        )
        assert [type(each) for each in result] == [KafkaConnectionError] * 3
        assert "closed the connection" in str(result[0])
        assert not connection.usable
        with pytest.raises(KafkaConnectionError):
            await connection.send(echo(b"x"), all_of)

    run(work)


def test_an_answer_to_another_request_ends_the_connection() -> None:
    async def work(server: Server, connection: BulkConnection) -> None:
        async def mistaken(request: Request, writer: asyncio.StreamWriter) -> None:
            writer.write(request.answer(request.number + 1))

        server.serve = mistaken
        with pytest.raises(KafkaConnectionError, match="not that of the oldest request"):
            await connection.send(echo(b"x"), all_of)
        assert isinstance(connection.lost, CorrelationIdError)

    run(work)


@pytest.mark.parametrize("size", [-4, -100, -65_532, -(1 << 31), 0, 3, MAX_RESPONSE_BYTES + 1, (1 << 31) - 1])
def test_a_length_that_no_answer_has_ends_the_connection(size: int) -> None:
    """Behind an answer, a negative one had the event loop look at the same bytes for ever."""

    async def work(server: Server, connection: BulkConnection) -> None:
        async def mistaken(request: Request, writer: asyncio.StreamWriter) -> None:
            writer.write((request.answer() if len(server.requests) == 1 else b"") + struct.pack(">i", size))

        server.serve = mistaken
        assert await connection.send(echo(b"x"), all_of) == b"x"
        with pytest.raises(KafkaConnectionError, match=f"a response of {size} bytes"):
            await connection.send(echo(b"x"), all_of)
        assert not connection.usable
        assert connection.buffer_size < MAX_RESPONSE_BYTES

    run(work)


def test_memory_is_taken_for_what_has_come_and_not_for_what_will() -> None:
    async def work(server: Server, connection: BulkConnection) -> None:
        async def promising(_: Request, writer: asyncio.StreamWriter) -> None:
            writer.write(struct.pack(">i", MAX_RESPONSE_BYTES) + bytes(300_000))
            await writer.drain()
            writer.close()

        server.serve = promising
        with pytest.raises(KafkaConnectionError):
            await connection.send(echo(b"x"), all_of)
        assert 300_000 < connection.buffer_size < 3_000_000

    run(work)


def test_no_answer_in_time_ends_the_connection() -> None:
    async def work(server: Server, connection: BulkConnection) -> None:
        async def nothing(request: Request, writer: asyncio.StreamWriter) -> None: ...

        server.serve = nothing
        with pytest.raises(TimeoutError):
            await connection.send(echo(b"x"), all_of)
        assert not connection.usable

    run(work, request_timeout_ms=200)


def test_an_answer_that_nobody_waits_for_any_more_is_passed_over() -> None:
    async def work(server: Server, connection: BulkConnection) -> None:
        asked = asyncio.Event()

        async def later(request: Request, writer: asyncio.StreamWriter) -> None:
            asked.set()
            if request.blobs == [b"second"]:
                for each in server.requests:
                    writer.write(each.answer())

        def unexpected(reader: Reader) -> bytes:
            raise AssertionError("an answer came")

        server.serve = later
        first = asyncio.ensure_future(connection.send(echo(b"first"), unexpected))
        await asked.wait()
        first.cancel()
        assert await connection.send(echo(b"second"), all_of) == b"second"
        assert first.cancelled()

    run(work)


def test_an_answer_that_cannot_be_read_is_the_trouble_of_who_asked() -> None:
    def wrong(answer: Reader) -> bytes:
        raise ValueError(f"{len(all_of(answer))} bytes too many")

    async def work(_: Server, connection: BulkConnection) -> None:
        answers = asyncio.gather(
            connection.send(echo(b"xyz"), wrong),
            connection.send(echo(b"right"), all_of),
            return_exceptions=True,
        )
        failed, right = await answers
        assert str(failed) == "3 bytes too many"
        assert right == b"right"

    run(work)


def test_a_version_that_the_broker_does_not_speak() -> None:
    async def work(_: Server, connection: BulkConnection) -> None:
        versions = {"request": "FETCH", "lowest": 3, "highest": 4, "low": 1, "high": 1}
        with pytest.raises(KafkaFailure, match=message_pattern("kafka.versions", **versions)) as raised:
            await connection.send(
                Call(OLD, versions=range(3, 5), flexible_from=9, write=lambda *_: None), all_of
            )
        assert raised.value.fault is KafkaFault.UNSUPPORTED
        assert await connection.send(echo(b"x"), all_of) == b"x"

    run(work)


# -- clients -----------------------------------------------------------------------------------------------------------


class Broker(NamedTuple):
    host: str
    port: int


class OneBroker(ClusterMetadata):
    """Knows where broker 1 is."""

    def __init__(self, port: int) -> None:
        self.port = port

    def broker_metadata(self, broker_id: int) -> Broker | None:
        return Broker("127.0.0.1", self.port) if broker_id == 1 else None


class Client(AIOKafkaClient):
    """A client of that broker."""

    def __init__(self, port: int) -> None:
        self.updates = 0
        self.cluster = self.brokers = OneBroker(port)

    def force_metadata_update(self) -> None:
        self.updates += 1

    async def close(self) -> None: ...

    def __del__(self, **_: object) -> None:
        """Nothing was opened."""


def with_client(work: Callable[[Server, NetworkClient, Client], Awaitable[T]], **props: str) -> T:
    given = {"source.cluster.bootstrap.servers": "127.0.0.1:1", **props}

    async def go() -> T:
        async with asyncio.timeout(30), serving() as server:
            library = Client(server.port)
            client = NetworkClient(client_settings(Side.SOURCE, given).raw, library)
            try:
                return await work(server, client, library)
            finally:
                await client.close()

    return asyncio.run(go())


def test_a_client_keeps_one_connection_for_each_broker() -> None:
    async def work(server: Server, client: NetworkClient, _: Client) -> None:
        asked = (client.send_bulk(1, echo(text), all_of, "ask") for text in (b"a", b"b", b"c"))
        assert await asyncio.gather(*asked) == [b"a", b"b", b"c"]
        assert server.connections == 1

    with_client(work)


def test_a_connection_that_was_lost_is_opened_anew() -> None:
    async def work(server: Server, client: NetworkClient, library: Client) -> None:
        async def go(_: Request, writer: asyncio.StreamWriter) -> None:
            writer.close()

        server.serve = go
        with pytest.raises(KafkaFailure, match="while trying to ask") as raised:
            await client.send_bulk(1, echo(b"x"), all_of, "ask")
        assert raised.value.fault is KafkaFault.UNREACHABLE
        assert raised.value.retriable
        server.serve = server.echo
        assert await client.send_bulk(1, echo(b"x"), all_of, "ask") == b"x"
        assert server.connections == 2
        assert library.updates == 0

    with_client(work)


@pytest.mark.parametrize(
    ("idle_ms", "idle", "connections"), [(None, 500, 1), (None, 600, 2), ("1000", 2, 2), ("-1", 6000, 1)]
)
def test_a_connection_that_was_idle_is_opened_anew(
    idle_ms: str | None, idle: float, connections: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = 0.0
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + later)
    monkeypatch.setattr(connection_module, "time", clock)

    async def work(server: Server, client: NetworkClient, _: Client) -> None:
        nonlocal later
        assert await client.send_bulk(1, echo(b"x"), all_of, "ask") == b"x"
        later = idle
        assert await client.send_bulk(1, echo(b"y"), all_of, "ask") == b"y"
        assert server.connections == connections

    with_client(work, **({"source.consumer.connections.max.idle.ms": idle_ms} if idle_ms else {}))


@pytest.mark.parametrize("node", [1, 2], ids=["not listening", "not known"])
def test_a_broker_that_cannot_be_reached_is_looked_for_anew(node: int) -> None:
    async def work(server: Server, client: NetworkClient, library: Client) -> None:
        async with serving() as gone:
            library.brokers.port = gone.port
        with pytest.raises(KafkaFailure) as raised:
            await client.send_bulk(node, echo(b"x"), all_of, "ask")
        assert raised.value.fault is KafkaFault.UNREACHABLE
        assert library.updates == 1

    with_client(work)
