"""Java client properties, in librdkafka's and aiokafka's words; what can't be honoured is named."""

from __future__ import annotations

import asyncio
import datetime
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka.client import AIOKafkaClient
from confluent_kafka.admin import AdminClient
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import pkcs12

from bridge.errors import ConfigRejected
from bridge.kafka.config import property_names
from bridge.kafka.config.oauth import ClientCredentials
from bridge.kafka.config.settings import ClientSettings, StaticClientCheck, client_settings
from bridge.kafka.config.tokens import LibraryTokens, TokenFile, TokenFunction
from bridge.model.values import Side

PASSWORD = "store-geheim"
SECRET = "pw-very-geheim"
BASE = {"source.cluster.bootstrap.servers": "a:9092", "target.cluster.bootstrap.servers": "b:9092"}
PLAIN = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{SECRET}";'
SCRAM = f"org.apache.kafka.common.security.scram.ScramLoginModule required username='u' password='{SECRET}';"
OAUTH_PACKAGE = "org.apache.kafka.common.security.oauthbearer"
OAUTH = f"{OAUTH_PACKAGE}.OAuthBearerLoginModule required"


def settings(**source: str) -> ClientSettings:
    """Settings of the source with these names below source.cluster. (`__` for a dot)."""
    given = {f"source.cluster.{name.replace('__', '.')}": value for name, value in source.items()}
    return client_settings(Side.SOURCE, BASE | given)


def errors(props: dict[str, str]) -> dict[str, str]:
    result = StaticClientCheck().check(BASE | props)
    assert SECRET not in repr(result)
    return {error.key: error.message for error in result}


def test_without_security_both_clients_get_the_servers_and_nothing_else() -> None:
    parsed = settings()
    assert parsed.admin == {
        "bootstrap.servers": "a:9092",
        "security.protocol": "PLAINTEXT",
        "client.id": "mirror-bridge",
    }
    assert parsed.raw.arguments() == {
        "bootstrap_servers": ["a:9092"],
        "security_protocol": "PLAINTEXT",
        "client_id": "mirror-bridge",
        "ssl_context": None,
    }
    assert parsed.isolation == "read_uncommitted"


def test_each_role_resolves_its_prefixes_as_stock_does() -> None:
    props = BASE | {
        "source.cluster.security.protocol": "ssl",
        "admin.security.protocol": "plaintext",
        "consumer.request.timeout.ms": "1000",
        "source.consumer.request.timeout.ms": "2000",
        "target.consumer.request.timeout.ms": "3000",
        "admin.request.timeout.ms": "4000",
        "source.admin.request.timeout.ms": "5000",
    }
    parsed = client_settings(Side.SOURCE, props)
    assert (parsed.admin["security.protocol"], parsed.raw.security_protocol) == ("PLAINTEXT", "SSL")
    assert (parsed.admin["socket.timeout.ms"], parsed.raw.arguments()["request_timeout_ms"]) == (5000, 2000)
    target = client_settings(Side.TARGET, props)
    assert (target.admin["socket.timeout.ms"], target.raw.arguments()["request_timeout_ms"]) == (4000, 3000)


def test_numbers_reach_both_dialects() -> None:
    parsed = client_settings(
        Side.SOURCE,
        BASE
        | {
            f"{role}.{name}": value
            for role in ("admin", "consumer")
            for name, value in {
                "retry.backoff.ms": "300",
                "retry.backoff.max.ms": "200",
                "reconnect.backoff.ms": "70",
                "connections.max.idle.ms": "-1",
                "metadata.max.age.ms": "7200000",
                "send.buffer.bytes": "-1",
                "default.api.timeout.ms": "1234",
                "client.id": "me",
            }.items()
        },
    )
    assert parsed.api_timeout_ms == 1234
    expected = {
        "retry.backoff.ms": 200,
        "retry.backoff.max.ms": 200,
        "reconnect.backoff.ms": 70,
        "reconnect.backoff.max.ms": 1000,
        "connections.max.idle.ms": 0,
        "metadata.max.age.ms": 7_200_000,
        "topic.metadata.refresh.interval.ms": 3_600_000,
        "socket.send.buffer.bytes": 0,
        "client.id": "me",
    }
    assert expected.items() <= parsed.admin.items()
    arguments = parsed.raw.arguments()
    assert arguments["connections_max_idle_ms"] is None
    assert (arguments["retry_backoff_ms"], arguments["metadata_max_age_ms"]) == (300, 7_200_000)
    accepted_by_both(parsed)


@pytest.mark.parametrize(
    ("mechanism", "jaas"), [("PLAIN", PLAIN), ("SCRAM-SHA-256", SCRAM), ("SCRAM-SHA-512", SCRAM)]
)
def test_user_and_password(mechanism: str, jaas: str) -> None:
    parsed = settings(security__protocol="SASL_PLAINTEXT", sasl__mechanism=mechanism, sasl__jaas__config=jaas)
    assert parsed.admin["sasl.mechanism"] == mechanism
    assert (parsed.admin["sasl.username"], parsed.admin["sasl.password"]) == ("u", SECRET)
    arguments = parsed.raw.arguments()
    assert (arguments["sasl_plain_username"], arguments["sasl_plain_password"]) == ("u", SECRET)
    assert SECRET not in f"{parsed!r} {parsed} {parsed.raw!r} {parsed.fingerprint}"
    accepted_by_both(parsed)


def test_oauth_by_client_credentials_from_jaas_or_from_keys() -> None:
    common = {"security__protocol": "SASL_SSL", "sasl__mechanism": "OAUTHBEARER"}
    common["sasl__oauthbearer__token__endpoint__url"] = "https://idp/token"
    jaas = f'{OAUTH} clientId="me" clientSecret="{SECRET}" scope="kafka" extension_pool="p1";'
    handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
    parsed = settings(**common, sasl__jaas__config=jaas, sasl__login__callback__handler__class=handler)
    tokens = parsed.admin["oauth_cb"]
    assert isinstance(tokens, LibraryTokens)
    assert tokens.source == ClientCredentials("https://idp/token", "me", SECRET, "kafka", {"pool": "p1"})
    assert SECRET not in f"{parsed!r} {parsed.admin!r} {tokens!r}"
    keys = {
        "sasl__oauthbearer__client__credentials__client__id": "me",
        "sasl__oauthbearer__client__credentials__client__secret": SECRET,
    }
    by_keys = settings(**common, **keys)
    assert by_keys.admin["oauth_cb"] == LibraryTokens(ClientCredentials("https://idp/token", "me", SECRET))
    assert SECRET not in repr(by_keys)
    keys["sasl__oauthbearer__client__credentials__client__secret"] = "another"
    assert settings(**common, **keys).fingerprint != by_keys.fingerprint


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://idp.example.org/token", "MIRROR_BRIDGE_OAUTH_HTTP_HOSTS"),
        (f"https://me:{SECRET}@idp.example.org/token", "must not carry credentials"),
    ],
)
def test_an_endpoint_that_would_show_the_secret_is_refused(url: str, why: str) -> None:
    key = "source.cluster.sasl.oauthbearer.token.endpoint.url"
    given = {
        "source.cluster.security.protocol": "SASL_SSL",
        "source.cluster.sasl.mechanism": "OAUTHBEARER",
        "source.cluster.sasl.jaas.config": f'{OAUTH} clientId="me" clientSecret="{SECRET}";',
        key: url,
    }
    assert why in errors(given)[key]


def test_oauth_unsecured_for_closed_networks() -> None:
    parsed = settings(
        security__protocol="SASL_PLAINTEXT",
        sasl__mechanism="OAUTHBEARER",
        sasl__jaas__config=f'{OAUTH} unsecuredLoginStringClaim_sub="admin";',
    )
    assert parsed.admin["sasl.oauthbearer.config"] == "principal=admin"

    async def token() -> str:
        provider = parsed.raw.arguments()["sasl_oauth_token_provider"]
        assert await provider.token() == await provider.token()
        return str(await provider.token())

    assert asyncio.run(token()).count(".") == 2
    accepted_by_both(parsed)


def oauth(**changes: str) -> ClientSettings:
    common = {"security__protocol": "SASL_SSL", "sasl__mechanism": "OAUTHBEARER"}
    return settings(**common, **changes)


def test_oauth_by_a_function() -> None:
    given = {
        "sasl__login__callback__handler__class": "python:own.tokens.token",
        "sasl__oauthbearer__client__credentials__client__secret": SECRET,
        "sasl__jaas__config": f'{OAUTH} ours="{SECRET}" extension_pool="p1";',
    }
    parsed = oauth(**given)
    tokens = parsed.admin["oauth_cb"]
    assert isinstance(tokens, LibraryTokens)
    source = tokens.source
    assert isinstance(source, TokenFunction)
    assert source.function == "own.tokens.token"
    assert source.properties["security.protocol"] == "SASL_SSL"
    assert source.properties["sasl.oauthbearer.client.credentials.client.secret"] == SECRET
    assert not [name for name in source.properties if name.startswith(("ssl.", "client."))]
    assert source.options["ours"] == SECRET
    assert source.extensions == {"pool": "p1"}
    assert SECRET not in f"{parsed!r} {parsed.admin!r} {tokens!r}"
    assert parsed.fingerprint == oauth(**given).fingerprint
    given["sasl__oauthbearer__client__credentials__client__secret"] = "another"
    assert parsed.fingerprint != oauth(**given).fingerprint
    without = oauth(sasl__login__callback__handler__class="python:own.tokens.token")
    assert isinstance(without.admin["oauth_cb"], LibraryTokens), "no sasl.jaas.config is needed"


LOGIN = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.jaas.config": f"{OAUTH};",
}


@pytest.mark.parametrize("retriever", ["", "Default", "File"])
def test_oauth_by_a_file(retriever: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.touch()
    given = {"sasl__oauthbearer__token__endpoint__url": file.as_uri()}
    if retriever:
        given["sasl__oauthbearer__jwt__retriever__class"] = f"{OAUTH_PACKAGE}.{retriever}JwtRetriever"
    tokens = oauth(**given).admin["oauth_cb"]
    assert isinstance(tokens, LibraryTokens)
    assert tokens.source == TokenFile(str(file))
    file.write_bytes(b"x" * ((64 << 10) + 1))
    key = "sasl.oauthbearer.token.endpoint.url"
    own = {name.replace("__", "."): value for name, value in given.items()}
    rejected = errors({f"source.cluster.{name}": value for name, value in (LOGIN | own).items()})
    assert "larger than 65536 bytes" in rejected[f"source.cluster.{key}"], "as the login would say"


@pytest.mark.parametrize(
    ("changes", "key", "why"),
    [
        (
            {"token.endpoint.url": "file:///no/such/token"},
            "token.endpoint.url",
            "can't read the file: No such",
        ),
        ({"token.endpoint.url": "file://host/token"}, "token.endpoint.url", "file:///PATH"),
        (
            {"token.endpoint.url": "https://idp/token", "jwt.retriever.class": "FileJwtRetriever"},
            "token.endpoint.url",
            "it must be file:///PATH",
        ),
        (
            {
                "token.endpoint.url": "file:///etc/hostname",
                "jwt.retriever.class": "ClientCredentialsJwtRetriever",
            },
            "token.endpoint.url",
            "it must be https",
        ),
        (
            {"token.endpoint.url": "https://idp/token", "jwt.retriever.class": "JwtBearerJwtRetriever"},
            "jwt.retriever.class",
            "no signed assertions",
        ),
    ],
)
def test_tokens_that_can_not_be_had_are_named(changes: dict[str, str], key: str, why: str) -> None:
    own = {
        f"source.cluster.sasl.oauthbearer.{name}": f"{OAUTH_PACKAGE}.{value}" if "class" in name else value
        for name, value in changes.items()
    }
    rejected = errors(own | {f"source.cluster.{name}": value for name, value in LOGIN.items()})
    assert why in rejected[f"source.cluster.sasl.oauthbearer.{key}"]


@pytest.mark.parametrize("function", ["token", "own..token", "own.tokens:token", ""])
def test_a_function_is_named_with_its_module(function: str) -> None:
    key = "source.cluster.sasl.login.callback.handler.class"
    common = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    rejected = errors(
        {f"source.cluster.{name}": value for name, value in common.items()} | {key: f"python:{function}"}
    )
    assert "python:module.function" in rejected[key]


def accepted_by_both(accepted: ClientSettings) -> None:
    """The clients themselves take every name and value (no connection is made)."""
    AdminClient({**accepted.admin, "bootstrap.servers": "", "log_level": 0})

    async def make() -> None:
        await AIOKafkaClient(**accepted.raw.arguments()).close()

    asyncio.run(make())


# -- stores ------------------------------------------------------------------------------------------------


class Stores:
    """One CA, one certificate of it with its key, in every format."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ca_key, key = (rsa.generate_private_key(65537, 2048) for _ in range(2))
        ca = certificate("ca", ca_key, "ca", ca_key, is_ca=True)
        own = certificate("client", key, "ca", ca_key, is_ca=False)
        pem = serialization.Encoding.PEM
        self.ca_pem = ca.public_bytes(pem).decode()
        self.chain_pem = own.public_bytes(pem).decode() + self.ca_pem
        pkcs8 = serialization.PrivateFormat.PKCS8
        self.key_pem = key.private_bytes(pem, pkcs8, serialization.NoEncryption()).decode()
        encryption = serialization.BestAvailableEncryption(SECRET.encode())
        self.encrypted_key_pem = key.private_bytes(pem, pkcs8, encryption).decode()
        (folder / "ca.pem").write_text(self.ca_pem)
        (folder / "own.pem").write_text(self.chain_pem + self.encrypted_key_pem)
        store = serialization.BestAvailableEncryption(PASSWORD.encode())
        (folder / "own.p12").write_bytes(pkcs12.serialize_key_and_certificates(b"own", key, own, [ca], store))
        keytool = ("keytool", "-noprompt", "-storepass", PASSWORD)
        for kind, suffix in (("JKS", "jks"), ("PKCS12", "p12")):
            trust = ("-importcert", "-alias", "ca", "-file", str(folder / "ca.pem"), "-storetype", kind)
            run(*keytool, *trust, "-keystore", str(folder / f"trust.{suffix}"))
        run(
            *(
                "keytool",
                "-noprompt",
                "-importkeystore",
                "-srcstoretype",
                "PKCS12",
                "-srcstorepass",
                PASSWORD,
            ),
            *("-srckeystore", str(folder / "own.p12"), "-destkeystore", str(folder / "own.jks")),
            *(
                "-deststoretype",
                "JKS",
                "-deststorepass",
                PASSWORD,
                "-srcalias",
                "own",
                "-destkeypass",
                SECRET,
            ),
        )

    def path(self, name: str) -> str:
        return str(self.folder / name)


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def certificate(
    subject: str, key: rsa.RSAPrivateKey, issuer: str, issuer_key: rsa.RSAPrivateKey, *, is_ca: bool
) -> x509.Certificate:
    def name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])

    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(
        name(issuer),
        name(subject),
        key.public_key(),
        x509.random_serial_number(),
        now,
        now + datetime.timedelta(1),
    )
    return builder.add_extension(x509.BasicConstraints(is_ca, None), critical=True).sign(
        issuer_key, hashes.SHA256()
    )


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    return Stores(tmp_path_factory.mktemp("stores"))


@pytest.mark.parametrize(
    ("name", "kind", "password"),
    [
        ("trust.jks", "JKS", PASSWORD),
        ("trust.jks", "PKCS12", PASSWORD),
        ("trust.jks", "JKS", ""),
        ("trust.p12", "PKCS12", PASSWORD),
        ("trust.p12", "JKS", PASSWORD),
        ("ca.pem", "pem", ""),
    ],
)
def test_trust_stores_of_every_format(stores: Stores, name: str, kind: str, password: str) -> None:
    parsed = settings(
        security__protocol="SSL",
        ssl__truststore__location=stores.path(name),
        ssl__truststore__type=kind,
        ssl__truststore__password=password,
    )
    assert parsed.admin["ssl.ca.pem"] == stores.ca_pem
    context = parsed.raw.ssl_context
    assert context is not None
    assert len(context.get_ca_certs()) == 1
    assert context.check_hostname
    assert context.verify_mode is ssl.VerifyMode.CERT_REQUIRED
    assert parsed.admin["ssl.endpoint.identification.algorithm"] == "https"
    accepted_by_both(parsed)


@pytest.mark.parametrize("protocols", ["TLSv1.2", "TLSv1.2,TLSv1.1,TLSv1", "TLSv1.3, TLSv1.2"])
def test_protocols_are_taken_where_the_one_that_is_negotiated_is_no_weaker(protocols: str) -> None:
    settings(security__protocol="SSL", ssl__enabled__protocols=protocols)


def test_what_stock_drops_of_a_cluster_is_dropped() -> None:
    assert errors({"source.cluster.max.poll.records": "x", "source.cluster.sasl.username": "u"}) == {}


KeyStore = Callable[[Stores], dict[str, str]]


@pytest.mark.parametrize(
    "given",
    [
        lambda s: {"location": s.path("own.p12"), "type": "PKCS12", "password": PASSWORD},
        lambda s: {"location": s.path("own.jks"), "type": "JKS", "password": PASSWORD},
        lambda s: {"location": s.path("own.pem"), "type": "PEM"},
        lambda s: {"key": s.encrypted_key_pem, "certificate.chain": s.chain_pem, "type": "PEM"},
    ],
    ids=["pkcs12", "jks", "pem file", "pem text"],
)
def test_key_stores_of_every_format(stores: Stores, given: KeyStore) -> None:
    props = {f"ssl__keystore__{name.replace('.', '__')}": value for name, value in given(stores).items()}
    before = set(Path("/tmp").glob("mirror-bridge-*"))
    parsed = settings(
        security__protocol="SSL",
        ssl__key__password=SECRET,
        ssl__endpoint__identification__algorithm="",
        **props,
    )
    assert parsed.admin["ssl.key.pem"] == stores.key_pem
    assert parsed.admin["ssl.certificate.pem"] == stores.chain_pem
    assert parsed.admin["ssl.endpoint.identification.algorithm"] == "none"
    assert parsed.raw.ssl_context is not None
    assert not parsed.raw.ssl_context.check_hostname
    assert "PRIVATE KEY" not in repr(parsed)
    assert set(Path("/tmp").glob("mirror-bridge-*")) == before
    accepted_by_both(parsed)


@pytest.mark.parametrize(
    ("given", "key", "why"),
    [
        ({"truststore.location": "/no/such.jks"}, "ssl.truststore.location", "No such file"),
        (
            {"truststore.location": "trust.jks", "truststore.password": SECRET},
            "ssl.truststore.password",
            "open",
        ),
        (
            {"truststore.location": "trust.p12", "truststore.password": SECRET},
            "ssl.truststore.password",
            "open",
        ),
        ({"truststore.location": "ca.pem"}, "ssl.truststore.location", "neither a PKCS12 nor a JKS"),
        (
            {"truststore.location": "trust.jks", "truststore.type": "PEM"},
            "ssl.truststore.location",
            "no X.509",
        ),
        ({"truststore.certificates": "x"}, "ssl.truststore.type", "must be PEM"),
        (
            {"truststore.certificates": "x", "truststore.type": "PEM"},
            "ssl.truststore.certificates",
            "no X.509",
        ),
        ({"keystore.location": "own.jks", "keystore.password": PASSWORD}, "ssl.key.password", "private key"),
        (
            {"keystore.location": "trust.jks", "keystore.password": PASSWORD},
            "ssl.keystore.location",
            "no private",
        ),
        ({"keystore.location": "own.pem", "keystore.type": "PEM"}, "ssl.key.password", "needs a password"),
        ({"keystore.key": "x", "keystore.type": "PEM"}, "ssl.keystore.certificate.chain", "come together"),
        ({"truststore.type": "BKS"}, "ssl.truststore.type", "JKS, PKCS12, PEM"),
        ({"endpoint.identification.algorithm": "LDAPS"}, "ssl.endpoint.identification.algorithm", "https"),
        ({"enabled.protocols": "TLSv1.3"}, "ssl.enabled.protocols", "must allow TLSv1.2"),
        ({"enabled.protocols": "TLSv1.2,TLSv9"}, "ssl.enabled.protocols", "TLSv9"),
        ({"cipher.suites": "TLS_AES_128_GCM_SHA256"}, "ssl.cipher.suites", "OpenSSL"),
        ({"engine.factory.class": "my.Engine"}, "ssl.engine.factory.class", "JVM"),
    ],
)
def test_stores_that_can_not_be_used_are_named(
    stores: Stores, given: dict[str, str], key: str, why: str
) -> None:
    props = {"source.cluster.security.protocol": "SSL"}
    for name, value in given.items():
        here = stores.folder / value
        props[f"source.cluster.ssl.{name}"] = (
            str(here) if name.endswith("location") and here.exists() else value
        )
    rejected = errors(props)
    assert list(rejected) == [f"source.cluster.{key}"]
    assert why in rejected[f"source.cluster.{key}"]


# -- what can't be honoured --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("source.cluster.bootstrap.servers", "nohost", "'nohost' is not of the form host:port"),
        ("source.cluster.bootstrap.servers", "a:99999", "host:port"),
        ("target.cluster.security.protocol", "TLS", "String must be one of (case insensitive): SASL_SSL"),
        ("admin.nonsense", "1", "not a property of Kafka's admin client"),
        ("target.admin.request.timeout.ms", "soon", "Not a number of type INT"),
        ("target.consumer.request.timeout.ms", "1", "must be from 10"),
        ("consumer.interceptor.classes", "my.Interceptor", "no JVM"),
        ("source.consumer.isolation.level", "serializable", "read_committed, read_uncommitted"),
        ("admin.client.dns.lookup", "resolve_canonical_bootstrap_servers_only", "use_all_dns_ips"),
        ("admin.bootstrap.controllers", "c:1", "bootstrap.servers"),
        ("source.cluster.sasl.client.callback.handler.class", "my.Handler", "no JVM"),
    ],
)
def test_what_can_not_be_honoured_is_named(key: str, value: str, why: str) -> None:
    rejected = errors({key: value})
    assert list(rejected) == [key]
    assert why in rejected[key]


@pytest.mark.parametrize(
    ("mechanism", "jaas", "key", "why"),
    [
        ("PLAIN", "", "sasl.jaas.config", "PlainLoginModule"),
        ("PLAIN", PLAIN[:-1], "sasl.jaas.config", "end with ;"),
        ("PLAIN", PLAIN + PLAIN, "sasl.jaas.config", "one login module"),
        ("PLAIN", SCRAM, "sasl.jaas.config", "does not fit"),
        ("PLAIN", f'a.PlainLoginModule required password="{SECRET}";', "sasl.jaas.config", "username"),
        (
            "PLAIN",
            f'a.PlainLoginModule maybe password="{SECRET}";',
            "sasl.jaas.config",
            "required, requisite",
        ),
        ("PLAIN", f'a.PlainLoginModule required password="{SECRET};', "sasl.jaas.config", "quote"),
        ("PLAIN", f'a.PlainLoginModule required password "{SECRET}";', "sasl.jaas.config", "name="),
        ("SCRAM-SHA-256", SCRAM[:-1] + ' tokenauth="true";', "sasl.jaas.config", "tokenauth"),
        ("CRAM-MD5", PLAIN, "sasl.mechanism", "SCRAM-SHA-512"),
        ("AWS_MSK_IAM", PLAIN, "sasl.jaas.config", "IAMLoginModule"),
        ("OAUTHBEARER", OAUTH + ";", "sasl.oauthbearer.token.endpoint.url", "token endpoint"),
    ],
)
def test_logins_that_can_not_be_used_are_named(mechanism: str, jaas: str, key: str, why: str) -> None:
    rejected = errors(
        {
            "target.cluster.security.protocol": "SASL_SSL",
            "target.cluster.sasl.mechanism": mechanism,
            "target.cluster.sasl.jaas.config": jaas,
        }
    )
    assert list(rejected) == [f"target.cluster.{key}"]
    assert why in rejected[f"target.cluster.{key}"]


def test_all_errors_of_both_sides_come_at_once() -> None:
    rejected = errors(
        {"source.cluster.bootstrap.servers": "x", "target.cluster.bootstrap.servers": "y", "admin.z": "1"}
    )
    assert set(rejected) == {
        "source.cluster.bootstrap.servers",
        "target.cluster.bootstrap.servers",
        "admin.z",
    }


def test_a_missing_server_list_is_rejected_in_kafkas_words() -> None:
    with pytest.raises(ConfigRejected, match="Missing required configuration"):
        client_settings(Side.SOURCE, {})


def test_names_that_the_look_ups_own_are_accepted() -> None:
    props = {f"consumer.{name}": "whatever" for name in property_names.OWNED}
    assert errors(props) == {}
    assert all(reason for reason in property_names.OWNED.values())


def test_keys_of_mirrormaker_and_of_the_worker_are_not_taken_for_client_properties() -> None:
    others = ("admin.timeout.ms", "consumer.poll.timeout.ms", "source.cluster.alias", "producer.acks")
    assert errors(dict.fromkeys((*others, "source.producer.acks", "consumer.override.x"), "1")) == {}


def test_equal_settings_share_a_fingerprint_and_others_do_not() -> None:
    plain = {"security__protocol": "SASL_PLAINTEXT", "sasl__mechanism": "PLAIN"}
    one, same = (settings(**plain, sasl__jaas__config=PLAIN) for _ in range(2))
    other = settings(**plain, sasl__jaas__config=PLAIN.replace(SECRET, "another"))
    assert one.fingerprint == same.fingerprint
    assert hash(one) == hash(same)
    assert one == same
    assert one.fingerprint != other.fingerprint
