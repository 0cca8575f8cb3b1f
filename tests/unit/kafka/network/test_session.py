"""Both kinds of connection at a broker in memory that ends logins: by a clock of its own, and strictly."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Protocol

import pytest
from aiokafka.abc import AbstractTokenProvider
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaConnectionError, SaslAuthenticationFailed
from aiokafka.structs import BrokerMetadata

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.network import login
from bridge.kafka.network.connection import BulkConnection
from bridge.kafka.network.library_client import LibraryClient, LibraryConnection
from bridge.kafka.protocol.wire import ApiKeys, Call, Reader, Writer
from tests.support.waiting import until

LIFE = 100.0
HANDSHAKE, AUTHENTICATE = "handshake", "authenticate"
REFUSED = 58


class Clock:
    """The connections' and the broker's; it moves on when a test says so, however long the machine takes."""

    def __init__(self) -> None:
        self.later = self.tick = 0.0
        """`tick`: by how much it moves on whenever somebody looks at it."""
        self._began = time.monotonic()

    def monotonic(self) -> float:
        self.later += self.tick
        return self._began + self.later


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (login, login):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=clock.monotonic))
    return clock


class Broker:
    """Echoes texts. Closes connections as brokers do: at any request but a login after a login's time, and at any but
    its next step within one."""

    def __init__(self, clock: Clock, version: int = 2) -> None:
        self.clock, self.version = clock, version
        """`version`: the highest of SaslAuthenticate."""
        self.lifetime_ms = int(LIFE * 1000)
        self.seen: list[str] = []
        self.payloads: list[bytes] = []
        self.refusal = ""
        self.mechanisms: tuple[str, ...] = ("PLAIN", "OAUTHBEARER")
        self.answering, self.letting_in = asyncio.Event(), asyncio.Event()
        self.answering.set()
        self.letting_in.set()
        self.connections = self.open = 0
        self.port = 0
        self._ends = float("inf")
        self._within_login = False

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                body = await self._answer(await reader.readexactly(size))
                writer.write(struct.pack(">i", len(body)) + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open -= 1
            writer.close()

    async def _answer(self, request: bytes) -> bytes:
        api, version, number, name = struct.unpack_from(">hhih", request)
        flexible = api == ApiKeys.SASL_AUTHENTICATE and version == 2
        rest = Reader(request[10 + name + flexible :], flexible=flexible)
        head: bytes = struct.pack(">i", number) + b"\0" * flexible
        match api:
            case ApiKeys.API_VERSIONS:
                speaks = ((18, 0, 0), (17, 0, 1), (36, 0, self.version), (ApiKeys.METADATA, 0, 0))
                return (
                    head + struct.pack(">hi", 0, 4) + b"".join(struct.pack(">3h", *each) for each in speaks)
                )
            case ApiKeys.SASL_HANDSHAKE:
                self.seen.append(HANDSHAKE)
                self._within_login = True
                writer = Writer(flexible=False)
                writer.int16(0)
                writer.array(len(self.mechanisms))
                for each in self.mechanisms:
                    writer.string(each)
                return head + bytes(writer.encode())
            case ApiKeys.SASL_AUTHENTICATE:
                assert self._within_login
                self.seen.append(AUTHENTICATE)
                self.payloads.append(rest.blob())
                await self.letting_in.wait()
                return head + self._authenticated(version)
        text = rest.blob()
        self.seen.append(text.decode())
        if self._within_login or self.clock.monotonic() >= self._ends:
            raise ConnectionError
        await self.answering.wait()
        return head + text

    def _authenticated(self, version: int) -> bytes:
        writer = Writer(flexible=version == 2)
        writer.int16(REFUSED if self.refusal else 0)
        writer.string(self.refusal or None)
        writer.blob(b"")
        if version:
            writer.int64(self.lifetime_ms)
        writer.tags()
        self._within_login = bool(self.refusal)
        if version and self.lifetime_ms:
            self._ends = self.clock.monotonic() + self.lifetime_ms / 1000
        return bytes(writer.encode())


@asynccontextmanager
async def listening(broker: Broker) -> AsyncIterator[None]:
    async with asyncio.timeout(30):
        server = await asyncio.start_server(broker.connected, "127.0.0.1", 0)
        broker.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            broker.answering.set()
            broker.letting_in.set()
            server.close()


def texting(text: str) -> Call:
    def write(writer: Writer, _version: int) -> None:
        writer.blob(text.encode())

    return Call(ApiKeys.METADATA, versions=range(1), flexible_from=9, write=write)


class Asking(Protocol):
    def __call__(self, text: str) -> Awaitable[str]: ...


def text_of(answer: Reader) -> str:
    return bytes(answer.data[answer.at :]).decode()


async def small(broker: Broker, settings: dict[str, object]) -> tuple[Asking, Callable[[], Awaitable[None]]]:
    connection = LibraryConnection("127.0.0.1", broker.port, **settings)
    await connection.connect()

    async def ask(text: str) -> str:
        return text_of(await connection.send(texting(text)))

    async def close() -> None:
        await connection.close()

    return ask, close


async def large(broker: Broker, settings: dict[str, object]) -> tuple[Asking, Callable[[], Awaitable[None]]]:
    connection = await BulkConnection.open("127.0.0.1", broker.port, settings)

    async def close() -> None:
        await connection.close()

    return lambda text: connection.send(texting(text), text_of), close


Kind = Callable[[Broker, dict[str, object]], Awaitable[tuple[Asking, Callable[[], Awaitable[None]]]]]
PLAIN: dict[str, object] = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "mirror",
    "sasl_plain_password": "wonder",
}


@pytest.fixture(params=[small, large])
def kind(request: pytest.FixtureRequest) -> Kind:
    chosen: Kind = request.param
    return chosen


@asynccontextmanager
async def logged_in(kind: Kind, broker: Broker, **more: object) -> AsyncIterator[Asking]:
    async with listening(broker):
        ask, close = await kind(broker, {**PLAIN, **more})
        assert broker.seen == [HANDSHAKE, AUTHENTICATE]
        broker.seen.clear()
        try:
            yield ask
        finally:
            await close()


@pytest.mark.parametrize(("version", "lifetime_ms"), [(0, 1000), (1, 0), (2, 0)])
def test_a_login_that_does_not_end(kind: Kind, clock: Clock, version: int, lifetime_ms: int) -> None:
    """Version 0 of the response says nothing of an end."""

    async def work() -> None:
        broker = Broker(clock, version)
        broker.lifetime_ms = lifetime_ms
        async with logged_in(kind, broker) as ask:
            clock.later = 1e9
            assert await ask("a") == "a"
        assert broker.seen == ["a"]

    asyncio.run(work())


@pytest.mark.parametrize("version", [1, 2])
def test_the_next_login_is_before_the_end_of_the_last(kind: Kind, clock: Clock, version: int) -> None:
    async def work() -> None:
        broker = Broker(clock, version)
        async with logged_in(kind, broker) as ask:
            for number in range(1, 4):
                clock.later += 0.83 * LIFE
                assert await ask("early") == "early"
                clock.later += 0.14 * LIFE
                assert await ask("late") == "late"
                assert broker.seen == ["early", HANDSHAKE, AUTHENTICATE, "late"] * number
        assert broker.connections == 1

    asyncio.run(work())


@pytest.mark.parametrize(("lifetime", "early", "late"), [(10.0, 7.8, 8.1), (3.0, 1.4, 1.6)])
def test_a_short_login_leaves_time_for_what_is_on_its_way(
    kind: Kind, clock: Clock, lifetime: float, early: float, late: float
) -> None:
    async def work() -> None:
        broker = Broker(clock)
        broker.lifetime_ms = int(lifetime * 1000)
        async with logged_in(kind, broker) as ask:
            clock.later = early
            await ask("early")
            clock.later = late
            await ask("late")
        assert broker.seen == ["early", HANDSHAKE, AUTHENTICATE, "late"]

    asyncio.run(work())


def test_a_login_may_be_long_over(kind: Kind, clock: Clock) -> None:
    async def work() -> None:
        broker = Broker(clock)
        async with logged_in(kind, broker) as ask:
            clock.later = 10 * LIFE
            assert await ask("a") == "a"
        assert broker.seen == [HANDSHAKE, AUTHENTICATE, "a"]

    asyncio.run(work())


def test_requests_are_sent_and_answered_in_their_order(kind: Kind, clock: Clock) -> None:
    async def work() -> None:
        broker = Broker(clock)
        async with logged_in(kind, broker) as ask:
            broker.answering.clear()
            broker.letting_in.clear()
            first = [asyncio.ensure_future(ask(text)) for text in "ab"]
            await until(lambda: broker.seen == ["a"])
            clock.later = 0.96 * LIFE
            second = [asyncio.ensure_future(ask(text)) for text in "cd"]
            await asyncio.sleep(0)
            broker.answering.set()
            await until(lambda: broker.seen[-1] == AUTHENTICATE)
            third = [asyncio.ensure_future(ask(text)) for text in "ef"]
            await asyncio.sleep(0)
            broker.letting_in.set()
            assert await asyncio.gather(*first, *second, *third) == [*"abcdef"]
        assert broker.seen == ["a", "b", HANDSHAKE, AUTHENTICATE, *"cdef"]

    asyncio.run(work())


class Numbered(AbstractTokenProvider):
    """Another token each time, or none."""

    def __init__(self) -> None:
        self.count = 0
        self.none = False

    async def token(self) -> str:
        if self.none:
            raise KafkaFailure(KafkaFault.UNREACHABLE, "no token from there: gone")
        self.count += 1
        return f"token-{self.count}"


def by_tokens(provider: Numbered) -> dict[str, object]:
    return {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": provider}


def test_each_login_has_a_token_of_its_time(kind: Kind, clock: Clock) -> None:
    async def work() -> None:
        broker = Broker(clock)
        async with logged_in(kind, broker, **by_tokens(Numbered())) as ask:
            clock.later = LIFE
            await ask("a")
        assert [f"Bearer token-{number}" in broker.payloads[number - 1].decode() for number in (1, 2)] == [
            True
        ] * 2

    asyncio.run(work())


def test_without_a_token_those_who_wait_are_told(kind: Kind, clock: Clock) -> None:
    async def work() -> None:
        broker, provider = Broker(clock), Numbered()
        async with logged_in(kind, broker, **by_tokens(provider)) as ask:
            clock.later, provider.none = LIFE, True
            with pytest.raises(KafkaFailure, match="no token from there"):
                await ask("a")
            await until(lambda: broker.open == 0)
        assert broker.seen == [HANDSHAKE]

    asyncio.run(work())


@pytest.mark.parametrize(
    ("says", "raised"),
    [
        ("Authentication failed", SaslAuthenticationFailed),
        ("Cannot change principals during re-authentication from User: a: b", KafkaConnectionError),
    ],
)
def test_a_login_that_is_refused_ends_the_connection(
    kind: Kind, clock: Clock, says: str, raised: type[Exception]
) -> None:
    """Nobody can tell whether another principal is right, but a new connection can."""

    async def work() -> None:
        broker = Broker(clock)
        async with logged_in(kind, broker) as ask:
            clock.later, broker.refusal = LIFE, says
            failed = await asyncio.gather(ask("a"), ask("b"), return_exceptions=True)
            assert [type(each) for each in failed] == [raised] * 2
            await until(lambda: broker.open == 0)
            with pytest.raises(KafkaConnectionError):
                await ask("c")
        assert broker.seen == [HANDSHAKE, AUTHENTICATE]

    asyncio.run(work())


def test_a_mechanism_that_the_broker_has_no_more(kind: Kind, clock: Clock) -> None:
    async def work() -> None:
        broker = Broker(clock)
        async with logged_in(kind, broker) as ask:
            clock.later, broker.mechanisms = LIFE, ("GSSAPI",)
            with pytest.raises(Exception, match="no SASL mechanism PLAIN, only GSSAPI"):
                await ask("a")

    asyncio.run(work())


def test_a_request_that_nobody_waits_for_any_more_is_not_sent(kind: Kind, clock: Clock) -> None:
    async def work() -> None:
        broker = Broker(clock)
        async with logged_in(kind, broker) as ask:
            clock.later = LIFE
            broker.letting_in.clear()
            first, second = (asyncio.ensure_future(ask(text)) for text in "ab")
            await until(lambda: broker.seen[-1:] == [AUTHENTICATE])
            first.cancel()
            await asyncio.wait({first})
            broker.letting_in.set()
            assert await second == "b"
        assert broker.seen == [HANDSHAKE, AUTHENTICATE, "b"]

    asyncio.run(work())


def test_a_connection_that_is_closed_meanwhile_tells_those_who_wait(kind: Kind, clock: Clock) -> None:
    async def work() -> None:
        broker = Broker(clock)
        async with listening(broker):
            ask, close = await kind(broker, PLAIN)
            clock.later = LIFE
            broker.letting_in.clear()
            asked = asyncio.ensure_future(ask("a"))
            await until(lambda: len(broker.seen) == 4)
            await close()
            with pytest.raises(KafkaConnectionError):
                await asked

    asyncio.run(work())


def test_logins_are_a_second_apart(kind: Kind, clock: Clock) -> None:
    """A token that is about to expire makes a login of a moment; brokers refuse the next one within a second."""

    async def work() -> None:
        broker = Broker(clock)
        broker.lifetime_ms = 10
        async with logged_in(kind, broker) as ask:
            began = time.monotonic()
            broker.lifetime_ms = 100_000
            clock.later = 0.02
            assert await ask("a") == "a"
            assert time.monotonic() - began > 0.9
        assert broker.seen == [HANDSHAKE, AUTHENTICATE, "a"]

    asyncio.run(work())


def test_a_login_is_over_by_the_time_the_connection_is_open(kind: Kind, clock: Clock) -> None:
    async def work() -> None:
        broker = Broker(clock)
        broker.lifetime_ms, clock.tick = 10, 0.02
        async with logged_in(kind, broker) as ask:
            broker.lifetime_ms, clock.tick = 100_000, 0
            assert await ask("a") == "a"
        assert broker.seen == [HANDSHAKE, AUTHENTICATE, "a"]

    asyncio.run(work())


def test_metadata_is_asked_for_again_once_there_is_a_token(clock: Clock) -> None:
    """Without one the library's task would end, and with it every later change of brokers would be missed."""

    async def work() -> None:
        broker, provider = Broker(clock), Numbered()
        provider.none = True
        async with listening(broker):
            at = [f"127.0.0.1:{broker.port}"]
            client: AIOKafkaClient = LibraryClient(bootstrap_servers=at, **{**PLAIN, **by_tokens(provider)})
            client.cluster._brokers[1] = BrokerMetadata(1, "127.0.0.1", broker.port, None)
            with pytest.raises(KafkaFailure, match="no token from there"):
                await client.ready(1)
            assert await client._metadata_update(client.cluster, ["orders"]) is False
            provider.none = False
            assert await client.ready(1)
            await client.close()

    asyncio.run(work())
