"""Files of dedicated mode against stock's own MirrorMakerConfig, two thousand of them at random (stock §1.7)."""

from __future__ import annotations

import base64
import hashlib
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from pathlib import Path

import pytest

from bridge.dedicated.config import stock
from bridge.dedicated.config.reading import plan_of_properties, replaced, resolved
from bridge.errors import ConfigRejected
from bridge.java_properties import parse_properties
from bridge.kafka.config.property_names import KNOWN
from bridge.kafka.config.settings import StaticClientCheck
from tests.support.java import RECORDED_OR_LIVE, Ask, Oracle, asking

FILES = 2000
CONNECTORS = ("MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector")


@pytest.fixture(scope="module", params=RECORDED_OR_LIVE)
def oracle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    source = Path(__file__).with_name("MirrorMakerConfigs.java")
    main = "org.apache.kafka.connect.mirror.MirrorMakerConfigs"
    return Oracle(source, tmp_path_factory.mktemp("classes"), main, live=request.param == "live")


@pytest.fixture(scope="module")
def java(oracle: Oracle) -> Ask:
    return asking(oracle)


def theirs(java: Ask, how: str, files: Sequence[str]) -> list[dict[str, str]]:
    answers = java([[how, file.encode("latin-1")] for file in files])
    # An empty value is a field of its own: `+` and nothing behind it.
    return [dict(zip(answer[::2], answer[1::2], strict=True)) for answer in answers]


def ours(file: str) -> dict[str, str]:
    """The parts of MirrorMakerConfigs.java, as this project makes them."""
    raw = parse_properties(file, "file")
    texts = {"properties": _text(raw), "names": "\n".join(sorted(stock.CONNECTOR_NAMES))}
    whole = replaced(raw, resolved(raw, os.environ)[0])
    aliases = stock.clusters(whole)
    texts["clusters"] = "\n".join(sorted(aliases))
    texts["pairs"] = "\n".join(sorted(f"{source}->{target}" for source, target in stock.cluster_pairs(whole)))
    for alias in aliases:
        texts[f"client {alias}"] = _text(stock.values(stock.client_settings(whole, alias)))
    for source, target in permutations(aliases, 2):
        texts[f"worker {source}->{target}"] = _text(
            stock.values(stock.worker_settings(whole, source, target))
        )
        for connector in CONNECTORS:
            settings = stock.connector_settings(raw, source, target, connector)
            texts[f"{connector} {source}->{target}"] = _text(stock.values(settings))
    return texts


def _text(properties: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in sorted(properties.items()))


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:12]).decode()


# -- files at random --------------------------------------------------------------------------------------------------

ALIASES = ("A", "B", "C", "us-west", "us-east", "a", "AB", "source", "target", "x.y", "admin", "topics")
CLUSTERS_OWN = (
    *(
        "offset.storage.topic",
        "status.storage.replication.factor",
        "group.id",
        "client.id",
        "plugin.path",
        "xxx",
    ),
    *("consumers.fetch", "adminx", "forwarding.admin.class"),
)
TOP = (
    *(
        "config.storage.topic",
        "offset.storage.replication.factor",
        "status.storage.topic",
        "worker.sync.timeout.ms",
    ),
    *("key.converter.schemas.enable", "task.shutdown.graceful.timeout.ms", "replication.policy.own", "xxx"),
    *(
        "consumer.isolation.level",
        "producer.acks",
        "use.defaults.from",
        "offset.flush.interval.ms",
        "listeners",
    ),
    *("offset.storagex", "replication.policyx", "config.providersx", "metrics.reporter"),
)
VALUES = (
    "true",
    "false",
    "TRUE",
    "1",
    "42",
    "0",
    "x",
    "orders, payments",
    ".*",
    "a=b:c",
    "",
    "é",
    "\u0001",
    "tab\tx",
)
REFERENCES = ("${env:HOME}", "${env:NOT_THERE_AT_ALL}", "x${env:HOME}y${other:a}", "${env:HOME", "$env:HOME}")
CONVERTER = "org.apache.kafka.connect.converters.ByteArrayConverter"
FIXED = {
    # Classes are loaded, and numbers parsed, where the driver or its clients define the key: nonsense ends there.
    "bootstrap.servers": ("h:9092", "h1:1, h2:2"),
    "security.protocol": ("PLAINTEXT", "SSL", "ssl", "sasl_plaintext"),
    "forwarding.admin.class": ("org.apache.kafka.clients.admin.ForwardingAdmin",),
    "replication.policy.class": ("org.apache.kafka.connect.mirror.IdentityReplicationPolicy",),
    "replication.policy.internal.topic.separator.enabled": ("true", "false"),
    "ssl.keystore.password": ("p w", "${env:HOME}"),
    "ssl.key.password": ("secret", "${env:HOME}x"),
    "ssl.protocol": ("TLSv1.2",),
    "sasl.mechanism": ("PLAIN", "SCRAM-SHA-512"),
    "sasl.jaas.config": ('a.Module required user="x" password="y\\";";', "${env:HOME}"),
    "enabled": ("true", "false", "TRUE", "yes"),
    "emit.heartbeats.enabled": ("true", "false", "False", "no"),
    "plugin.path": ("",),
    "listeners": ("http://localhost:0",),
    **{f"{of}.converter": (CONVERTER,) for of in ("key", "value", "header")},
}
CLIENTS = tuple(name for name in stock.CLIENT_NAMES if name in FIXED)
OF_CONNECTORS = sorted(
    stock.CONNECTOR_NAMES - {name for name in stock.CLIENT_NAMES if name not in FIXED} - {stock.PROVIDERS}
)


def some_file(rng: random.Random) -> str:
    """A file with clusters, flows and keys of every scope, written in Java's many ways."""
    aliases = rng.sample(ALIASES, rng.choice((2, 2, 2, 3)))
    pairs: list[tuple[str, str]] = [("clusters", rng.choice((", ", ",", " , ")).join(aliases))]
    for alias in aliases:
        if rng.random() < 0.9:
            pairs.append(_pair(rng, f"{alias}.", "bootstrap.servers"))
    if rng.random() < 0.5:
        pairs += [
            ("config.providers", "env"),
            ("config.providers.env.class", f"{PROVIDER}EnvVarConfigProvider"),
        ]
    for _ in range(rng.randrange(4, 25)):
        pairs.append(_some_pair(rng, aliases))
    # One that fails now and then, where the driver itself refuses.
    if rng.random() < 0.05:
        pairs.append(rng.choice((("clusters", "A, A"), ("security.protocol", "abc"), ("clusters", "A,,B"))))
    rng.shuffle(pairs)
    lines = list(_written(rng, pairs))
    return "".join(lines)


PROVIDER = "org.apache.kafka.common.config.provider."


def _some_pair(rng: random.Random, aliases: Sequence[str]) -> tuple[str, str]:
    scope = rng.choice(("top", "top", "cluster", "cluster", "flow", "flow"))
    if scope == "top":
        return _pair(rng, "", rng.choice((*TOP, *CLIENTS, *OF_CONNECTORS)))
    if scope == "flow":
        flow = f"{rng.choice(aliases)}->{rng.choice(aliases)}."
        own = (
            "enabled",
            "emit.heartbeats.enabled",
            "topics",
            "xxx",
            "source.consumer.fetch.min.bytes",
            "tasks.max",
        )
        return _pair(rng, flow, rng.choice((*own, *OF_CONNECTORS)))
    prefix = f"{rng.choice(aliases)}."
    role = rng.choice(("", "", "consumer.", "producer.", "admin."))
    name = rng.choice((*CLIENTS, *CLUSTERS_OWN)) if not role else rng.choice((*CLIENTS, *sorted(KNOWN)))
    return _pair(rng, prefix + role, name)


def _pair(rng: random.Random, prefix: str, name: str) -> tuple[str, str]:
    fixed = FIXED.get(name)
    # References among the providers' own keys would need other providers.
    others = () if (prefix + name).startswith(stock.PROVIDERS) else REFERENCES
    value = rng.choice(fixed) if fixed else rng.choice((*VALUES, *VALUES, *others))
    return prefix + name, value


def _written(rng: random.Random, pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    end = rng.choice(("\n", "\r\n", "\r"))
    for key, value in pairs:
        if rng.random() < 0.15:
            yield rng.choice(("# a comment \\", "! another", "", "   \t")) + end
        separator = rng.choice(("=", " = ", ":", " : ", " ", "\t"))
        if not value or value[0] in " \t\f=:":
            separator = "="
        text = _escaped(rng, value)
        if rng.random() < 0.1 and len(value) > 3 and value.isalpha():
            text = text[:2] + "\\" + end + "  \t" + text[2:]
        yield rng.choice(("", "", "  ")) + _escaped(rng, key, key=True) + separator + text + end


def _escaped(rng: random.Random, text: str, *, key: bool = False) -> str:
    escaped = ""
    for at, character in enumerate(text):
        special = (
            character in "\\" or (character in " \t" and (key or at == 0)) or (key and character in "=:#!")
        )
        if ord(character) < 32 or ord(character) > 126 or rng.random() < 0.005:
            escaped += f"\\u{ord(character):04x}"
        else:
            escaped += (
                "\\" + character
                if special or (rng.random() < 0.005 and not character.isalnum())
                else character
            )
    return escaped


# -- comparisons ------------------------------------------------------------------------------------------------------


def test_files_at_random(oracle: Oracle, java: Ask) -> None:
    """Clusters, pairs, client, worker and connector configurations are stock's; what stock refuses is refused."""
    rng = random.Random(382)
    files = [some_file(rng) for _ in range(oracle.scaled(FILES))]
    different: list[tuple[str, str]] = []
    compared = refused = 0
    for file, answer in zip(files, theirs(java, "digest", files), strict=True):
        made = ours(file)
        if "error" in answer:
            refused += 1
            with pytest.raises(ConfigRejected):
                plan_of_properties(parse_properties(file, "file"), StaticClientCheck(), os.environ)
            continue
        for part in list(made):
            if f"error of {part}" in answer:
                del made[part], answer[f"error of {part}"]
        compared += len(made)
        assert made.keys() == answer.keys(), file
        different += [(file, part) for part, text in made.items() if _digest(text) != answer[part]]
    assert [_difference(java, *each) for each in different[:3]] == []
    assert not different
    assert compared > 10 * len(files)
    assert 0 < refused < len(files) / 5


def _difference(java: Ask, file: str, part: str) -> dict[str, object]:
    """What differs in a part, line by line."""
    stocks = set(theirs(java, "show", [file])[0][part].split("\n"))
    own = set(ours(file)[part].split("\n"))
    return {"part": part, "stock only": sorted(stocks - own), "ours only": sorted(own - stocks), "file": file}


def test_all_config_names(java: Ask) -> None:
    """MirrorMakerConfigTest.testAllConfigNames, of every name."""
    (answer,) = theirs(java, "show", ["clusters = A, B\n"])
    assert answer["names"].split("\n") == sorted(stock.CONNECTOR_NAMES)
