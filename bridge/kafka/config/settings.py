"""The one mapping of Java client properties to librdkafka's and aiokafka's settings.

Read once into a Connection, which speaks both dialects. What can't be honoured is an error that names key,
value (unless secret) and what would be right.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bridge.errors import ConfigError, ConfigRejected
from bridge.kafka.config import property_names
from bridge.kafka.config.files import Files
from bridge.kafka.config.properties import ADMIN, ANYWHERE, CONSUMER, PRODUCER, ClientProps, KeyPrefixes
from bridge.kafka.config.property_names import KNOWN, NUMBERS
from bridge.kafka.config.sasl import Sasl, Setting, read_sasl
from bridge.kafka.config.tls import Tls, read_tls
from bridge.kafka.config.tokens import LibraryTokens
from bridge.model.copying import MOST_BYTES, most_bytes
from bridge.model.java_values import split_list
from bridge.model.key_rules import KeyRule, Use
from bridge.model.values import Side

RECONNECT: Mapping[str, Setting] = {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 1000}
"""Java's defaults: librdkafka's own grow to 10 s, for which a cluster that is back would not be noticed."""

_PROTOCOLS = ("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT")
_ISOLATIONS = ("read_committed", "read_uncommitted")
_CLIENT_ID = "mirror-bridge"
_ADDRESS = re.compile(
    r"(?:[A-Za-z_]+://)?(?P<host>\[[0-9a-fA-F:.%\w]+\]|[0-9a-zA-Z\-._]+):(?P<port>[0-9]{1,5})"
)
_FINGERPRINT_KEY = os.urandom(32)
"""Fingerprints compare within a process; keyed, so that one that gets into a log tells nothing."""


@dataclass(frozen=True, slots=True)
class RawSettings:
    """Arguments of `aiokafka.client.AIOKafkaClient`. `ssl_context` is made once and shared."""

    bootstrap_servers: tuple[str, ...]
    security_protocol: str
    client_id: str
    ssl_context: ssl.SSLContext | None = field(repr=False, compare=False)
    sasl: Sasl | None
    numbers: Mapping[str, int | None]
    rack: str = ""
    """client.rack of who reads there."""
    most_decompressed: int = MOST_BYTES
    """Bytes that a batch may have for who reads there."""

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments; makes a token provider of its own, so call it inside the running loop."""
        arguments: dict[str, Any] = {
            "bootstrap_servers": list(self.bootstrap_servers),
            "security_protocol": self.security_protocol,
            "client_id": self.client_id,
            "ssl_context": self.ssl_context,
            **self.numbers,
        }
        if self.sasl is not None:
            arguments["sasl_mechanism"] = self.sasl.mechanism
            if self.sasl.username is not None:
                arguments["sasl_plain_username"] = self.sasl.username
                arguments["sasl_plain_password"] = self.sasl.password
            if self.sasl.login is not None:
                from bridge.kafka.config.token_provider import provider  # loads the client

                arguments["sasl_oauth_token_provider"] = provider(self.sasl.login)
            if self.sasl.mechanism == "GSSAPI":  # read by bridge.kafka.network.library_client
                arguments["sasl_plain_username"] = self.sasl.kerberos.get("sasl.kerberos.principal")
                arguments["sasl_plain_password"] = self.sasl.kerberos.get("sasl.kerberos.keytab")
            arguments["sasl_kerberos_service_name"] = self.sasl.service_name
        return arguments


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Everything that clients of one side need; equal fingerprints may share clients."""

    admin: Mapping[str, Any] = field(repr=False)
    """librdkafka's configuration for an AdminClient: what the library's types allow, and perhaps a callback, which they
    leave out."""
    raw: RawSettings
    """For look-ups, with the consumer's properties."""
    raw_admin: RawSettings
    isolation: str
    """Of the consumer, as stock resolves it; `read_uncommitted` unless given."""
    api_timeout_ms: int | None
    """default.api.timeout.ms of the admin client, None when not given."""
    fingerprint: str

    def __hash__(self) -> int:
        return hash(self.fingerprint)


@dataclass(frozen=True, slots=True)
class Connection:
    """One role's properties as they were read, before they become settings of one library or another."""

    servers: tuple[str, ...]
    protocol: str
    client_id: str
    sasl: Sasl | None
    tls: Tls | None
    numbers: Mapping[str, int]
    rack: str = ""

    def librdkafka(self) -> dict[str, Setting]:
        settings: dict[str, Setting] = {
            "bootstrap.servers": ",".join(self.servers),
            "security.protocol": self.protocol,
            "client.id": self.client_id,
            **(self.sasl.librdkafka() if self.sasl else {}),
            **(self.tls.librdkafka() if self.tls else {}),
        }
        for name, value in self.numbers.items():
            theirs = NUMBERS[name].librdkafka
            if theirs is not None:
                # -1 is Java's "never" and "as the system likes"; librdkafka says 0 for both.
                settings[theirs] = max(value, 0)
        age = self.numbers.get("metadata.max.age.ms")
        if age is not None:
            settings["topic.metadata.refresh.interval.ms"] = min(age, 3_600_000)
        # librdkafka wants the greatest back-off to be the greater one; Java takes the lower as a fixed one.
        for least, most in (
            ("reconnect.backoff.ms", "reconnect.backoff.max.ms"),
            ("retry.backoff.ms", "retry.backoff.max.ms"),
        ):
            if least in self.numbers or most in self.numbers:
                high = self.numbers.get(most, 1000)
                settings[most] = high
                settings[least] = min(
                    self.numbers.get(least, 50 if least.startswith("reconnect") else 100), high
                )
        return settings

    def aiokafka(self) -> RawSettings:
        numbers: dict[str, int | None] = {}
        for name, value in self.numbers.items():
            theirs = NUMBERS[name].aiokafka
            if theirs is not None:
                numbers[theirs] = None if value < 0 else value
        context = self.tls.context() if self.tls else None
        return RawSettings(
            self.servers, self.protocol, self.client_id, context, self.sasl, numbers, self.rack
        )


def client_settings(side: Side, props: Mapping[str, str]) -> ClientSettings:
    """The settings of one side; raises ConfigRejected with all errors at once."""
    return settings_at(KeyPrefixes.for_side(side), props)


def settings_at(prefixes: KeyPrefixes, props: Mapping[str, str]) -> ClientSettings:
    """The settings of the cluster whose properties stand there; raises ConfigRejected with all errors at once."""
    settings, errors = _read(prefixes, props)
    key = f"{prefixes.connection}bootstrap.servers"
    if not errors and settings is None:
        errors = [_missing(key)]
    if settings is None or errors:
        raise ConfigRejected(errors)
    return settings


def producer_settings(side: Side, props: Mapping[str, str]) -> RawSettings:
    """The settings of whoever writes records to one side; raises ConfigRejected with all errors at once."""
    return producer_settings_at(KeyPrefixes.for_side(side), props)


def producer_settings_at(prefixes: KeyPrefixes, props: Mapping[str, str]) -> RawSettings:
    """The settings of whoever writes records to the cluster whose properties stand there; raises ConfigRejected with
    all errors at once."""
    settings, errors = _read_producer(prefixes, props)
    if settings is None or errors:
        raise ConfigRejected(errors)
    return settings


def library_settings(side: Side, role: str, props: Mapping[str, str]) -> dict[str, Setting]:
    """Returns librdkafka's settings of a client of that role to one side. Raises ConfigRejected with all errors at
    once."""
    client = ClientProps(KeyPrefixes.for_side(side), role, props)
    connection = _connection(client)
    if connection is None or client.errors:
        raise ConfigRejected(
            client.errors or [_missing(f"{KeyPrefixes.for_side(side).connection}bootstrap.servers")]
        )
    return connection.librdkafka()


class StaticClientCheck:
    """Checks both sides' client properties; reads the files that they name, and no more."""

    def __init__(self, files: Files = ANYWHERE) -> None:
        self._files = files

    def refused(self, props: Mapping[str, str]) -> Sequence[ConfigError]:
        return ()

    def check(self, props: Mapping[str, str]) -> Sequence[ConfigError]:
        """Missing bootstrap servers are no error here: the definition says that they are required."""
        errors = (
            error for side in Side for error in _read(KeyPrefixes.for_side(side), props, self._files)[1]
        )
        return list(dict.fromkeys(errors))

    def check_producer(self, side: Side, props: Mapping[str, str]) -> Sequence[ConfigError]:
        return _read_producer(KeyPrefixes.for_side(side), props, self._files)[1]

    def rule(self, use: Use, name: str) -> KeyRule | None:
        return property_names.rule(use, name)

    properties = KNOWN


def _read(
    prefixes: KeyPrefixes, props: Mapping[str, str], files: Files = ANYWHERE
) -> tuple[ClientSettings | None, list[ConfigError]]:
    admin = ClientProps(prefixes, ADMIN, props, files)
    consumer = ClientProps(prefixes, CONSUMER, props, files)
    for_admin, for_reads = _connection(admin), _connection(consumer)
    isolation = consumer.get("isolation.level") or "read_uncommitted"
    if isolation not in _ISOLATIONS:
        consumer.reject("isolation.level", f"String must be one of: {', '.join(_ISOLATIONS)}")
    errors = list(dict.fromkeys((*admin.errors, *consumer.errors)))
    if errors or for_admin is None or for_reads is None:
        return None, errors
    raw, raw_admin = _raw(consumer, for_reads), _raw(admin, for_admin)
    if raw is None or raw_admin is None:
        return None, list(dict.fromkeys((*admin.errors, *consumer.errors)))
    raw = replace(raw, most_decompressed=most_bytes(props))
    settings = for_admin.librdkafka()
    fingerprint = _fingerprint(settings, for_reads.librdkafka(), isolation, raw.most_decompressed)
    api_timeout_ms = admin.number("default.api.timeout.ms")
    return ClientSettings(settings, raw, raw_admin, isolation, api_timeout_ms, fingerprint), []


def _raw(props: ClientProps, connection: Connection) -> RawSettings | None:
    """Returns settings of the client's own protocol; None when key and certificates don't fit, which is then an error
    in `props`."""
    try:
        return connection.aiokafka()
    except ssl.SSLError as error:
        name = "ssl.keystore.key" if props.has("ssl.keystore.key") else "ssl.keystore.location"
        props.reject(name, f"key and certificates can't be used together: {error.reason or error}")
        return None


def _read_producer(
    prefixes: KeyPrefixes, props: Mapping[str, str], files: Files = ANYWHERE
) -> tuple[RawSettings | None, list[ConfigError]]:
    producer = ClientProps(prefixes, PRODUCER, props, files)
    connection = _connection(producer)
    raw = None if connection is None else _raw(producer, connection)
    if raw is None and not producer.errors:
        key = f"{prefixes.connection}bootstrap.servers"
        producer.errors.append(_missing(key))
    return raw, producer.errors


def _missing(key: str) -> ConfigError:
    return ConfigError(key, f'Missing required configuration "{key}" which has no default value.')


def _connection(props: ClientProps) -> Connection | None:
    protocol = (props.get("security.protocol") or "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        props.reject(
            "security.protocol", f"String must be one of (case insensitive): {', '.join(_PROTOCOLS)}"
        )
    servers = _servers(props)
    sasl = read_sasl(props) if protocol.startswith("SASL") else None
    tls = read_tls(props) if protocol.endswith("SSL") else None
    numbers = {name: value for name in NUMBERS if (value := props.number(name)) is not None}
    if props.errors or not servers:
        return None
    client_id = props.get("client.id") or _CLIENT_ID
    return Connection(servers, protocol, client_id, sasl, tls, numbers, props.get("client.rack"))


def _servers(props: ClientProps) -> tuple[str, ...]:
    servers = []
    for server in split_list(props.get("bootstrap.servers")):
        match = _ADDRESS.fullmatch(server)
        if match is None or not 0 < int(match["port"]) < 65536:
            props.reject("bootstrap.servers", f"'{server}' is not of the form host:port")
            return ()
        servers.append(f"{match['host']}:{match['port']}")
    return tuple(servers)


def _fingerprint(*parts: object) -> str:
    text = json.dumps(parts, sort_keys=True, default=_identity)
    return hmac.new(_FINGERPRINT_KEY, text.encode(), hashlib.sha256).hexdigest()


def _identity(part: object) -> object:
    return part.source.identity() if isinstance(part, LibraryTokens) else str(part)
