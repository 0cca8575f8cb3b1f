"""Java's client property names, and what becomes of each: mapped, ignored without harm, or refused by name.

A name that is in none of the tables is no Kafka client property, and is refused too: nothing is dropped in silence.
What a property does depends on what its client is for.

Which of Java's clients know a property: the admin client, consumers, producers.

Says what becomes of a client property, by what the client is for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from bridge.model.key_rules import KeyRule, Use, honoured, ignored, refused

INT, LONG = (1 << 31) - 1, (1 << 63) - 1
_OS = "the client for records leaves the size to the operating system"
_NO_BACKOFF = "the client for records waits retry.backoff.ms"
_READER = "fetches choose their own sizes and waits"
_GROUP = "the readers join no group and commit nothing for themselves"
_BYTES = "records are copied and compared as bytes"
_WRITER = "the pipeline passes batches as they are, and bounds what is under way itself"
_TRANSACTIONS = "the pipeline's transactions are its own"
_PLACES = "records keep their partition"
_METRICS = "the service has metrics of its own, at /metrics"
_BROKER = "read by brokers only"
_LOGIN = "the token is renewed by the clients' own schedule"
_TICKET = "tickets are renewed by librdkafka's own schedule"
_JVM_CLASSES = "chooses between JVM classes of the same result"
_SERIALIZER = "org.apache.kafka.common.serialization.ByteArray"
OWNED: dict[str, KeyRule] = {
    "group.id": ignored(_GROUP),
    "group.instance.id": ignored(_GROUP),
    "group.protocol": ignored(_GROUP),
    "group.remote.assignor": ignored(_GROUP),
    "partition.assignment.strategy": ignored(_GROUP),
    "session.timeout.ms": ignored(_GROUP),
    "heartbeat.interval.ms": ignored(_GROUP),
    "max.poll.interval.ms": ignored(_GROUP),
    "enable.auto.commit": ignored(_GROUP, "false"),
    "auto.commit.interval.ms": ignored(_GROUP),
    "auto.offset.reset": ignored("its reads name their offsets; a missing one is an answer"),
    "fetch.min.bytes": ignored(_READER, "1"),
    "fetch.max.bytes": ignored(_READER),
    "fetch.max.wait.ms": ignored(_READER),
    "max.partition.fetch.bytes": ignored(_READER),
    "max.poll.records": ignored(_READER),
    "share.acknowledgement.mode": ignored(_GROUP),
    "share.acquire.mode": ignored(_GROUP),
    "check.crcs": ignored("checksums are always checked", "true"),
    "client.rack": ignored("it reads from leaders"),
    "allow.auto.create.topics": ignored("reads never create topics", "false"),
    "exclude.internal.topics": ignored("it names its topics"),
    "acks": ignored("the pipeline always waits for all in-sync replicas", "all", "-1"),
    "batch.size": ignored("offset syncs are few and small"),
    "linger.ms": ignored("transaction.interval.ms says how often copies are committed", "0"),
    "buffer.memory": ignored(_WRITER),
    "max.block.ms": ignored(_WRITER),
    "max.request.size": ignored("how large a record may be is the topic's max.message.bytes alone"),
    "max.in.flight.requests.per.connection": ignored(_WRITER, "5"),
    "delivery.timeout.ms": ignored("a batch has as long as its transaction"),
    "metadata.max.idle.ms": ignored("leaders are asked for when they are needed"),
    "enable.idempotence": ignored(_TRANSACTIONS, "true"),
    "transactional.id": ignored(_TRANSACTIONS),
    "transaction.timeout.ms": ignored(_TRANSACTIONS),
    "transaction.two.phase.commit.enable": ignored(_TRANSACTIONS, "false"),
    "compression.type": ignored("offset syncs are few and small"),
    "compression.gzip.level": ignored("offset syncs are few and small"),
    "compression.lz4.level": ignored("offset syncs are few and small"),
    "compression.zstd.level": ignored("offset syncs are few and small"),
    "partitioner.class": ignored(_PLACES),
    "partitioner.ignore.keys": ignored(_PLACES),
    "partitioner.adaptive.partitioning.enable": ignored(_PLACES),
    "partitioner.availability.timeout.ms": ignored(_PLACES),
    "retries": ignored("what fails is tried again until its time is up"),
    "metric.reporters": ignored(_METRICS, "org.apache.kafka.common.metrics.JmxReporter"),
    "auto.include.jmx.reporter": ignored(_METRICS),
    "metrics.num.samples": ignored(_METRICS),
    "metrics.recording.level": ignored(_METRICS),
    "metrics.sample.window.ms": ignored(_METRICS),
    "enable.metrics.push": ignored(_METRICS, "false"),
    "socket.connection.setup.timeout.max.ms": ignored(
        "the clients have one limit, socket.connection.setup.timeout.ms"
    ),
    "ssl.keymanager.algorithm": ignored(_JVM_CLASSES),
    "ssl.trustmanager.algorithm": ignored(_JVM_CLASSES),
    "sasl.kerberos.ticket.renew.window.factor": ignored(_TICKET),
    "sasl.kerberos.ticket.renew.jitter": ignored(_TICKET),
    "sasl.kerberos.min.time.before.relogin": ignored(_TICKET),
    "sasl.login.refresh.window.factor": ignored(_LOGIN),
    "sasl.login.refresh.window.jitter": ignored(_LOGIN),
    "sasl.login.refresh.min.period.seconds": ignored(_LOGIN),
    "sasl.login.refresh.buffer.seconds": ignored(_LOGIN),
    "sasl.login.connect.timeout.ms": ignored(_LOGIN),
    "sasl.login.read.timeout.ms": ignored(_LOGIN),
    "sasl.login.retry.backoff.ms": ignored(_LOGIN),
    "sasl.login.retry.backoff.max.ms": ignored(_LOGIN),
    "sasl.oauthbearer.scope.claim.name": ignored(_BROKER),
    "sasl.oauthbearer.sub.claim.name": ignored(_BROKER),
    "sasl.oauthbearer.jwks.endpoint.url": ignored(_BROKER),
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": ignored(_BROKER),
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": ignored(_BROKER),
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": ignored(_BROKER),
    "sasl.oauthbearer.clock.skew.seconds": ignored(_BROKER),
    "sasl.oauthbearer.expected.audience": ignored(_BROKER),
    "sasl.oauthbearer.expected.issuer": ignored(_BROKER),
}
"""Accepted and not used, each for a reason that makes it harmless; bridge.kafka.config.property_names has the
exceptions."""
_JVM = "the service has no JVM to load it; remove it"
_JWT = "org.apache.kafka.common.security.oauthbearer."
_ASSERTION = (
    "signed assertions are not supported; remove it, and use client credentials (client id and secret)"
)
MSK_IAM = "software.amazon.msk.auth.iam."
LOGIN_CALLBACKS = (
    _JWT + "OAuthBearerLoginCallbackHandler",
    _JWT + "secured.OAuthBearerLoginCallbackHandler",
    MSK_IAM + "IAMOAuthBearerLoginCallbackHandler",
)
REFUSED: dict[str, KeyRule] = {
    **dict.fromkeys(
        ("key.deserializer", "value.deserializer"),
        refused(f"{_BYTES}; remove it", f"{_SERIALIZER}Deserializer"),
    ),
    **dict.fromkeys(
        ("key.serializer", "value.serializer"), refused(f"{_BYTES}; remove it", f"{_SERIALIZER}Serializer")
    ),
    "interceptor.classes": refused(_JVM),
    "security.providers": refused(_JVM),
    "config.providers": refused(
        "the service's clients resolve no references; name the providers in the worker's own config.providers, which "
        "resolves them before the configuration gets here"
    ),
    "ssl.provider": refused(_JVM),
    "ssl.secure.random.implementation": refused(_JVM),
    "ssl.engine.factory.class": refused(_JVM, "org.apache.kafka.common.security.ssl.DefaultSslEngineFactory"),
    "ssl.cipher.suites": refused(
        "OpenSSL has other names for cipher suites; remove it, the defaults are sound"
    ),
    "ssl.protocol": refused("must be TLS, TLSv1.2 or TLSv1.3", "TLS", "TLSv1.2", "TLSv1.3"),
    "sasl.client.callback.handler.class": refused(_JVM, MSK_IAM + "IAMClientCallbackHandler"),
    "sasl.login.callback.handler.class": replace(
        refused(
            "the service has no JVM to load it; remove it, or give a function of your own as python:module.function",
            *LOGIN_CALLBACKS,
        ),
        beginnings=("python:",),
    ),
    "sasl.login.class": refused(_JVM),
    "sasl.kerberos.kinit.cmd": refused(
        "no configuration names a command that the service runs; remove it, kinit is found on the service's PATH",
        "/usr/bin/kinit",
    ),
    "sasl.oauthbearer.jwt.retriever.class": refused(
        "the service has no JVM to load it, and makes no signed assertions; remove it, and for tokens of your own give "
        "sasl.login.callback.handler.class=python:module.function",
        *(f"{_JWT}{name}JwtRetriever" for name in ("Default", "ClientCredentials", "File")),
    ),
    "sasl.oauthbearer.jwt.validator.class": refused(
        _JVM, _JWT + "DefaultJwtValidator", _JWT + "ClientJwtValidator"
    ),
    "sasl.oauthbearer.header.urlencode": refused("only false is supported", "false"),
    **{
        f"sasl.oauthbearer.assertion.{name}": refused(_ASSERTION)
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
    "client.dns.lookup": refused("only use_all_dns_ips is supported", "use_all_dns_ips"),
    "metadata.recovery.strategy": refused("only rebootstrap is supported", "rebootstrap"),
    "bootstrap.controllers": refused(
        "groups and records are kept by brokers; remove it, and use bootstrap.servers"
    ),
    "internal.throw.on.fetch.stable.offset.unsupported": refused("internal to Java's client", "false"),
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
"""Mapped one by one, in bridge.kafka.config.settings, sasl and stores."""
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
_CONSUMERS = frozenset(
    {
        *("group.id", "group.instance.id", "group.protocol", "group.remote.assignor", "session.timeout.ms"),
        *(
            "partition.assignment.strategy",
            "heartbeat.interval.ms",
            "max.poll.interval.ms",
            "max.poll.records",
        ),
        *("enable.auto.commit", "auto.commit.interval.ms", "auto.offset.reset", "isolation.level"),
        *("fetch.min.bytes", "fetch.max.bytes", "fetch.max.wait.ms", "max.partition.fetch.bytes"),
        *("key.deserializer", "value.deserializer", "share.acknowledgement.mode", "share.acquire.mode"),
        *("check.crcs", "client.rack", "allow.auto.create.topics", "exclude.internal.topics"),
        "internal.throw.on.fetch.stable.offset.unsupported",
    }
)
_PRODUCERS = frozenset(
    {
        *("acks", "batch.size", "linger.ms", "buffer.memory", "max.block.ms", "max.request.size"),
        *("max.in.flight.requests.per.connection", "delivery.timeout.ms", "metadata.max.idle.ms"),
        *("enable.idempotence", "transactional.id", "transaction.timeout.ms"),
        *("transaction.two.phase.commit.enable", "key.serializer", "value.serializer"),
        *("compression.type", "compression.gzip.level", "compression.lz4.level", "compression.zstd.level"),
        *("partitioner.class", "partitioner.ignore.keys", "partitioner.availability.timeout.ms"),
        "partitioner.adaptive.partitioning.enable",
    }
)
_NOT_OF = {
    "admin": _CONSUMERS | _PRODUCERS | {"interceptor.classes"},
    "consumer": _PRODUCERS | {"bootstrap.controllers", "retries"},
    "producer": _CONSUMERS | {"bootstrap.controllers", "default.api.timeout.ms"},
}
ROLES = {
    Use.ADMIN: "admin",
    Use.COPY: "consumer",
    Use.COMPARE: "consumer",
    Use.FOLLOW: "consumer",
    Use.WRITE: "producer",
    Use.SYNC: "producer",
}
_AS_JAVA = honoured("as in Java's clients")
_LEVEL = honoured("the level of what is compressed anew, where compression.type names this codec")
_ONLY_THERE: dict[tuple[Use, str], KeyRule] = {
    (Use.COPY, "auto.offset.reset"): honoured("earliest or latest, for a partition that has no position yet"),
    (Use.COPY, "client.rack"): honoured(
        "records are fetched from the replica that the source's replica.selector.class chooses for this rack (KIP-392)"
    ),
    (Use.COPY, "isolation.level"): honoured("read_committed, other than in stock, unless given"),
    (Use.COMPARE, "isolation.level"): honoured("says what the mirror copies"),
    (Use.WRITE, "batch.size"): honoured("small batches of a backlog are put together, by multiples of it"),
    (Use.WRITE, "compression.type"): honoured(
        "every batch arrives with this codec: one that has another is compressed anew; without it batches keep theirs"
    ),
    (Use.WRITE, "compression.gzip.level"): _LEVEL,
    (Use.WRITE, "compression.lz4.level"): _LEVEL,
    (Use.WRITE, "compression.zstd.level"): _LEVEL,
}
_VERSIONS = ignored(
    "the higher one of TLSv1.2 and TLSv1.3 is negotiated that both sides have",
    *("TLSv1.2,TLSv1.3", "TLSv1.2, TLSv1.3", "TLSv1.3,TLSv1.2", "TLSv1.3, TLSv1.2"),
)
_ISOLATION = ignored("the target is read as readers of committed data see it", "read_committed")


class Number(NamedTuple):
    """A number with its names in librdkafka, the client for groups and topics, and aiokafka, the one for records (None:
    it has none there; `why` says what happens with records instead).

    `low` and `high` are what both take; Java's own limits are wider for some.
    """

    librdkafka: str | None
    aiokafka: str | None
    low: int = 0
    high: int = INT
    kind: str = "INT"
    why: str = ""


NUMBERS: dict[str, Number] = {
    "request.timeout.ms": Number("socket.timeout.ms", "request_timeout_ms", 10, 300_000),
    "retry.backoff.ms": Number("retry.backoff.ms", "retry_backoff_ms", 1, 300_000, "LONG"),
    "retry.backoff.max.ms": Number("retry.backoff.max.ms", None, 1, 300_000, "LONG", _NO_BACKOFF),
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
        "socket.connection.setup.timeout.ms",
        None,
        1000,
        INT,
        "LONG",
        "the client for records takes request.timeout.ms",
    ),
    "metadata.recovery.rebootstrap.trigger.ms": Number(
        "metadata.recovery.rebootstrap.trigger.ms",
        None,
        0,
        INT,
        "LONG",
        "the client for records asks its bootstrap servers as soon as no known broker answers",
    ),
    "default.api.timeout.ms": Number(
        None, None, 1, why="a call that fails is tried again as long as its caller waits"
    ),
}


KNOWN = SECURITY | NUMBERS.keys() | OWNED.keys() | REFUSED.keys() | {"client.id", "isolation.level"}


def is_cluster_name(name: str) -> bool:
    """Whether stock keeps the name under `X.cluster.` (MirrorClientConfig.CLIENT_CONFIG_DEF)."""
    return name in KNOWN and (
        name in ("bootstrap.servers", "security.protocol") or name.startswith(("ssl.", "sasl."))
    )


def is_of(role: str, name: str) -> bool:
    """Whether Java's admin, consumer or producer client knows the name."""
    return name in KNOWN and name not in _NOT_OF[role]


def rule(use: Use, name: str) -> KeyRule | None:
    """Returns what a client for this use makes of the property; None for a name that no Kafka client has."""
    if name not in KNOWN:
        return None
    role = ROLES[use]
    if not is_of(role, name):
        return ignored(f"Kafka's {role} client has no such property")
    if (use, name) in _ONLY_THERE:
        return _ONLY_THERE[use, name]
    if name in NUMBERS:
        number = NUMBERS[name]
        mapped = number.aiokafka or (
            use is Use.ADMIN and (number.librdkafka or name == "default.api.timeout.ms")
        )
        return _AS_JAVA if mapped else ignored(number.why)
    if name == "ssl.enabled.protocols":
        return _VERSIONS
    if name in SECURITY or name == "client.id":
        return _AS_JAVA
    if name == "isolation.level":
        return _ISOLATION
    return REFUSED.get(name) or OWNED[name]


def rows() -> Iterator[tuple[str, KeyRule, list[Use]]]:
    """Each property with each rule that it has, and the uses where it has that; uses whose clients have no such
    property are left out."""
    for name in sorted(KNOWN):
        by_rule: dict[KeyRule, list[Use]] = {}
        for use, role in ROLES.items():
            of_use = rule(use, name) if is_of(role, name) else None
            if of_use is not None:
                by_rule.setdefault(of_use, []).append(use)
        yield from ((name, key_rule, uses) for key_rule, uses in by_rule.items())
