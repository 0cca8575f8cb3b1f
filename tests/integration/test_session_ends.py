"""Brokers that end each login after a while (connections.max.reauth.ms): what is under way never notices."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.cluster import KafkaCluster
from bridge.kafka.config.settings import ClientSettings, client_settings
from bridge.kafka.consumer.fetcher import Fetcher, FetchPosition
from bridge.kafka.network import library_client
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.producer.sender import BatchSender
from bridge.kafka.record.coalescing import DataBatches
from bridge.local import Broker, Security
from bridge.model.values import Side, TopicPartition
from tests.integration.copy_flow import CopyFlow
from tests.support import create_topic, read, unique
from tests.support.brokers import secured_broker
from tests.support.jwts import Signer
from tests.support.traffic import Reader, Writer
from tests.unit.kafka.record.raw_batches import Plain, batch_of

pytestmark = pytest.mark.long

LIFE = 6.0
"""Seconds that a login lasts at this broker."""
TOKEN_LIFE = 9.0
PACKAGE = "org.apache.kafka.common.security"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return Signer(tmp_path_factory.mktemp("idp"))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, signer: Signer) -> Iterator[Broker]:
    security = Security(users={"mirror": "wonder"}, jwks=signer.jwks)
    # One that is late for its controller on a busy machine would be no broker for a moment.
    session = {"broker.session.timeout.ms": "20000"}
    properties = {"connections.max.reauth.ms": f"{LIFE * 1000:.0f}", **session}
    with secured_broker(tmp_path_factory.mktemp("broker"), security, properties) as running:
        yield running


@pytest.fixture(scope="module")
def token(tmp_path_factory: pytest.TempPathFactory, signer: Signer) -> Iterator[Path]:
    """A file whose token is replaced all the time, each of which expires soon."""
    file, ended = tmp_path_factory.mktemp("token") / "token", threading.Event()

    def replace() -> None:
        new = file.with_suffix(".new")
        new.write_text(signer.token("mirror", TOKEN_LIFE))
        new.rename(file)

    def run() -> None:
        while not ended.wait(TOKEN_LIFE / 6):
            replace()

    replace()
    thread = threading.Thread(target=run, name="tokens")
    thread.start()
    try:
        yield file
    finally:
        ended.set()
        thread.join()


def login(broker: Broker, mechanism: str, token: Path, side: str = "source") -> dict[str, str]:
    modules = {"PLAIN": "plain.PlainLoginModule", "SCRAM-SHA-256": "scram.ScramLoginModule"}
    given = {
        "bootstrap.servers": broker.address("SASL_PLAINTEXT"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        given["sasl.oauthbearer.token.endpoint.url"] = token.as_uri()
    else:
        user = 'username="mirror" password="wonder"'
        given["sasl.jaas.config"] = f"{PACKAGE}.{modules[mechanism]} required {user};"
    return {f"{side}.cluster.{key}": value for key, value in given.items()}


class Opened:
    """Counts connections that are opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        real = library_client.LibraryConnection.connect

        async def connect(connection: library_client.LibraryConnection) -> object:
            self.count += 1
            return await real(connection)

        monkeypatch.setattr(library_client.LibraryConnection, "connect", connect)


async def asked_all_the_time(client: NetworkClient, until: float) -> float:
    """Sends requests side by side; returns the seconds that the slowest took."""
    slowest = 0.0

    async def ask() -> None:
        nonlocal slowest
        while (began := time.monotonic()) < until:
            await client.controller("ask")
            slowest = max(slowest, time.monotonic() - began)

    await asyncio.gather(*(ask() for _ in range(3)))
    return slowest


async def written_and_read(client: NetworkClient, place: TopicPartition, until: float) -> list[bytes]:
    """Values as they come back while they are written, in order, with many in flight."""
    topic_id = (await client.metadata([place.topic]))[place.topic].topic_id
    sender, fetcher = BatchSender(client, None, 20.0), Fetcher(client, committed_only=True)
    back: list[bytes] = []
    written = 0
    try:
        await fetcher.start()
        fetcher.assign({place: FetchPosition(topic_id, 0)})
        while time.monotonic() < until or len(back) < written:
            if time.monotonic() < until:
                for _ in range(5):
                    sender.send(place, bytearray(batch_of([Plain(1, None, b"%d" % written)])), 1)
                    written += 1
            for part in await fetcher.poll(0.05):
                batches = DataBatches.committed(part.records, part.offset, part.aborted)
                for each in batches.batches:
                    back += values(bytes(each.data))
                fetcher.done(part, batches.next_offset, batches.leader_epoch)
            assert sender.failed is None, sender.failed
        await sender.flush()
    finally:
        await fetcher.close()
        await sender.close()
    assert back == [b"%d" % number for number in range(written)]
    return back


def values(data: bytes) -> list[bytes]:
    from aiokafka.record.default_records import DefaultRecordBatch

    return [record.value or b"" for record in DefaultRecordBatch(data)]


async def administered(settings: ClientSettings, until: float) -> float:
    """Makes topics by librdkafka, and asks for groups; returns the seconds that the slowest took. librdkafka logs in
    again by itself, and asks for tokens in a thread of its own."""
    cluster, group, slowest = KafkaCluster(settings), unique("group"), 0.0
    try:
        while (began := time.monotonic()) < until:
            assert await cluster.create_compacted_topic(unique("made"), 1) is None
            assert await cluster.committed([group]) == {group: {}}
            assert group not in await cluster.list_groups()
            slowest = max(slowest, time.monotonic() - began)
            await asyncio.sleep(0.2)
    finally:
        await cluster.close()
    return slowest


def test_connections_outlive_their_logins(
    broker: Broker, token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three times and more, by each mechanism, with requests in flight all the time."""
    opened = Opened(monkeypatch)

    async def one(mechanism: str) -> None:
        settings = client_settings(Side.SOURCE, login(broker, mechanism, token))
        client = NetworkClient(settings.raw)
        place = TopicPartition(unique(f"ends-{mechanism.lower()}"), 0)
        create_topic(broker.bootstrap, place.topic)
        try:
            until = time.monotonic() + 3.5 * LIFE
            slowest, back, by_library = await asyncio.gather(
                asked_all_the_time(client, until),
                written_and_read(client, place, until),
                administered(settings, until),
            )
            assert back
            print(
                f"{mechanism}: {len(back)} records, slowest {slowest:.3f} s, {by_library:.3f} s by librdkafka"
            )
        finally:
            await client.close()

    async def go() -> None:
        async with asyncio.timeout(120):
            await asyncio.gather(*map(one, MECHANISMS))

    asyncio.run(go())
    # One to find the cluster; one each for what is small, for what waits, and for what is large. And as many of the
    # cluster as connectors see it.
    assert opened.count <= 8 * len(MECHANISMS)


def test_a_token_of_somebody_else_and_one_that_is_refused(
    broker: Broker, signer: Signer, tmp_path: Path
) -> None:
    """A broker takes the first over a new connection only, and the second over none."""
    file, folder = tmp_path / "token", tmp_path / "stranger"
    folder.mkdir()

    async def failed(client: NetworkClient) -> KafkaFailure:
        async with asyncio.timeout(60):
            while True:
                try:
                    await client.controller("ask")
                except KafkaFailure as failure:
                    return failure
                await asyncio.sleep(0.05)

    async def go() -> None:
        file.write_text(signer.token("mirror", 60))
        client = NetworkClient(client_settings(Side.SOURCE, login(broker, "OAUTHBEARER", file)).raw)
        try:
            await client.controller("ask")
            file.write_text(signer.token("other", 60))
            changed = await failed(client)
            assert (changed.fault, changed.retriable) == (KafkaFault.UNREACHABLE, True), changed
            assert "another principal" in str(changed)
            await client.controller("ask")
            file.write_text(Signer(folder).token("other", 60))
            refused = await failed(client)
            assert (refused.fault, refused.retriable) == (KafkaFault.CREDENTIALS, False), refused
            assert "Authentication failed" in str(refused)
        finally:
            await client.close()

    asyncio.run(go())


@contextmanager
def traffic(flow: CopyFlow, topic: str, partitions: int) -> Iterator[Reader]:
    """A copy that is written to and read for the time of the block; whole at its end."""
    writer = Writer(flow.source.bootstrap, topic)
    reader = Reader(flow.target.bootstrap, flow.remote(topic), partitions)
    with flow.pipeline(), reader.running():
        with writer.running():
            yield reader
        reader.wait_done()


def props(broker: Broker, token: Path, source: str, target: str) -> Mapping[str, str]:
    return login(broker, source, token) | login(broker, target, token, "target")


def test_a_copy_goes_on(
    broker: Broker, token: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    opened = Opened(monkeypatch)
    caplog.set_level(logging.WARNING)
    flow = CopyFlow(broker, broker, props=props(broker, token, "SCRAM-SHA-256", "OAUTHBEARER"))
    topic = flow.topic(2)
    with traffic(flow, topic, 2) as reader:
        reader.wait_more()
        before, reader.longest, began = opened.count, 0.0, time.monotonic()
        while time.monotonic() - began < 3.5 * LIFE:
            reader.wait_more(100)
        longest, after = reader.longest, opened.count
    print(f"longest without a record: {longest:.3f} s; {after - before} connections opened anew")
    assert after == before
    flow.assert_copied()
    flow.assert_runs_true()
    for partition in range(2):
        everything = read(broker.bootstrap, flow.remote(topic), partition, committed_only=False)
        assert len(everything) == len(flow.copies(topic, partition)), "no transaction was aborted"
    assert [each.getMessage() for each in caplog.records if each.name.startswith("bridge")] == []
