"""Java client properties against a real, secured broker: both clients log in, or fail by the right cause."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from bridge.kafka.client_config import ClientSettings, client_settings
from bridge.local.broker import Broker
from bridge.local.jars import kafka_jars
from bridge.local.security import Security, TlsFiles, make_tls
from bridge.translation.model import Side

# aiokafka forgets to close the transport of a connection that was refused.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

MODULE = "org.apache.kafka.common.security"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return make_tls(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, tls: TlsFiles) -> Iterator[Broker]:
    security = Security(
        users={"alice": "wonder"}, tls=tls, authorizer=True, super_users=("alice", "CN=client")
    )
    running = Broker("secured", kafka_jars("4.3.1"), tmp_path_factory.mktemp("broker"), security=security)
    running.start()
    try:
        yield running
    finally:
        running.close()


def settings(address: str, **props: str) -> ClientSettings:
    given = {f"source.cluster.{name.replace('__', '.')}": value for name, value in props.items()}
    hasty = {"source.admin.request.timeout.ms": "5000", "source.consumer.request.timeout.ms": "5000"}
    return client_settings(Side.SOURCE, {"source.cluster.bootstrap.servers": address, **hasty, **given})


def brokers_seen(found: ClientSettings) -> tuple[int, int]:
    """By librdkafka, by aiokafka; 0 where the client is not let in."""
    try:
        admin = AdminClient({**found.admin, "log_level": 0})
        by_admin = len(admin.list_topics(timeout=3).brokers)
    except KafkaException:
        by_admin = 0

    async def raw() -> int:
        client = AIOKafkaClient(**found.raw.arguments())
        try:
            await client.bootstrap()
            return len(client.cluster.brokers())
        except KafkaError:
            return 0
        finally:
            await client.close()

    by_raw = asyncio.run(raw())
    gc.collect()
    return by_admin, by_raw


def jaas(mechanism: str, password: str) -> str:
    module = (
        f"{MODULE}.plain.PlainLoginModule" if mechanism == "PLAIN" else f"{MODULE}.scram.ScramLoginModule"
    )
    return f'{module} required username="alice" password="{password}";'


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_sasl(broker: Broker, mechanism: str) -> None:
    common = {"security__protocol": "SASL_PLAINTEXT", "sasl__mechanism": mechanism}
    address = broker.address("SASL_PLAINTEXT")
    assert brokers_seen(settings(address, **common, sasl__jaas__config=jaas(mechanism, "wonder"))) == (1, 1)


def test_a_wrong_password_lets_neither_in(broker: Broker) -> None:
    common = {"security__protocol": "SASL_PLAINTEXT", "sasl__mechanism": "SCRAM-SHA-256"}
    found = settings(
        broker.address("SASL_PLAINTEXT"), **common, sasl__jaas__config=jaas("SCRAM-SHA-256", "wander")
    )
    assert brokers_seen(found) == (0, 0)


def test_sasl_over_tls_with_a_pem_trust_store(broker: Broker, tls: TlsFiles) -> None:
    common = {"security__protocol": "SASL_SSL", "sasl__mechanism": "SCRAM-SHA-512"}
    found = settings(
        broker.address("SASL_SSL"),
        **common,
        sasl__jaas__config=jaas("SCRAM-SHA-512", "wonder"),
        ssl__truststore__type="PEM",
        ssl__truststore__location=str(tls.authority),
        ssl__keystore__type="PEM",
        ssl__keystore__location=str(tls.client),
    )
    assert brokers_seen(found) == (1, 1)


def test_mutual_tls(broker: Broker, tls: TlsFiles) -> None:
    trust = {"ssl__truststore__type": "PEM", "ssl__truststore__certificates": tls.authority.read_text()}
    own = {"ssl__keystore__type": "PEM", "ssl__keystore__location": str(tls.client)}
    address = broker.address("SSL")
    assert brokers_seen(settings(address, security__protocol="SSL", **trust, **own)) == (1, 1)
    assert brokers_seen(settings(address, security__protocol="SSL", **trust)) == (0, 0)


def test_a_broker_that_is_not_trusted_is_refused(broker: Broker, tls: TlsFiles, tmp_path: Path) -> None:
    stranger = make_tls(tmp_path / "stranger").authority
    found = settings(
        broker.address("SSL"),
        security__protocol="SSL",
        ssl__truststore__type="PEM",
        ssl__truststore__location=str(stranger),
        ssl__keystore__type="PEM",
        ssl__keystore__location=str(tls.client),
    )
    assert brokers_seen(found) == (0, 0)
