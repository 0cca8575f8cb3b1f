"""Kafka's client properties without a prefix: `ssl.*` and `sasl.*` as stock's connectors define them (stock §1.1).

They have no effect, there as here: clients are made from the prefixed ones. They are defined so that a configuration
which has them gets the same answers, and so that their secrets are known as such.

Which configuration keys are named like secrets: their values stay out of error texts and log lines.

Judged by the name alone, because client properties, Spark's keys and the parameters of users' own code have no
definition that would give them the type PASSWORD. The shim has the list from its definitions (connectors.export), and
sends no configuration with such a key by plain HTTP to another machine.
"""

from __future__ import annotations

import re

from bridge.model.key_rules import ignored
from connectors.config.configdef import Importance, In, Json, Key, ListOf, Range, Type, Validator

UNPREFIXED = "Client properties without a prefix"

_Row = tuple[str, Type, str | None, Importance, Validator | None]

_STRING, _LIST, _SECRET, _BOOLEAN = Type.STRING, Type.LIST, Type.PASSWORD, Type.BOOLEAN
_SHORT, _INT, _LONG, _DOUBLE = Type.SHORT, Type.INT, Type.LONG, Type.DOUBLE
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_JWT = "org.apache.kafka.common.security.oauthbearer.DefaultJwt"

_SSL: tuple[_Row, ...] = (
    ("ssl.protocol", _STRING, "TLSv1.3", _MEDIUM, None),
    ("ssl.provider", _STRING, None, _MEDIUM, None),
    ("ssl.cipher.suites", _LIST, "", _LOW, ListOf()),
    ("ssl.enabled.protocols", _LIST, "TLSv1.2,TLSv1.3", _MEDIUM, ListOf()),
    ("ssl.keystore.type", _STRING, "JKS", _MEDIUM, None),
    ("ssl.keystore.location", _STRING, None, _HIGH, None),
    ("ssl.keystore.password", _SECRET, None, _HIGH, None),
    ("ssl.key.password", _SECRET, None, _HIGH, None),
    ("ssl.keystore.key", _SECRET, None, _HIGH, None),
    ("ssl.keystore.certificate.chain", _SECRET, None, _HIGH, None),
    ("ssl.truststore.certificates", _SECRET, None, _HIGH, None),
    ("ssl.truststore.type", _STRING, "JKS", _MEDIUM, None),
    ("ssl.truststore.location", _STRING, None, _HIGH, None),
    ("ssl.truststore.password", _SECRET, None, _HIGH, None),
    ("ssl.keymanager.algorithm", _STRING, "SunX509", _LOW, None),
    ("ssl.trustmanager.algorithm", _STRING, "PKIX", _LOW, None),
    ("ssl.endpoint.identification.algorithm", _STRING, "https", _LOW, None),
    ("ssl.secure.random.implementation", _STRING, None, _LOW, None),
    ("ssl.engine.factory.class", _STRING, None, _LOW, None),
)
_SASL: tuple[_Row, ...] = (
    ("sasl.kerberos.service.name", _STRING, None, _MEDIUM, None),
    ("sasl.kerberos.kinit.cmd", _STRING, "/usr/bin/kinit", _LOW, None),
    ("sasl.kerberos.ticket.renew.window.factor", _DOUBLE, "0.8", _LOW, None),
    ("sasl.kerberos.ticket.renew.jitter", _DOUBLE, "0.05", _LOW, None),
    ("sasl.kerberos.min.time.before.relogin", _LONG, "60000", _LOW, None),
    ("sasl.login.refresh.window.factor", _DOUBLE, "0.8", _LOW, Range(0.5, 1.0)),
    ("sasl.login.refresh.window.jitter", _DOUBLE, "0.05", _LOW, Range(0.0, 0.25)),
    ("sasl.login.refresh.min.period.seconds", _SHORT, "60", _LOW, Range(0, 900)),
    ("sasl.login.refresh.buffer.seconds", _SHORT, "300", _LOW, Range(0, 3600)),
    ("sasl.mechanism", _STRING, "GSSAPI", _MEDIUM, None),
    ("sasl.jaas.config", _SECRET, None, _MEDIUM, None),
    ("sasl.client.callback.handler.class", _STRING, None, _MEDIUM, None),
    ("sasl.login.callback.handler.class", _STRING, None, _MEDIUM, None),
    ("sasl.login.class", _STRING, None, _MEDIUM, None),
    ("sasl.login.connect.timeout.ms", _INT, None, _LOW, None),
    ("sasl.login.read.timeout.ms", _INT, None, _LOW, None),
    ("sasl.login.retry.backoff.max.ms", _LONG, "10000", _LOW, None),
    ("sasl.login.retry.backoff.ms", _LONG, "100", _LOW, None),
)
_OAUTH: tuple[_Row, ...] = (
    ("jwt.retriever.class", _STRING, _JWT + "Retriever", _MEDIUM, None),
    ("jwt.validator.class", _STRING, _JWT + "Validator", _MEDIUM, None),
    ("scope", _STRING, None, _MEDIUM, None),
    ("client.credentials.client.id", _STRING, None, _MEDIUM, None),
    ("client.credentials.client.secret", _SECRET, None, _MEDIUM, None),
    ("assertion.algorithm", _STRING, "RS256", _MEDIUM, In(("ES256", "RS256"), ignore_case=True)),
    ("assertion.claim.aud", _STRING, None, _MEDIUM, None),
    ("assertion.claim.exp.seconds", _INT, "300", _LOW, Range(0, 86400)),
    ("assertion.claim.iss", _STRING, None, _MEDIUM, None),
    ("assertion.claim.jti.include", _BOOLEAN, "false", _MEDIUM, None),
    ("assertion.claim.nbf.seconds", _INT, "60", _LOW, Range(0, 3600)),
    ("assertion.claim.sub", _STRING, None, _MEDIUM, None),
    ("assertion.file", _STRING, None, _MEDIUM, None),
    ("assertion.private.key.file", _STRING, None, _MEDIUM, None),
    ("assertion.private.key.passphrase", _SECRET, None, _MEDIUM, None),
    ("assertion.template.file", _STRING, None, _MEDIUM, None),
    ("scope.claim.name", _STRING, "scope", _LOW, None),
    ("sub.claim.name", _STRING, "sub", _LOW, None),
    ("token.endpoint.url", _STRING, None, _MEDIUM, None),
    ("jwks.endpoint.url", _STRING, None, _MEDIUM, None),
    ("jwks.endpoint.refresh.ms", _LONG, "3600000", _LOW, None),
    ("jwks.endpoint.retry.backoff.max.ms", _LONG, "10000", _LOW, None),
    ("jwks.endpoint.retry.backoff.ms", _LONG, "100", _LOW, None),
    ("clock.skew.seconds", _INT, "30", _LOW, None),
    ("expected.audience", _LIST, "", _HIGH, ListOf()),
    ("expected.issuer", _STRING, None, _HIGH, None),
    ("header.urlencode", _BOOLEAN, "false", _LOW, None),
)
_ANYWHERE = (
    *("password", "passphrase", "secret", "token", "credential", "jaas", "keystore", "certificate"),
    *(r"user\.info", r"(?:account|access|api)[._-]?key"),
)
_SPARK = (r"Options$", r"Env\.")
"""`spark.driver.extraJavaOptions`, `spark.executorEnv.NAME`: texts that may hold secrets among other things."""
_SECRET_NAME = re.compile("|".join((*_ANYWHERE, r"\.key$", *_SPARK)), re.IGNORECASE | re.ASCII)
"""Means the same in Java."""
_PLAIN = ("keystore.location", "keystore.type", "token.endpoint.url")
"""Client properties that say where a secret is, not what it is: errors about them have to show their values."""


def unprefixed_keys() -> list[Key]:
    """Returns the keys, in stock's order."""
    return [*(_key("", row) for row in (*_SSL, *_SASL)), *(_key("sasl.oauthbearer.", row) for row in _OAUTH)]


def _key(prefix: str, row: _Row) -> Key:
    name, kind, default, importance, validator = row
    name = prefix + name
    instead = f"give source.cluster.{name} or target.cluster.{name}"
    doc = f"Without effect, as in MirrorMaker: {instead}."
    rule = ignored(f"it reaches no client, as in MirrorMaker; {instead}")
    return Key(name, kind, default, importance, doc, UNPREFIXED, validator=validator, rule=rule)


def looks_secret(key: str) -> bool:
    """Tells whether a key is named like one whose value is, or may hold, a secret."""
    return _SECRET_NAME.search(key) is not None and not key.endswith(_PLAIN)


def exported() -> Json:
    """The list as the shim reads it: a pattern to be found in a key in any case, and ends of keys that are none."""
    return {"pattern": _SECRET_NAME.pattern, "but_not": list(_PLAIN)}
