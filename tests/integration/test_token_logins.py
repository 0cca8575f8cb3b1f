"""Tokens by client credentials, of a function and of a file against a real broker that verifies them: both clients log
in."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.config.settings import ClientSettings
from bridge.kafka.network.client import NetworkClient
from bridge.local.broker import Broker
from bridge.local.security import Security
from tests.integration.client_logins import brokers_seen, settings
from tests.support import unique
from tests.support.brokers import secured_broker
from tests.support.jwts import Signer

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

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
    security = Security(jwks=signer.jwks)
    with secured_broker(tmp_path_factory.mktemp("broker"), security) as running:
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
    parsed = by_file(broker, file)
    assert brokers_seen(parsed) == (0, 0)

    async def metadata() -> None:
        client = NetworkClient(parsed.raw)
        try:
            await client.metadata(["orders"])
        finally:
            await client.close()

    with pytest.raises(KafkaFailure, match="Authentication failed") as refused:
        asyncio.run(metadata())
    assert refused.value.fault is KafkaFault.CREDENTIALS


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


@contextmanager
def identity_provider(signer: Signer, asked: list[str]) -> Iterator[str]:
    """Hands out tokens for the time of the block, and adds each request's Authorization to `asked`; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            asked.append(self.headers["Authorization"])
            self.send_response(200)
            self.end_headers()
            token = signer.token("mirror", 60)
            self.wfile.write(json.dumps({"access_token": token, "expires_in": 60}).encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/token"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_all_connections_of_the_same_client_credentials_share_a_token(
    broker: Broker, signer: Signer, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[str] = []
    secret = unique("secret")

    async def metadata(parsed: ClientSettings) -> None:
        clients = [NetworkClient(parsed.raw) for _ in range(5)]
        try:
            await asyncio.gather(*(client.topic_names() for client in clients))
        finally:
            for client in clients:
                await client.close()

    with caplog.at_level("DEBUG"), identity_provider(signer, asked) as url:
        parsed = logging_in(
            broker,
            sasl__oauthbearer__token__endpoint__url=url,
            sasl__jaas__config=f'{MODULE} clientId="mirror" clientSecret="{secret}";',
        )
        asyncio.run(metadata(parsed))
        assert brokers_seen(parsed) == (1, 1)
    # One request for five connections, and for librdkafka's.
    assert len(asked) == 1
    assert secret not in caplog.text
    assert signer.token("mirror", 60).partition(".")[0] not in caplog.text, "no JWT"
