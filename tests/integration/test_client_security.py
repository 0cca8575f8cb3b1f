"""Java client properties against a real, secured broker: both clients log in, or fail by the right cause."""

from __future__ import annotations

import asyncio
import gc
import random
from pathlib import Path

import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.config.settings import ClientSettings
from bridge.kafka.consumer.fetcher import Fetcher, FetchPosition
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.producer.sender import BatchSender
from bridge.kafka.protocol import log_requests
from bridge.kafka.record.coalescing import DataBatches
from bridge.local import eventually
from bridge.local.security import TlsFiles, make_tls
from bridge.model.values import TopicPartition
from tests.integration.client_logins import brokers_seen, settings
from tests.support import unique
from tests.support.brokers import USERS, Secured
from tests.support.forms import mostly_long
from tests.support.waits import WAIT
from tests.unit.kafka.record.raw_batches import Plain, batch_of

# aiokafka forgets to close the transport of a connection that was refused.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

MODULE = "org.apache.kafka.common.security"


def let_in(settings_: ClientSettings) -> None:
    """A busy machine may take longer to let them in than they wait."""
    eventually(lambda: brokers_seen(settings_) == (1, 1), WAIT, what="both clients are let in")


def jaas(mechanism: str, password: str) -> str:
    module = (
        f"{MODULE}.plain.PlainLoginModule" if mechanism == "PLAIN" else f"{MODULE}.scram.ScramLoginModule"
    )
    return f'{module} required username="root" password="{password}";'


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_sasl(secured: Secured, mechanism: str) -> None:
    common = {"security__protocol": "SASL_PLAINTEXT", "sasl__mechanism": mechanism}
    address = secured.address("SASL_PLAINTEXT")
    let_in(settings(address, **common, sasl__jaas__config=jaas(mechanism, "wonder")))


def test_a_wrong_password_lets_neither_in(secured: Secured) -> None:
    common = {"security__protocol": "SASL_PLAINTEXT", "sasl__mechanism": "SCRAM-SHA-256"}
    parsed = settings(
        secured.address("SASL_PLAINTEXT"), **common, sasl__jaas__config=jaas("SCRAM-SHA-256", "wander")
    )
    assert brokers_seen(parsed) == (0, 0)


def login(secured: Secured, tls: TlsFiles, protocol: str, password: str = USERS["root"]) -> ClientSettings:
    """Of root, or over plain TLS of the client's certificate."""
    given = {"security__protocol": protocol}
    if protocol.startswith("SASL"):
        given |= {"sasl__mechanism": "SCRAM-SHA-512", "sasl__jaas__config": jaas("SCRAM-SHA-512", password)}
    if protocol.endswith("SSL"):
        given |= {
            "ssl__truststore__type": "PEM",
            "ssl__truststore__location": str(tls.authority),
            "ssl__keystore__type": "PEM",
            "ssl__keystore__location": str(tls.client),
        }
    return settings(secured.address(protocol), **given)


def test_sasl_over_tls_with_a_pem_trust_store(secured: Secured, tls: TlsFiles) -> None:
    let_in(login(secured, tls, "SASL_SSL"))


def test_mutual_tls(secured: Secured, tls: TlsFiles) -> None:
    trust = {"ssl__truststore__type": "PEM", "ssl__truststore__certificates": tls.authority.read_text()}
    own = {"ssl__keystore__type": "PEM", "ssl__keystore__location": str(tls.client)}
    address = secured.address("SSL")
    let_in(settings(address, security__protocol="SSL", **trust, **own))
    assert brokers_seen(settings(address, security__protocol="SSL", **trust)) == (0, 0)


@pytest.mark.parametrize("protocol", mostly_long(["SASL_PLAINTEXT", "SASL_SSL", "SSL"]))
def test_batches_go_both_ways_over_connections_for_what_is_large(
    secured: Secured, tls: TlsFiles, protocol: str
) -> None:
    result = login(secured, tls, protocol)
    place = TopicPartition(unique("large"), 0)
    values = [random.Random(number).randbytes(900_000) for number in range(8)]
    admin = AdminClient({**result.admin, "log_level": 0})
    admin.create_topics([NewTopic(place.topic, 1)])[place.topic].result(60)

    def led() -> None:
        """The broker tells that it is made before it knows its leader itself."""
        described = admin.list_topics(place.topic, timeout=10).topics[place.topic]
        assert described.error is None
        assert [each.leader for each in described.partitions.values()] >= [0]

    eventually(led, WAIT, what="the topic has a leader")

    async def go() -> list[bytes]:
        client = NetworkClient(result.raw)
        sender, fetcher = BatchSender(client, None, 20.0), Fetcher(client, committed_only=True)
        back: list[bytes] = []
        try:
            async with asyncio.timeout(30):
                for value in values:
                    sender.send(place, bytearray(batch_of([Plain(1, None, value)])), 1)
                await sender.flush()
                topic_id = (await client.metadata([place.topic]))[place.topic].topic_id
                await fetcher.start()
                fetcher.assign({place: FetchPosition(topic_id, 0)})
                while len(back) < len(values):
                    for part in await fetcher.poll(1.0):
                        batches = DataBatches.committed(part.records, part.offset, part.aborted)
                        for each in batches.batches:
                            back += (record.value or b"" for record in DefaultRecordBatch(bytes(each.data)))
                        fetcher.done(part, batches.next_offset, batches.leader_epoch)
        finally:
            await fetcher.close()
            await sender.close()
            await client.close()
        return back

    assert asyncio.run(go()) == values


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_wrong_password_is_told_by_connections_for_what_is_large_too(
    secured: Secured, tls: TlsFiles, protocol: str
) -> None:
    right, wrong = login(secured, tls, protocol), login(secured, tls, protocol, "wander")

    async def go() -> None:
        client = NetworkClient(right.raw)
        try:
            (node,) = await client.nodes()
            client.settings = wrong.raw  # the password was changed since the first connection
            with pytest.raises(KafkaFailure, match="Authentication failed") as failure:
                await client.send_bulk(node, log_requests.metadata([]), log_requests.read_controller, "ask")
            assert failure.value.fault is KafkaFault.CREDENTIALS
        finally:
            await client.close()

    asyncio.run(go())
    gc.collect()


def test_a_broker_that_is_not_trusted_is_refused(secured: Secured, tls: TlsFiles, tmp_path: Path) -> None:
    stranger = make_tls(tmp_path / "stranger").authority
    parsed = settings(
        secured.address("SSL"),
        security__protocol="SSL",
        ssl__truststore__type="PEM",
        ssl__truststore__location=str(stranger),
        ssl__keystore__type="PEM",
        ssl__keystore__location=str(tls.client),
    )
    assert brokers_seen(parsed) == (0, 0)
