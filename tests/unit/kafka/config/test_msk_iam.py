"""Logins of AWS MSK by IAM: stock's configuration, and tokens that the package signs without a network."""

from __future__ import annotations

import asyncio
import base64
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from bridge.errors import ConfigRejected, KafkaFailure
from bridge.kafka.config import oauth
from bridge.kafka.config.oauth import MskIam, login_modules, region_of
from bridge.kafka.config.settings import ClientSettings, client_settings
from bridge.kafka.config.token_provider import provider
from bridge.kafka.config.tokens import LibraryTokens, NoToken, TokenKeeper
from bridge.kafka.network.library_client import LibraryConnection
from bridge.model.values import Side

BROKERS = ",".join(f"b-{number}.orders.a1b2c3.c4.kafka.eu-west-1.amazonaws.com:9098" for number in (1, 2))
STOCK = {
    "bootstrap.servers": BROKERS,
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "AWS_MSK_IAM",
    "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
    "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
}
"""As AWS documents it for Java's clients."""
BY_OAUTH = STOCK | {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
    "sasl.client.callback.handler.class": "",
    "sasl.login.callback.handler.class": "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler",
}
KEY, SECRET = "AKIAPLANTEDPLANTED00", "planted/secret+of/aws"


@pytest.fixture(autouse=True)
def aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Static credentials, and one profile."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    (tmp_path / "aws").write_text(
        "[mirror]\naws_access_key_id = AKIAOFPROFILE0000000\naws_secret_access_key = other\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "aws"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))


def settings(**changes: str) -> ClientSettings:
    given = STOCK | {name.replace("__", "."): value for name, value in changes.items()}
    return client_settings(Side.SOURCE, {f"source.cluster.{name}": value for name, value in given.items()})


def source(parsed: ClientSettings) -> MskIam:
    tokens = parsed.admin["oauth_cb"]
    assert isinstance(tokens, LibraryTokens)
    assert isinstance(tokens.source, MskIam)
    assert parsed.raw.sasl is not None
    assert parsed.raw.sasl.login == tokens.source
    return tokens.source


def test_stocks_configuration_is_carried_out_by_oauthbearer() -> None:
    parsed = settings()
    assert parsed.admin["sasl.mechanism"] == "OAUTHBEARER"
    assert parsed.raw.sasl is not None
    assert parsed.raw.sasl.mechanism == "OAUTHBEARER"
    assert source(parsed) == MskIam("eu-west-1", servers=tuple(BROKERS.split(",")))


def test_the_java_librarys_own_oauthbearer_is_the_same() -> None:
    given = {f"source.cluster.{name}": value for name, value in BY_OAUTH.items()}
    assert source(client_settings(Side.SOURCE, given)) == source(settings())


def test_options_say_who_signs() -> None:
    module = "software.amazon.msk.auth.iam.IAMLoginModule required"
    jaas = f'{module} awsProfileName="mirror" awsDebugCreds=true;'
    servers = tuple(BROKERS.split(","))
    assert source(settings(sasl__jaas__config=jaas)) == MskIam("eu-west-1", "mirror", servers=servers)
    role = "arn:aws:iam::123456789012:role/mirror"
    jaas = f'{module} awsRoleArn="{role}" awsRoleSessionName="copies";'
    assert source(settings(sasl__jaas__config=jaas)) == MskIam("eu-west-1", "", role, "copies", servers)
    one, other = settings(), settings(sasl__jaas__config=jaas)
    assert one.fingerprint != other.fingerprint
    assert one.fingerprint == settings().fingerprint


def test_a_token_is_a_signed_url_for_a_quarter_of_an_hour() -> None:
    began = int(time.time())
    token = TokenKeeper(MskIam("eu-west-1")).token()
    url = base64.urlsafe_b64decode(token.value + "=" * (-len(token.value) % 4)).decode()
    parts, query = urlsplit(url), parse_qs(urlsplit(url).query)
    assert (parts.scheme, parts.netloc) == ("https", "kafka.eu-west-1.amazonaws.com")
    assert query["Action"] == ["kafka-cluster:Connect"]
    assert query["X-Amz-Credential"][0].startswith(f"{KEY}/")
    assert query["X-Amz-Credential"][0].endswith("/eu-west-1/kafka-cluster/aws4_request")
    assert query["X-Amz-Expires"] == ["900"]
    assert len(query["X-Amz-Signature"][0]) == 64
    assert began + 900 <= token.expires_at <= time.time() + 900
    assert SECRET not in url


@pytest.mark.parametrize(
    ("host", "servers", "gets_it"),
    [
        ("b-3.orders.a1b2c3.c4.kafka.eu-west-1.amazonaws.com", BROKERS, True),
        ("b-1-public.other.x.c1.kafka.eu-west-1.amazonaws.com.", BROKERS, True),
        ("evil.example.org", BROKERS, False),
        ("evil-kafka.eu-west-1.amazonaws.com", BROKERS, False),
        ("b-1.orders.a1b2c3.c4.kafka.eu-west-1.amazonaws.com.evil.example", BROKERS, False),
        ("ec2-1-2-3-4.eu-west-1.compute.amazonaws.com", BROKERS, False),
        ("10.0.0.2", BROKERS, False),
        ("b-2.kafka.internal.example.org", "b-1.kafka.internal.example.org:9098", True),
        ("b-2.Kafka.internal.example.org", "kafka.internal.example.org:9098", True),
        ("b-2.kafka.other.example.org", "b-1.kafka.internal.example.org:9098", False),
        ("b-1.o.c4.kafka.eu-west-1.amazonaws.com", "kafka.example.org:9098", False),
        ("kafka2", "kafka1:9098", False),
        ("evil.org", "kafka.org:9098", False),
        ("10.0.0.1", "10.0.0.1:9098,10.0.0.2:9098", True),
        ("10.0.0.3", "10.0.0.1:9098", False),
        ("x.0.0.1", "10.0.0.1:9098", False),
        ("evil.example", "[::1]:9098", False),
        ("ec2-1-2-3-4.eu-west-1.compute.amazonaws.com", "kafka.compute.amazonaws.com:9098", False),
        ("x.elb.us-east-1.amazonaws.com", "kafka.us-east-1.amazonaws.com:9098", False),
    ],
)
def test_what_is_signed_goes_to_msk_and_beside_the_servers_that_are_named(
    host: str, servers: str, gets_it: bool
) -> None:
    """Whichever brokers the cluster names: somebody else may have made it."""
    login = MskIam("eu-west-1", servers=tuple(servers.split(",")))
    assert (login.refused(host) is None) == gets_it
    sent = list[bytes]()

    async def log_in() -> None:
        async def send(request: object, expect_response: bool = True) -> object:
            sent.append(b"")
            raise ConnectionError

        connection = LibraryConnection(
            host, 9098, sasl_mechanism="OAUTHBEARER", sasl_oauth_token_provider=provider(login)
        )
        await connection.log_in(send)  # type: ignore[arg-type]

    with pytest.raises(ConnectionError if gets_it else KafkaFailure) as refused:
        asyncio.run(log_in())
    assert bool(sent) == gets_it
    assert gets_it or host in str(refused.value)


def test_a_profile_signs() -> None:
    token = MskIam("us-east-1", "mirror").obtain()
    url = base64.urlsafe_b64decode(token.value + "=" * (-len(token.value) % 4)).decode()
    assert "AKIAOFPROFILE0000000" in url


def test_no_credentials_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoToken, match="no such profile"):
        MskIam("us-east-1", "other").obtain()
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(NoToken, match="no AWS credentials were found"):
        MskIam("us-east-1").obtain()


@pytest.mark.parametrize(
    ("changes", "key", "why"),
    [
        ({"security.protocol": "SASL_PLAINTEXT"}, "security.protocol", "over SASL_SSL only"),
        ({"bootstrap.servers": "kafka.example.org:9098"}, "bootstrap.servers", "AWS_REGION has to be set"),
        ({"sasl.jaas.config": ""}, "sasl.jaas.config", "IAMLoginModule required"),
        (
            {"sasl.jaas.config": f'{STOCK["sasl.jaas.config"][:-1]} awsStsRegion="x";'},
            "sasl.jaas.config",
            "the signer has nothing for awsStsRegion",
        ),
        (
            {"sasl.jaas.config": f'{STOCK["sasl.jaas.config"][:-1]} awsProfil="x";'},
            "sasl.jaas.config",
            "no options awsProfil; it has awsProfileName",
        ),
        (
            {"sasl.jaas.config": f'{STOCK["sasl.jaas.config"][:-1]} awsRoleSessionName="x";'},
            "sasl.jaas.config",
            "needs awsRoleArn",
        ),
        (
            {
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": 'a.PlainLoginModule required username="a" password="b";',
            },
            "sasl.client.callback.handler.class",
            "for the mechanism AWS_MSK_IAM, and sasl.mechanism is PLAIN",
        ),
        (
            {"sasl.login.callback.handler.class": "python:a.b"},
            "sasl.login.callback.handler.class",
            "for the mechanism OAUTHBEARER, and sasl.mechanism is AWS_MSK_IAM",
        ),
    ],
)
def test_what_can_not_be_carried_out_is_named(changes: dict[str, str], key: str, why: str) -> None:
    given = {f"source.cluster.{name}": value for name, value in (STOCK | changes).items()}
    with pytest.raises(ConfigRejected) as caught:
        client_settings(Side.SOURCE, given)
    assert {error.key for error in caught.value.errors} == {f"source.cluster.{key}"}
    assert why in str(caught.value)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oauth, "SIGNER", "no_such_signer")
    with pytest.raises(ConfigRejected, match=r"pip install mirror-bridge\[msk-iam\]"):
        settings()


def test_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    assert region_of(["boot-x1.c1.kafka-serverless.us-east-2.amazonaws.com:9098"]) == "us-east-2"
    assert region_of(["b-1.x.c2.kafka.cn-north-1.amazonaws.com.cn:9098"]) == "cn-north-1"
    assert region_of(["kafka.example.org:9098"]) is None
    assert region_of(["kafka.us-east-1.amazonaws.com.example.org:9098"]) is None
    assert region_of(["evil-kafka.us-east-1.amazonaws.com:9098"]) is None
    monkeypatch.setenv("AWS_DEFAULT_REGION", "sa-east-1")
    assert region_of(["kafka.example.org:9098"]) == "sa-east-1"
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    assert region_of(["kafka.example.org:9098"]) == "eu-north-1"


def test_which_modules_executors_need() -> None:
    assert login_modules({f"source.cluster.{name}": value for name, value in STOCK.items()}) == [
        oauth.SIGNER_MODULE
    ]
    function = {"target.admin.sasl.login.callback.handler.class": " python:own.tokens.token"}
    assert login_modules(function) == ["own.tokens"]
    assert login_modules({f"x.{name}": value for name, value in BY_OAUTH.items()} | function) == [
        oauth.SIGNER_MODULE,
        "own.tokens",
    ]
    assert login_modules({"source.cluster.sasl.mechanism": "PLAIN"}) == []
