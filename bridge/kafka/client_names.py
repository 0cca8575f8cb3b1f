"""Java's client property names, and what becomes of each: mapped, owned by the look-ups, or refused by name.

A name that is in none of the tables is no Kafka client property, and is refused too: nothing is dropped in
silence.
"""

from __future__ import annotations

from typing import NamedTuple

INT, LONG = (1 << 31) - 1, (1 << 63) - 1


class Number(NamedTuple):
    """A number with its names in librdkafka and aiokafka (None: it has none there, `why` says why).

    `low` and `high` are what both take; Java's own limits are wider for some.
    """

    librdkafka: str | None
    aiokafka: str | None
    low: int = 0
    high: int = INT
    kind: str = "INT"
    why: str = ""


class Refused(NamedTuple):
    """A property without a counterpart; `harmless` values say what happens anyway and are accepted."""

    why: str
    harmless: tuple[str, ...] = ()


_OS = "aiokafka leaves the size to the operating system"
_NO_BACKOFF = "aiokafka waits retry.backoff.ms"
_RETRIES = "aiokafka retries at retry.backoff.ms"

NUMBERS: dict[str, Number] = {
    "request.timeout.ms": Number("socket.timeout.ms", "request_timeout_ms", 10, 300_000),
    "retry.backoff.ms": Number("retry.backoff.ms", "retry_backoff_ms", 1, 300_000, "LONG"),
    "retry.backoff.max.ms": Number("retry.backoff.max.ms", None, 1, 300_000, "LONG", _RETRIES),
    "reconnect.backoff.ms": Number("reconnect.backoff.ms", None, 0, 3_600_000, "LONG", _NO_BACKOFF),
    "reconnect.backoff.max.ms": Number("reconnect.backoff.max.ms", None, 0, 3_600_000, "LONG", _NO_BACKOFF),
    "connections.max.idle.ms": Number(
        "connections.max.idle.ms",
        "connections_max_idle_ms",
        -1,
        INT,
        "LONG",
        "-1, never, is 0 and None there",
    ),
    "metadata.max.age.ms": Number("metadata.max.age.ms", "metadata_max_age_ms", 1, 86_400_000, "LONG"),
    "send.buffer.bytes": Number("socket.send.buffer.bytes", None, -1, 100_000_000, why=_OS),
    "receive.buffer.bytes": Number("socket.receive.buffer.bytes", None, -1, 100_000_000, why=_OS),
    "socket.connection.setup.timeout.ms": Number(
        "socket.connection.setup.timeout.ms", None, 1000, INT, "LONG", "aiokafka takes request.timeout.ms"
    ),
    "metadata.recovery.rebootstrap.trigger.ms": Number(
        "metadata.recovery.rebootstrap.trigger.ms",
        None,
        0,
        INT,
        "LONG",
        "aiokafka always keeps its bootstrap servers",
    ),
    "default.api.timeout.ms": Number(None, None, 1, why="handed to every call as its budget"),
}

_READER = "the look-ups fetch single batches and choose their own sizes and waits"
_GROUP = "the look-ups join no group and commit nothing for themselves"
_BYTES = "records are compared as bytes"
_WRITER = "the pipeline passes batches as they are, and bounds what is under way itself"
_TRANSACTIONS = "the pipeline's transactions are its own"
_CODEC = "batches keep the codec that they have"
_PLACES = "records keep their partition"
_METRICS = "the service has metrics of its own"
_BROKER = "read by brokers only"
_LOGIN = "the token is renewed by the clients' own schedule"
_TICKET = "tickets are renewed by librdkafka's own schedule"

OWNED: dict[str, str] = {
    "group.id": _GROUP,
    "group.instance.id": _GROUP,
    "group.protocol": _GROUP,
    "group.remote.assignor": _GROUP,
    "partition.assignment.strategy": _GROUP,
    "session.timeout.ms": _GROUP,
    "heartbeat.interval.ms": _GROUP,
    "max.poll.interval.ms": _GROUP,
    "enable.auto.commit": _GROUP,
    "auto.commit.interval.ms": _GROUP,
    "auto.offset.reset": "the look-ups read at offsets that they name; a missing one is an answer",
    "key.deserializer": _BYTES,
    "value.deserializer": _BYTES,
    "fetch.min.bytes": _READER,
    "fetch.max.bytes": _READER,
    "fetch.max.wait.ms": _READER,
    "max.partition.fetch.bytes": _READER,
    "max.poll.records": _READER,
    "share.acknowledgement.mode": _GROUP,
    "share.acquire.mode": _GROUP,
    "check.crcs": "checksums are always checked",
    "client.rack": "the look-ups read from leaders",
    "allow.auto.create.topics": "the look-ups never create topics",
    "exclude.internal.topics": "the look-ups name their topics",
    "acks": "the pipeline always waits for all in-sync replicas",
    "batch.size": "read by the source connector: small batches are put together up to it",
    "linger.ms": _WRITER,
    "buffer.memory": _WRITER,
    "max.block.ms": _WRITER,
    "max.request.size": _WRITER,
    "max.in.flight.requests.per.connection": _WRITER,
    "delivery.timeout.ms": "a batch has as long as its transaction",
    "metadata.max.idle.ms": "leaders are asked for when they are needed",
    "enable.idempotence": _TRANSACTIONS,
    "transactional.id": _TRANSACTIONS,
    "transaction.timeout.ms": _TRANSACTIONS,
    "transaction.two.phase.commit.enable": _TRANSACTIONS,
    "compression.type": _CODEC,
    "compression.gzip.level": _CODEC,
    "compression.lz4.level": _CODEC,
    "compression.zstd.level": _CODEC,
    "partitioner.class": _PLACES,
    "partitioner.ignore.keys": _PLACES,
    "partitioner.adaptive.partitioning.enable": _PLACES,
    "partitioner.availability.timeout.ms": _PLACES,
    "key.serializer": _BYTES,
    "value.serializer": _BYTES,
    "retries": "calls are tried again until their time is up",
    "metric.reporters": _METRICS,
    "auto.include.jmx.reporter": _METRICS,
    "metrics.num.samples": _METRICS,
    "metrics.recording.level": _METRICS,
    "metrics.sample.window.ms": _METRICS,
    "enable.metrics.push": _METRICS,
    "config.providers": "the worker resolves them before the configuration gets here",
    "socket.connection.setup.timeout.max.ms": "librdkafka has one limit, socket.connection.setup.timeout.ms",
    "ssl.keymanager.algorithm": "chooses between JVM classes of the same result",
    "ssl.trustmanager.algorithm": "chooses between JVM classes of the same result",
    "sasl.kerberos.kinit.cmd": "librdkafka runs kinit by a command of its own",
    "sasl.kerberos.ticket.renew.window.factor": _TICKET,
    "sasl.kerberos.ticket.renew.jitter": _TICKET,
    "sasl.kerberos.min.time.before.relogin": _TICKET,
    "sasl.login.refresh.window.factor": _LOGIN,
    "sasl.login.refresh.window.jitter": _LOGIN,
    "sasl.login.refresh.min.period.seconds": _LOGIN,
    "sasl.login.refresh.buffer.seconds": _LOGIN,
    "sasl.login.connect.timeout.ms": _LOGIN,
    "sasl.login.read.timeout.ms": _LOGIN,
    "sasl.login.retry.backoff.ms": _LOGIN,
    "sasl.login.retry.backoff.max.ms": _LOGIN,
    "sasl.oauthbearer.scope.claim.name": _BROKER,
    "sasl.oauthbearer.sub.claim.name": _BROKER,
    "sasl.oauthbearer.jwks.endpoint.url": _BROKER,
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": _BROKER,
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": _BROKER,
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": _BROKER,
    "sasl.oauthbearer.clock.skew.seconds": _BROKER,
    "sasl.oauthbearer.expected.audience": _BROKER,
    "sasl.oauthbearer.expected.issuer": _BROKER,
}
"""Accepted and not used, each for a reason that makes it harmless."""

_JVM = "the service has no JVM to load it; remove it"
_JWT = "org.apache.kafka.common.security.oauthbearer."
_ASSERTION = "signed assertions are not supported; use client credentials (client id and secret)"
LOGIN_CALLBACKS = (
    _JWT + "OAuthBearerLoginCallbackHandler",
    _JWT + "secured.OAuthBearerLoginCallbackHandler",
)

REFUSED: dict[str, Refused] = {
    "interceptor.classes": Refused(_JVM),
    "security.providers": Refused(_JVM),
    "ssl.provider": Refused(_JVM),
    "ssl.secure.random.implementation": Refused(_JVM),
    "ssl.engine.factory.class": Refused(
        _JVM, ("org.apache.kafka.common.security.ssl.DefaultSslEngineFactory",)
    ),
    "ssl.cipher.suites": Refused(
        "OpenSSL has other names for cipher suites; remove it, the defaults are sound"
    ),
    "ssl.protocol": Refused("must be TLS, TLSv1.2 or TLSv1.3", ("TLS", "TLSv1.2", "TLSv1.3")),
    "sasl.client.callback.handler.class": Refused(_JVM),
    "sasl.login.callback.handler.class": Refused(_JVM, LOGIN_CALLBACKS),
    "sasl.login.class": Refused(_JVM),
    "sasl.oauthbearer.jwt.retriever.class": Refused(_JVM, (_JWT + "DefaultJwtRetriever",)),
    "sasl.oauthbearer.jwt.validator.class": Refused(_JVM, (_JWT + "DefaultJwtValidator",)),
    "sasl.oauthbearer.header.urlencode": Refused("only false is supported", ("false", "FALSE", "False")),
    **{
        f"sasl.oauthbearer.assertion.{name}": Refused(_ASSERTION)
        for name in (
            *(
                "algorithm",
                "claim.aud",
                "claim.exp.seconds",
                "claim.iss",
                "claim.jti.include",
                "claim.nbf.seconds",
            ),
            *("claim.sub", "file", "private.key.file", "private.key.passphrase", "template.file"),
        )
    },
    "client.dns.lookup": Refused("only use_all_dns_ips is supported", ("use_all_dns_ips",)),
    "metadata.recovery.strategy": Refused("only rebootstrap is supported", ("rebootstrap",)),
    "bootstrap.controllers": Refused("groups and records are kept by brokers; use bootstrap.servers"),
    "internal.throw.on.fetch.stable.offset.unsupported": Refused("internal to Java's client", ("false",)),
}

SECURITY = frozenset(
    {
        *(
            "bootstrap.servers",
            "security.protocol",
            "sasl.mechanism",
            "sasl.jaas.config",
            "ssl.enabled.protocols",
        ),
        *(
            "ssl.truststore.location",
            "ssl.truststore.password",
            "ssl.truststore.type",
            "ssl.truststore.certificates",
        ),
        *("ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.type", "ssl.keystore.key"),
        *("ssl.keystore.certificate.chain", "ssl.key.password", "ssl.endpoint.identification.algorithm"),
        *("sasl.kerberos.service.name", "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.scope"),
        *(
            "sasl.oauthbearer.client.credentials.client.id",
            "sasl.oauthbearer.client.credentials.client.secret",
        ),
    }
)
"""Mapped one by one, in bridge.kafka.client_config, sasl and stores."""

KNOWN = SECURITY | NUMBERS.keys() | OWNED.keys() | REFUSED.keys() | {"client.id", "isolation.level"}

SECRET = frozenset(
    {
        *(
            "sasl.jaas.config",
            "ssl.truststore.password",
            "ssl.truststore.certificates",
            "ssl.keystore.password",
        ),
        *("ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.key.password"),
        *(
            "sasl.oauthbearer.client.credentials.client.secret",
            "sasl.oauthbearer.assertion.private.key.passphrase",
        ),
    }
)


def is_cluster_name(name: str) -> bool:
    """Whether stock keeps the name under `X.cluster.` (MirrorClientConfig.CLIENT_CONFIG_DEF)."""
    return name in KNOWN and (
        name in ("bootstrap.servers", "security.protocol") or name.startswith(("ssl.", "sasl."))
    )
