"""What a caller can make large, each at its worst, as requests to a running service."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

MOST = 1_000_000
"""Bytes of a body, a little less than the service takes."""
SESSION = "1795000000001-a"
TOKENS = {"auth_token": "0123456789abcdef-of-changing", "read_token": "0123456789abcdef-of-reading"}


class Input(NamedTuple):
    """A request. `token`: the one that is enough for it, None for none; `statuses`: one of them answers it; `says`: in
    the answer."""

    name: str
    token: str | None
    method: str
    path: str
    body: Callable[[], bytes] = bytes
    statuses: tuple[int, ...] = (200,)
    says: str = ""


def config(**more: str) -> dict[str, str]:
    return {
        "name": "worst",
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": "127.0.0.1:1",
        "target.cluster.bootstrap.servers": "127.0.0.1:1",
        "bridge.validate.reachability": "off",
        **more,
    }


def validation(
    name: str, key: str, value: Callable[[], str], says: str, kind: str = "source", **more: str
) -> Input:
    """A configuration with this value, in the keys of a cluster's client where the key begins with a point."""
    named = f"source.cluster{key}" if key.startswith(".") else key
    others = {f"source.cluster.{other.replace('_', '.')}": text for other, text in more.items()}

    def body() -> bytes:
        return json.dumps({"config": config(**others, **{named: value()})}).encode()

    return Input(name, "auth_token", "PUT", f"/v1/plugins/{kind}/validate", body, (200,), says)


def times(text: str, separator: str = "") -> Callable[[], str]:
    return lambda: separator.join([text] * (MOST // (len(text) + len(separator))))


def numbered(form: str, separator: str = ",") -> Callable[[], str]:
    """`form` with a number for each #, as often as there is room."""
    count = MOST // (len(form) + 12)
    return lambda: separator.join(form.replace("#", str(number)) for number in range(count))


def body_of(make: Callable[[], object]) -> Callable[[], bytes]:
    return lambda: json.dumps(make(), separators=(",", ":")).encode()


def _der(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    length = len(content)
    size = bytes([length]) if length < 128 else bytes([0x82]) + length.to_bytes(2, "big")
    return bytes([tag]) + size + content


def _pem(label: str, data: bytes) -> str:
    return f"-----BEGIN {label}-----\n{base64.encodebytes(data).decode()}-----END {label}-----\n"


def _encrypted(derivation: str, *numbers: int) -> str:
    """A private key under PBES2 whose derivation has these numbers."""
    parts = [_der(2, number.to_bytes(number.bit_length() // 8 + 1, "big")) for number in numbers]
    function = _der(0x30, _der(6, bytes.fromhex(derivation)), _der(0x30, _der(4, b"saltsalt"), *parts))
    cipher = _der(0x30, _der(6, bytes.fromhex("60864801650304012a")), _der(4, bytes(16)))
    algorithm = _der(0x30, _der(6, bytes.fromhex("2a864886f70d01050d")), _der(0x30, function, cipher))
    return _pem("ENCRYPTED PRIVATE KEY", _der(0x30, algorithm, _der(4, bytes(1008))))


def key_of_many_rounds() -> str:
    return _encrypted("2a864886f70d01050c", 1_000_000_000)


def key_of_much_memory() -> str:
    return _encrypted("2b06010401da47040b", 1 << 19, 8, 1)


def key_of_many_bits() -> str:
    p, q = (1 << 50_000) + 1, (1 << 50_000) + 3
    public = rsa.RSAPublicNumbers(65537, p * q)
    numbers = rsa.RSAPrivateNumbers(p, q, d=5, dmp1=5, dmq1=5, iqmp=5, public_numbers=public)
    key = numbers.private_key(unsafe_skip_rsa_key_validation=True)
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return text.decode()


JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"
PLAIN = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
BEGIN = "-----BEGIN PRIVATE KEY-----\n"
POLICY = "python:bridge.policies.TopicMap"


def worst_inputs(folder: Path, certificate: str) -> Iterator[Input]:
    """All of them; `folder` is one that the service may read."""
    yield from _patterns()
    yield from _keys(folder, certificate)
    yield from _values(folder)
    yield from _bodies()
    yield from _heads()


def _patterns() -> Iterator[Input]:
    repeated = "(((a{1000}){1000}){1000})"
    for key, kind in (("topics", "source"), ("topics.exclude", "source"), ("groups", "group_offset")):
        yield validation(f"repetitions that multiply, in {key}", key, lambda: repeated, key, kind)
    yield validation("a pattern that nests", "topics", lambda: "[" * 3000, "deep")
    path = "/v1/connectors/c/clusters/target/consumer-offsets?alias=A&timeout_ms=500&pattern="
    yield Input(
        "repetitions, with the read token", "read_token", "GET", path + quote(repeated), bytes, (422,)
    )
    slow = Input("a slow pattern, with the read token", "read_token", "GET", path + quote("(.*)*x"))
    yield slow._replace(statuses=(200, 502, 503))


def _keys(folder: Path, certificate: str) -> Iterator[Input]:
    chain = {
        "security_protocol": "SSL",
        "ssl_keystore_type": "PEM",
        "ssl_keystore_certificate_chain": certificate,
    }
    locked = {**chain, "ssl_key_password": "password"}
    at = ".ssl.keystore.key"
    yield validation("a key of many rounds", at, key_of_many_rounds, "processor time", **locked)
    yield validation("a key of much memory", at, key_of_much_memory, "too much memory", **locked)
    yield validation("a key of many bits", at, key_of_many_bits, "bits; 8,192 is the limit", **chain)
    yield validation("a key begun many times", at, times(BEGIN), "holds no private key", **chain)
    file = folder / "many.pem"
    file.write_text(BEGIN * ((1 << 20) // len(BEGIN)))
    in_file = {"security_protocol": "SSL", "ssl_keystore_type": "PEM"}
    location = ".ssl.keystore.location"
    yield validation("the same in a file", location, lambda: str(file), "holds no private key", **in_file)
    many = folder / "authorities.pem"
    many.write_text(certificate * ((1 << 20) // len(certificate)))
    trusting = {"security_protocol": "SSL", "ssl_truststore_type": "PEM"}
    yield validation(
        "a trust store of many", ".ssl.truststore.location", lambda: str(many), "500 is the limit", **trusting
    )
    yield validation(
        "the same in the configuration",
        ".ssl.truststore.certificates",
        times(certificate),
        "500 is",
        **trusting,
    )


def _values(folder: Path) -> Iterator[Input]:
    jaas = ".sasl.jaas.config"
    yield validation("quotes in jaas", jaas, lambda: f"{JAAS} " + times('a="b\\" ')()[:90_000], "", **PLAIN)
    comments = f"{JAAS} " + "/* " * 10_000
    yield validation("comments in jaas", jaas, lambda: comments, "a comment is not closed", **PLAIN)
    yield validation(
        "options in jaas",
        jaas,
        lambda: f"{JAAS} " + numbered('a#="b"', " ")()[:90_000] + ";",
        "",
        **PLAIN,
    )
    yield validation("a list of topics", "topics", numbered("t#"), "")
    yield validation("a list of patterns", "topics", numbered("a#.*[0-9]{1,9}"), "")
    yield validation("a list of groups", "groups", numbered("g#"), "", "group_offset")
    yield validation("a list of excluded configs", "config.properties.exclude", numbered("p#.*"), "")
    yield validation("a list of transforms", "bridge.transforms", numbered("t#"), "100 at most")
    yield validation("a list of servers", ".bootstrap.servers", numbered("h#:1"), "")
    yield validation("commas", ".bootstrap.servers", times(","), "must not be empty")
    yield validation("a long name", "topics", lambda: "t" * MOST, "10000 at most")
    yield validation("digits", "refresh.topics.interval.seconds", lambda: "1" * MOST, "refresh.topics")
    topic_map = "replication.policy.topic.map"
    named = {"replication.policy.class": POLICY}
    for name, make in (
        ("a map of topics", numbered("t#=u#")),
        ("a map of patterns", numbered("a#.*=u#.$0")),
    ):
        yield validation(name, topic_map, make, "")._replace(body=_body(topic_map, make, named))
    file = folder / "topics.map"
    file.write_text("\n".join(f"t{number}=u{number}" for number in range(60_000)))
    by_file = f"{topic_map}.file"
    yield validation("a map in a file", by_file, lambda: str(file), "")._replace(
        body=_body(by_file, lambda: str(file), named)
    )
    for name, key in (
        ("keys", "k{}"),
        ("keys of Spark", "spark.x{}"),
        ("keys of clients", "source.cluster.k{}"),
    ):
        yield _of_keys(name, key)


def _body(key: str, value: Callable[[], str], more: Mapping[str, str]) -> Callable[[], bytes]:
    return body_of(lambda: {"config": config(**more, **{key: value()})})


def _of_keys(name: str, key: str) -> Input:
    keys = body_of(lambda: {"config": config(**{key.format(number): "v" for number in range(1_990)})})
    return Input(f"2,000 {name}", "auth_token", "PUT", "/v1/plugins/source/validate", keys)


def _bodies() -> Iterator[Input]:
    validate, task = "/v1/plugins/source/validate", "/v1/connectors/c/tasks/0"
    many = {"config": {str(number): "" for number in range(60_000)}}
    acked = [{"source_partition": {"p": number}, "timestamp": number} for number in range(10_000)]
    stored = [{"source_partition": {"p": number}, "source_offset": {"o": number}} for number in range(10_000)]
    groups = body_of(lambda: {"groups": [f"g{number}" for number in range(15_000)]})
    refused = (404, 409, 413, 422)
    for name, method, path, make, statuses in (
        ("a body that nests", "PUT", validate, lambda: b"[" * MOST, (413, 422)),
        ("a body too large", "PUT", validate, lambda: b" " * (2 << 20), (413,)),
        ("numbers of many digits", "PUT", validate, lambda: b'{"config": ' + b"9" * MOST + b"}", (413, 422)),
        ("names in a body", "PUT", validate, body_of(lambda: many), (413,)),
        ("acknowledgements", "POST", f"{task}/ack", _of_task(acked=acked), (413, 422)),
        ("stored offsets", "POST", f"{task}/poll", _of_task(wait_ms=0, offsets=stored), (413, 422)),
        ("groups to fail over", "POST", "/v1/failover", groups, refused),
        ("groups to roll back", "POST", "/v1/failover/rollback", groups, refused),
    ):
        yield Input(name, "auth_token", method, path, make, statuses)


def _of_task(**fields: object) -> Callable[[], bytes]:
    return body_of(lambda: {"session": SESSION, **fields})


def _heads() -> Iterator[Input]:
    for name, path, statuses in (
        ("a path of percent signs", "/v1/connectors/" + "%25" * 5_000, (403, 404)),
        ("a group of percent signs", "/v1/groups/" + "%2F" * 5_000, (404,)),
        (
            "a query of many keys",
            "/v1/groups?" + "&".join(f"limit={'9' * 9}" for _ in range(1_000)),
            (200, 422),
        ),
        ("a number of many digits", "/v1/groups?limit=" + "9" * 10_000, (422,)),
    ):
        yield Input(name, "read_token", "GET", path, bytes, statuses)
    yield Input("a head too large", None, "GET", "/health/live?" + "x" * 20_000, bytes, (400,))
