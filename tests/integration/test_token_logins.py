"""Tokens of a function and of a file against a real broker that verifies them: both clients log in, again and again."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.cluster import KafkaCluster
from bridge.kafka.config.settings import ClientSettings
from bridge.kafka.network.client import NetworkClient
from bridge.local.broker import Broker
from bridge.local.security import Security
from tests.integration.test_client_security import brokers_seen, settings
from tests.support import create_topic, unique
from tests.support.brokers import secured_broker
from tests.support.jwts import Signer

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

SESSION_MS = 2000
"""After it the broker ends a connection that has not logged in again (connections.max.reauth.ms)."""
FUNCTION = """
def token(properties, options):
    with open(options["calls"], "a") as calls:
        calls.write(properties["bootstrap.servers"] + "\\n")
    return open(options["from"]).read(), None
"""
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return Signer(tmp_path_factory.mktemp("idp"))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, signer: Signer) -> Iterator[Broker]:
    properties = {"connections.max.reauth.ms": str(SESSION_MS)}
    security = Security(jwks=signer.jwks)
    with secured_broker(tmp_path_factory.mktemp("broker"), security, properties) as running:
        yield running


def logging_in(broker: Broker, **props: str) -> ClientSettings:
    common = {"security__protocol": "SASL_PLAINTEXT", "sasl__mechanism": "OAUTHBEARER"}
    return settings(broker.address("SASL_PLAINTEXT"), **common, **props)


def by_file(broker: Broker, file: Path) -> ClientSettings:
    return logging_in(broker, sasl__oauthbearer__token__endpoint__url=file.as_uri())


def test_a_file(broker: Broker, signer: Signer, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(signer.token("mirror", 60))
    assert brokers_seen(by_file(broker, file)) == (1, 1)


def test_a_token_that_the_broker_refuses(broker: Broker, tmp_path: Path) -> None:
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    file = tmp_path / "token"
    file.write_text(Signer(stranger).token("mirror", 60))
    assert brokers_seen(by_file(broker, file)) == (0, 0)


def test_a_function(broker: Broker, signer: Signer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = unique("own_tokens").replace("-", "_")
    (tmp_path / f"{name}.py").write_text(FUNCTION)
    monkeypatch.syspath_prepend(tmp_path)
    file, calls = tmp_path / "token", tmp_path / "calls"
    file.write_text(signer.token("mirror", 60))
    parsed = logging_in(
        broker,
        sasl__login__callback__handler__class=f"python:{name}.token",
        sasl__jaas__config=f'{MODULE} from="{file}" calls="{calls}";',
    )
    try:
        assert brokers_seen(parsed) == (1, 1)
    finally:
        sys.modules.pop(name, None)
    assert calls.read_text().splitlines() == [broker.address("SASL_PLAINTEXT")], "one call for both clients"


def test_connections_go_on_with_tokens_that_replace_each_other(
    broker: Broker, signer: Signer, tmp_path: Path
) -> None:
    """Each token is valid for little longer than a session; without the next one nobody gets in."""
    file, topic = tmp_path / "token", create_topic(broker.bootstrap, unique("tokens"))
    file.write_text(signer.token("mirror", 3 * SESSION_MS / 1000))

    async def asked(cluster: KafkaCluster, network: NetworkClient) -> None:
        assert await cluster.create_compacted_topic(topic, 1) is None
        assert topic in await cluster.topic_names()
        assert (await network.metadata([topic]))[topic].error == 0

    async def refused(cluster: KafkaCluster, network: NetworkClient) -> None:
        while True:  # the last good one is used until it expires
            await asked(cluster, network)
            await asyncio.sleep(0.2)

    async def go() -> None:
        parsed = by_file(broker, file)
        cluster, network = KafkaCluster(parsed), NetworkClient(parsed.raw)
        try:
            async with asyncio.timeout(60):
                end = time.monotonic() + 4 * SESSION_MS / 1000
                while time.monotonic() < end:
                    replaced = tmp_path / "replaced"
                    replaced.write_text(signer.token("mirror", 3 * SESSION_MS / 1000))
                    replaced.rename(file)
                    await asked(cluster, network)
                    await asyncio.sleep(0.2)
                file.write_text(signer.token("mirror", -5))
                with pytest.raises(KafkaFailure, match=f"no token from {file}: the token expired") as caught:
                    await refused(cluster, network)
            assert caught.value.fault is KafkaFault.UNREACHABLE
        finally:
            await cluster.close()
            await network.close()

    asyncio.run(go())
