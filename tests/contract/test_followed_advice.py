"""Every advice that an error or a warning gives is followed to the letter, and works."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping

import pytest

from bridge.dedicated.config.reading import plan_of_properties
from bridge.errors import ConfigRejected
from bridge.java_properties import parse_properties
from bridge.settings import load_settings
from connectors.config.allowed_names import refused
from connectors.registry import KINDS
from tests.contract.advice import Edit, command_after, edits, followed, setting
from tests.contract.wild_configs import (
    CLIENTS,
    ENVIRONMENT,
    Legacy,
    connector,
    dedicated,
    kind_of,
    legacy,
    names,
    of_command,
)
from tests.support.forms import mostly_long

Texts = Mapping[str, str]
Said = list[tuple[str, str]]
"""Errors and warnings: key and message."""
Judge = Callable[[Texts], Said]


def of_connector(config: Texts) -> Said:
    kind = kind_of(config)
    result = kind.validate({**config, "connector.class": kind.connector_class}, CLIENTS)
    return [
        *((each.key, each.message) for each in result.errors),
        *((each.key, each.reason) for each in result.ignored),
    ]


def of_file(file: Texts) -> Said:
    try:
        plan = plan_of_properties(file, CLIENTS, ENVIRONMENT)
    except ConfigRejected as rejected:
        return [(each.key, each.message) for each in rejected.errors]
    unused = [(key, each.reason) for each in plan.unused for key in each.keys]
    return [*((each.key, each.message) for each in plan.warnings), *unused]


def check(judge: Judge, config: Texts) -> Iterator[tuple[str, list[Edit]]]:
    """Follows each advice by itself; yields what it was followed for. What it speaks of is gone then, and no error has
    come of the keys that it names."""
    before = judge(config)
    for key, message in before:
        changes = list(edits(key, message, config.get(key, "")))
        if not changes:
            continue
        changed = followed(config, changes)
        after = judge(changed)
        assert (key, message) not in after, (message, changes)
        named = {edit.key for edit in changes}
        new = [
            said for said in after if said not in before and said[0] in named and not _does_nothing(said[1])
        ]
        assert new == [], (message, changes)
        yield message, changes


def _does_nothing(reason: str) -> bool:
    """Whether it is no error: a key that has no effect either is no worse than before."""
    return not reason.startswith(("Invalid", "Missing", "Unknown", "Configuration"))


@pytest.mark.parametrize("name", mostly_long(names("connect"), 5))
def test_advice_for_published_connectors(name: str) -> None:
    list(check(of_connector, connector(name)))


@pytest.mark.parametrize("name", mostly_long(names("dedicated"), 5))
def test_advice_for_published_files(name: str) -> None:
    list(check(of_file, parse_properties(dedicated(name), name)))


@pytest.mark.parametrize("name", mostly_long(names("legacy"), 5))
def test_advice_for_published_commands(name: str) -> None:
    follow_command(legacy(name))


def follow_command(given: Legacy) -> int:
    count = 0
    said = of_command(given)["errors"]
    for message in said:
        if (changed := command_after(given, message)) is not None:
            count += 1
            after = of_command(changed)["errors"]
            assert message not in after, (message, changed)
    return count


SOURCE = {
    "name": "m",
    "connector.class": "MirrorSourceConnector",
    "source.cluster.alias": "a",
    "target.cluster.alias": "b",
    "source.cluster.bootstrap.servers": "a:1",
    "target.cluster.bootstrap.servers": "b:1",
}
TLS = {"source.cluster.security.protocol": "SSL"}
OAUTH = {
    "source.cluster.security.protocol": "SASL_SSL",
    "source.cluster.sasl.mechanism": "OAUTHBEARER",
    "source.cluster.sasl.oauthbearer.token.endpoint.url": "https://login.example.com",
    "source.cluster.sasl.oauthbearer.client.credentials.client.id": "i",
    "source.cluster.sasl.oauthbearer.client.credentials.client.secret": "s",
}
JSON = "org.apache.kafka.connect.json.JsonConverter"


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"topics.blacklist": "x"}, "topics.blacklist"),
        ({"topic.whitelist": "x"}, "topic.whitelist"),
        ({"remote.admin.retries": "1"}, "remote.admin.retries"),
        ({"refresh.topics.enable": "true"}, "refresh.topics.enable"),
        ({"source.cluster.ssl.truststore.pasword": "x"}, "source.cluster.ssl.truststore.pasword"),
        ({"rename.topics": "false"}, "rename.topics"),
        ({"readahead.queue.capacity": "5"}, "readahead.queue.capacity"),
        ({"message.handler": "a.B"}, "message.handler"),
        ({"num.streams": "2"}, "num.streams"),
        ({"abort.on.send.failure": "true"}, "abort.on.send.failure"),
        ({"offset.commit.interval.ms": "5000"}, "offset.commit.interval.ms"),
        ({"transforms": "t", "transforms.t.type": "x.Y"}, "transforms"),
        ({"key.converter": JSON}, "key.converter"),
        ({"connector.class": "MirrorHeartbeatConnector", "key.converter": JSON}, "key.converter"),
        ({"errors.tolerance": "all"}, "errors.tolerance"),
        ({"topic.creation.default.partitions": "3"}, "topic.creation.default.partitions"),
        ({"replication.policy.class": "x.Y"}, "replication.policy.class"),
        ({"topic.filter.class": "x.Y"}, "topic.filter.class"),
        ({"replication.policy.topic.map": "a=b"}, "replication.policy.topic.map"),
        ({"replication.policy.separator": ""}, "replication.policy.separator"),
        ({"source.cluster.alias": "a.b"}, "source.cluster.alias"),
        (
            {"emit.offset-syncs.enabled": "false", "offset-syncs.topic.replication.factor": "1"},
            "emit.offset-syncs.enabled",
        ),
        ({"spark.master": "spark://s:7077"}, "spark.authenticate"),
        ({"spark.remote": "sc://s:15002", "spark.master": "local"}, "spark.master"),
        ({"spark.remote": "sc://s:15002", "spark.driver.memory": "1g"}, "spark.driver.memory"),
        ({"consumer.auto.offset.reset": "none"}, "consumer.auto.offset.reset"),
        ({"config.properties.exclude": "segment.bytes"}, "config.properties.exclude"),
        ({"producer.override.compression.type": "lzo"}, "producer.override.compression.type"),
        ({"producer.override.bootstrap.servers": "c:1"}, "producer.override.bootstrap.servers"),
        ({"forwarding.admin.class": "x.Y"}, "forwarding.admin.class"),
        ({"source.consumer.interceptor.classes": "x.Y"}, "source.consumer.interceptor.classes"),
        ({"target.producer.key.serializer": "x.Y"}, "target.producer.key.serializer"),
        ({"admin.bootstrap.controllers": "a:1"}, "admin.bootstrap.controllers"),
        ({"consumer.client.dns.lookup": "default"}, "consumer.client.dns.lookup"),
        ({"consumer.isolation.level": "serializable"}, "consumer.isolation.level"),
        ({**TLS, "source.cluster.ssl.cipher.suites": "X"}, "source.cluster.ssl.cipher.suites"),
        ({**TLS, "source.cluster.ssl.enabled.protocols": "TLSv1.3"}, "source.cluster.ssl.enabled.protocols"),
        (
            {**TLS, "source.cluster.ssl.enabled.protocols": "TLSv1.2,TLSv9"},
            "source.cluster.ssl.enabled.protocols",
        ),
        ({**TLS, "source.cluster.ssl.protocol": "SSL"}, "source.cluster.ssl.protocol"),
        ({**TLS, "source.cluster.ssl.truststore.type": "BKS"}, "source.cluster.ssl.truststore.type"),
        (
            {
                **TLS,
                "source.cluster.ssl.truststore.location": "/x",
                "source.cluster.ssl.truststore.type": "PEM",
                "source.cluster.ssl.truststore.password": "p",
            },
            "source.cluster.ssl.truststore.password",
        ),
        (
            {"source.cluster.sasl.login.callback.handler.class": "x.Y", **OAUTH},
            "source.cluster.sasl.login.callback.handler.class",
        ),
        (
            {"source.cluster.sasl.oauthbearer.assertion.file": "/x", **OAUTH},
            "source.cluster.sasl.oauthbearer.assertion.file",
        ),
        (
            {"source.cluster.sasl.oauthbearer.jwt.retriever.class": "x.Y", **OAUTH},
            "source.cluster.sasl.oauthbearer.jwt.retriever.class",
        ),
        (
            {"source.cluster.sasl.oauthbearer.header.urlencode": "true", **OAUTH},
            "source.cluster.sasl.oauthbearer.header.urlencode",
        ),
        ({"connector.class": "MirrorGroupOffsetConnector", "group": "g", "groups": "g"}, "group"),
        ({"connector.class": "MirrorGroupOffsetConnector", "groups": ""}, "groups"),
        # Warnings.
        ({"security.protocol": "SSL"}, "security.protocol"),
        ({"source.cluster.client.rack": "r"}, "source.cluster.client.rack"),
        ({"target.cluster.compression.type": "gzip"}, "target.cluster.compression.type"),
        ({"consumer.override.max.poll.records": "1"}, "consumer.override.max.poll.records"),
        ({"fetch.min.bytes": "1"}, "fetch.min.bytes"),
    ],
)
def test_each_kind_of_advice_of_connectors(changes: Texts, key: str) -> None:
    config = {**SOURCE, **changes}
    assert any(said.startswith(key) or key in said for said, _ in of_connector(config)), of_connector(config)
    followed_for = list(check(of_connector, config))
    assert any(
        edit.key.startswith(key) or edit.value is not None or edit.key.endswith("*")
        for _, made in followed_for
        for edit in made
    )
    assert followed_for, of_connector(config)


@pytest.mark.parametrize(
    ("key", "value", "others"),
    [
        ("spark.jars", "/x.jar", {}),
        ("spark.network.crypto.enabled", "false", {}),
        ("spark.master", "yarn", {"spark.authenticate": "true"}),
        ("spark.remote", "sc://h:15002/;use_ssl=true", {}),
        ("replication.policy.class", "python:tests.own_policies.Own", {}),
        ("source.cluster.bootstrap.servers", "c:1", {"MIRROR_BRIDGE_ALLOWED_BOOTSTRAP": "b:1"}),
        (
            "source.cluster.sasl.oauthbearer.token.endpoint.url",
            "https://other.example.com",
            {**OAUTH, "MIRROR_BRIDGE_ALLOWED_TOKEN_ENDPOINTS": "login.example.com"},
        ),
        (
            "source.cluster.bootstrap.servers",
            "c:9098",
            {
                "source.cluster.security.protocol": "SASL_SSL",
                "source.cluster.sasl.mechanism": "AWS_MSK_IAM",
                "source.cluster.sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
            },
        ),
    ],
)
def test_each_setting_that_an_error_names_allows_what_it_refuses(
    key: str, value: str, others: Texts, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in others.items():
        if name.startswith("MIRROR_BRIDGE_"):
            monkeypatch.setenv(name, text)
    config = {**SOURCE, **{each: text for each, text in others.items() if "." in each}, key: value}

    def said() -> list[str]:
        policy = load_settings().policy()
        return [each.message for each in refused(config, policy) if each.key == key]

    (before,) = said()
    named = setting(before)
    assert named is not None, before
    monkeypatch.setenv(named[0], ",".join(filter(None, (os.environ.get(named[0]), named[1]))))
    assert said() == []


BOTH = {
    "clusters": "A, B",
    "A.bootstrap.servers": "a:1",
    "B.bootstrap.servers": "b:1",
    "A->B.enabled": "true",
}
ENV = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"


@pytest.mark.parametrize(
    "changes",
    [
        {"clusters": "A"},
        {"A->B.enabled": "false", "emit.heartbeats.enabled": "false"},
        {"topics.blacklist": "x"},
        {"topics.blacklist": "x", "topics.exclude": "y"},
        {"rename.topics": "false"},
        {"source.cluster.alias": "A"},
        {"B->A.enabled": "true", "replication.policy.class": "IdentityReplicationPolicy"},
        {"clusters": "A, B, C", "C.bootstrap.servers": "c:1", "C->B.enabled": "true", "B.group.id": "g"},
        {"config.providers": "env"},
        {"config.providers": "env", "config.providers.env.class": ENV, "topics": "${env:x:SOURCE_USER}"},
        {"emit.offset-syncs.enabled": "false"},
        {"A.topics": "x"},
        {"exactly.once.support": "required"},
        {"consumer.fetch.min.bytes": "1"},
        {"A.fetch.min.bytes": "1"},
        {"A->B.refresh.topics.enable": "true"},
        {"C.bootstrap.servers": "c:1"},
        {"A--->B.enabled": "true"},
        {"A->B.producer.override.compression.type": "lzo"},
        {"A->B.producer.override.bootstrap.servers": "c:1"},
        {"A->B.transforms": "t"},
        {"B.consumer.interceptor.classes": "x.Y"},
        {"replication.policy.separator": ""},
        {"config.properties.blacklist": "segment.bytes"},
        {"A->B.spark.master": "spark://s:7077"},
        {"clusters": "A, B, x.y", "x.y.bootstrap.servers": "x:1", "x.y->B.enabled": "true"},
    ],
)
def test_each_kind_of_advice_of_files(changes: Texts) -> None:
    file = {**BOTH, **changes}
    assert list(check(of_file, file)), of_file(file)


FILES = ("bootstrap.servers=a:1\ngroup.id=g\n", "bootstrap.servers=b:1\n")
WORDS = ["--consumer.config", "c", "--producer.config", "p", "--include", "orders"]


@pytest.mark.parametrize(
    ("words", "consumer", "producer"),
    [
        ([*WORDS[:4]], "", ""),
        ([*WORDS, "--blacklist", "x"], "", ""),
        ([*WORDS, "--consumer.config", "d"], "", ""),
        ([*WORDS, "--num.streams", "0"], "", ""),
        ([*WORDS, "--abort.on.send.failure", "maybe"], "", ""),
        ([*WORDS, "--message.handler", "a.B"], "", ""),
        ([*WORDS, "--message.handler.args", "x"], "", ""),
        ([*WORDS, "--consumer.rebalance.listener", "a.B"], "", ""),
        (WORDS, "groupid=h\ngroup.id=\n", ""),
        (WORDS, "autooffset.reset=smallest\n", ""),
        (WORDS, "auto.offset.reset=smallest\n", ""),
        (WORDS, "bootstrap.servers=\nzookeeper.connect=z:2181\n", ""),
        (WORDS, "", "bootstrap.servers=\nmetadata.broker.list=b:1\n"),
        (WORDS, "interceptor.classes=a.B\n", ""),
        (WORDS, "", "compression.type=lzo\n"),
        (WORDS, "isolation.level=serializable\n", ""),
        (WORDS, "security.protocol=PLAINTEXTSASL\n", ""),
        (WORDS, "request.timeout.ms=1\n", ""),
        (WORDS, "metadata.max.age.ms=-1\n", ""),
    ],
)
def test_each_kind_of_advice_of_commands(words: list[str], consumer: str, producer: str) -> None:
    given = Legacy(words, FILES[0] + consumer, FILES[1] + producer)
    assert follow_command(given), of_command(given)


def test_every_kind_of_connector_is_asked() -> None:
    assert {
        kind_of({**SOURCE, "connector.class": f"Mirror{name}Connector"}).kind
        for name in ("Source", "Checkpoint", "Heartbeat", "GroupOffset")
    } == KINDS.keys() - {"sink"}
