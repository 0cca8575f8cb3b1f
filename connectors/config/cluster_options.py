"""Keys of the connections: `source.cluster.*` and `target.cluster.*` (Kafka's names), `bridge.*` (ours).

Every Kafka client name works under the two prefixes; those defined here are the ones that Connect's REST API
shows and, where they are secrets, hides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bridge.model.java_values import boolean
from connectors.config.configdef import REQUIRED, Importance, In, Key, Range, Servers, Type, Url, Width

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
PROTOCOLS = In(("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT"), ignore_case=True)
REACHABILITY = "bridge.validate.reachability"
SAME_CLUSTER = "bridge.same.cluster"
_STORES = In(("JKS", "PKCS12", "PEM"), ignore_case=True)
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "AWS_MSK_IAM")


def _key(name: str, kind: Type, importance: Importance, doc: str, default: str | None = None) -> Key:
    return Key(name, kind, default, importance, doc, group="")


_TRUSTSTORE = (
    _key("ssl.truststore.location", Type.STRING, _HIGH, "File of the trust store, as the service sees it."),
    _key(
        "ssl.truststore.password", Type.PASSWORD, _HIGH, "Password of the trust store; PEM files have none."
    ),
    replace(
        _key("ssl.truststore.type", Type.STRING, _MEDIUM, "Format of the trust store.", "JKS"),
        validator=_STORES,
    ),
    _key(
        "ssl.truststore.certificates",
        Type.PASSWORD,
        _HIGH,
        "Trusted certificates as PEM text, with type PEM, instead of a file.",
    ),
)
_KEYSTORE = (
    _key(
        "ssl.keystore.location",
        Type.STRING,
        _HIGH,
        "File of the key store with the client's certificate and key, as the service sees it.",
    ),
    _key("ssl.keystore.password", Type.PASSWORD, _HIGH, "Password of the key store; PEM files have none."),
    replace(
        _key("ssl.keystore.type", Type.STRING, _MEDIUM, "Format of the key store.", "JKS"), validator=_STORES
    ),
    _key("ssl.keystore.key", Type.PASSWORD, _HIGH, "Private key as PEM text (PKCS#8), with type PEM."),
    _key(
        "ssl.keystore.certificate.chain",
        Type.PASSWORD,
        _HIGH,
        "Certificate chain as PEM text, with type PEM.",
    ),
    _key("ssl.key.password", Type.PASSWORD, _HIGH, "Password of the private key."),
    _key(
        "ssl.endpoint.identification.algorithm",
        Type.STRING,
        _LOW,
        "How the server's certificate is checked against its host name; empty: not at all.",
        "https",
    ),
)
_CLIENT = (
    replace(
        _key("security.protocol", Type.STRING, _MEDIUM, "Protocol used to talk to the brokers.", "PLAINTEXT"),
        validator=PROTOCOLS,
        recommended=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    ),
    replace(
        _key("sasl.mechanism", Type.STRING, _MEDIUM, "SASL mechanism of the connections.", "GSSAPI"),
        recommended=_MECHANISMS,
    ),
    _key("sasl.jaas.config", Type.PASSWORD, _MEDIUM, "Login module and its options, as in a JAAS file."),
    _key(
        "sasl.client.callback.handler.class",
        Type.STRING,
        _LOW,
        "SASL client callback handler: AWS MSK's IAMClientCallbackHandler with mechanism AWS_MSK_IAM, no other class.",
    ),
    _key(
        "sasl.login.callback.handler.class",
        Type.STRING,
        _LOW,
        "Where tokens come from: python:module.function calls yours. Java's OAuthBearerLoginCallbackHandler and AWS "
        "MSK's IAMOAuthBearerLoginCallbackHandler are accepted: the service itself logs in. No other class is.",
    ),
    _key(
        "sasl.oauthbearer.token.endpoint.url",
        Type.STRING,
        _MEDIUM,
        "For OAUTHBEARER: the token endpoint of an identity provider (https), or a file with a token (file:///PATH).",
    ),
    _key("sasl.oauthbearer.scope", Type.STRING, _MEDIUM, "Scope to ask the identity provider for."),
    _key(
        "sasl.oauthbearer.client.credentials.client.id",
        Type.STRING,
        _MEDIUM,
        "Client id for the identity provider; if not given, clientId of sasl.jaas.config is used.",
    ),
    _key(
        "sasl.oauthbearer.client.credentials.client.secret",
        Type.PASSWORD,
        _MEDIUM,
        "Client secret for the identity provider; if not given, clientSecret of sasl.jaas.config is used.",
    ),
    _key(
        "sasl.kerberos.service.name", Type.STRING, _MEDIUM, "Kerberos principal name that the brokers run as."
    ),
    *_TRUSTSTORE,
    *_KEYSTORE,
)


_SAME = _key(
    SAME_CLUSTER,
    Type.BOOLEAN,
    _LOW,
    "Whether source and target may be one cluster, by its id. Otherwise the configuration is refused: each copy "
    "would be a topic of the source, and be copied in turn.",
    "false",
)


def cluster_keys(side: str, group: str) -> list[Key]:
    """Returns the keys `<side>.cluster.*`; `side` is source or target."""
    servers = Key(
        name="bootstrap.servers",
        type=Type.LIST,
        default=REQUIRED,
        importance=_HIGH,
        documentation=f"Brokers of the {side} cluster for the first connection, as host:port, separated by commas. "
        "The service must reach them too.",
        group="",
        width=Width.LONG,
        validator=Servers(),
    )
    keys = [replace(key, name=f"{side}.cluster.{key.name}") for key in (servers, *_CLIENT)]
    if side == "source":  # of connectors that connect to both
        keys.append(_SAME)
    return [replace(key, group=group, order=order) for order, key in enumerate(keys, 1)]


def allows_same_cluster(props: Mapping[str, str | None]) -> bool:
    return boolean(props.get(SAME_CLUSTER) or "") is True


def bridge_keys(group: str) -> list[Key]:
    """Returns the keys with which the shim in the worker reaches the service; the shim reads them, and they are checked
    here as well."""
    own = [
        replace(
            _key(
                "bridge.url",
                Type.STRING,
                _HIGH,
                "Address of the Mirror Bridge service. Secrets are sent there, so it is https unless it is loopback. "
                "Any address but loopback must be allowed in the worker's environment (MIRROR_BRIDGE_ALLOWED_URLS).",
                "http://127.0.0.1:8900",
            ),
            validator=Url(),
            width=Width.LONG,
        ),
        _key(
            "bridge.auth.token", Type.PASSWORD, _HIGH, "Bearer token that the service asks for, if it does."
        ),
        replace(
            _key(
                "bridge.task.lease.ms",
                Type.INT,
                _LOW,
                "A task that has not polled for this long counts as paused, moved or dead, and is stopped.",
                "30000",
            ),
            validator=Range(5000),
        ),
        replace(
            _key(
                "bridge.request.timeout.ms",
                Type.INT,
                _LOW,
                "Longest wait for one answer of the service; a poll alone may be held for a second.",
                "5000",
            ),
            validator=Range(2000),
        ),
        replace(
            _key(
                REACHABILITY,
                Type.STRING,
                _LOW,
                "When the configuration is validated, the service tries to reach its clusters, for 5 s at most. If one "
                "can't be reached, warn says so in the logs of the worker and of the service and in the connector's "
                "status, and error refuses the configuration; off does not try.",
                "warn",
            ),
            validator=In(("warn", "error", "off")),
            recommended=("warn", "error", "off"),
        ),
    ]
    ssl = [
        replace(key, name=f"bridge.{key.name}", documentation=_for_worker(key))
        for key in (*_TRUSTSTORE, *_KEYSTORE)
    ]
    return [replace(key, group=group, order=order) for order, key in enumerate((*own, *ssl), 1)]


def _for_worker(key: Key) -> str:
    return "For https to the service. " + key.documentation.replace("the service sees", "the worker sees")


def same_cluster(cluster_id: str) -> str:
    """Says why a target can't be the cluster that has this id."""
    return (
        f"it is the source cluster: both have the id {cluster_id}. Correct the address; to mirror a cluster into "
        f"itself on purpose set {SAME_CLUSTER}=true"
    )
