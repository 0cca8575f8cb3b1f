"""Why a cluster can't be reached, by real brokers: refused, no name, TLS, login, silence, the wrong protocol."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from bridge.kafka.admin.inspection import Cause, Description, Trouble, reach
from bridge.kafka.config.settings import client_settings
from bridge.local.broker import Broker
from bridge.local.security import Security, TlsFiles, make_tls
from bridge.model.values import Side
from tests.support.brokers import secured_broker
from tests.support.messages import message

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return make_tls(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, tls: TlsFiles) -> Iterator[Broker]:
    security = Security(
        users={"alice": "wonder", "bob": "builder"}, tls=tls, authorizer=True, super_users=("alice",)
    )
    with secured_broker(tmp_path_factory.mktemp("broker"), security) as running:
        yield running


def tried(
    servers: str, props: Mapping[str, str] | None = None, *, seconds: float = 30.0
) -> Description | list[Trouble]:
    given = {f"source.cluster.{name}": value for name, value in (props or {}).items()}
    settings = client_settings(Side.SOURCE, {"source.cluster.bootstrap.servers": servers, **given})
    return asyncio.run(reach(settings.raw_admin, seconds))


def cause(result: Description | list[Trouble]) -> Cause:
    assert isinstance(result, list)
    assert "wonder" not in str(result)
    (trouble,) = result
    return trouble.cause


def login(password: str, user: str = "alice", mechanism: str = "SCRAM-SHA-256") -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{SCRAM} required username="{user}" password="{password}";',
    }


@contextmanager
def silent() -> Iterator[str]:
    """Takes connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@contextmanager
def closed() -> Iterator[str]:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


def test_a_cluster_that_answers_is_described_with_what_the_user_may_do(broker: Broker) -> None:
    plain = tried(broker.bootstrap)
    assert isinstance(plain, Description)
    assert list(plain.brokers.values()) == [broker.bootstrap]
    assert len(plain.cluster_id) == 22
    assert plain.allowed is not None
    assert {"CREATE", "DESCRIBE", "ALTER"} <= plain.allowed
    bob = tried(broker.address("SASL_PLAINTEXT"), login("builder", "bob"))
    assert isinstance(bob, Description)
    assert bob.allowed == frozenset()


def test_one_of_two_servers_is_enough(broker: Broker) -> None:
    with closed() as away:
        assert isinstance(tried(f"{away},{broker.bootstrap}"), Description)


def test_a_port_without_a_broker_refuses(broker: Broker) -> None:
    with closed() as away:
        result = tried(f"{away},localhost:1")
        assert isinstance(result, list)
        assert [trouble.cause for trouble in result] == [Cause.REFUSED] * 2
        assert str(result[0]) == message("health.refuses", address=away)


def test_a_name_without_an_address_is_told(broker: Broker) -> None:
    assert cause(tried("no-such-host.invalid:9092")) is Cause.NO_DNS


def test_silence_is_told_in_time() -> None:
    with silent() as address:
        result = tried(address, seconds=1)
        assert cause(result) is Cause.TIMEOUT
        assert f"{address} does not answer in 1 s" in str(result[0] if isinstance(result, list) else "")


def test_tls_that_trusts_another_authority_is_told(broker: Broker, tls: TlsFiles) -> None:
    result = tried(broker.address("SSL"), {"security.protocol": "SSL"})
    assert cause(result) is Cause.TLS
    assert "ssl.truststore" in str(result[0] if isinstance(result, list) else "")


def test_tls_with_a_listener_without_is_told(broker: Broker) -> None:
    assert cause(tried(broker.bootstrap, {"security.protocol": "SSL"})) in (Cause.TLS, Cause.CLOSED)


def test_a_listener_of_tls_without_tls_is_told(broker: Broker) -> None:
    assert cause(tried(broker.address("SSL"))) is Cause.CLOSED


def test_a_wrong_password_is_told_without_it(broker: Broker) -> None:
    result = tried(broker.address("SASL_PLAINTEXT"), login("wonderwall"))
    assert cause(result) is Cause.AUTHENTICATION
    assert "SCRAM-SHA-256" in str(result[0] if isinstance(result, list) else "")
