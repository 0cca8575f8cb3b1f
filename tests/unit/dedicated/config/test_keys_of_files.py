"""What becomes of each key of a file: errors by the file's own keys, keys without a meaning, misspellings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.messages import message, message_pattern
from tests.unit.dedicated.config.files import BOTH, config, errors, planned

PACKAGE = "org.apache.kafka.common.config.provider."


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("dedicated.mode.enable.internal.rest", "nodes share flows by Kafka's own consumer groups"),
        ("listeners", "nodes share flows by Kafka's own consumer groups"),
        ("status.storage.topic", "no Connect worker"),
        ("B.status.storage.topic", "no Connect worker"),
        ("A->B.offset.storage.topic", "no Connect worker"),
        ("B.scheduled.rebalance.max.delay.ms", "no Connect worker"),
        ("B.exactly.once.source.support", "exactly once"),
        ("plugin.path", "no JVM"),
        ("name", "its own name and class"),
        ("A->B.connector.class", "its own name and class"),
        ("A->B.bridge.url", "the shim"),
        ("consumer.fetch.min.bytes", "at the top level it reaches nothing"),
        ("producer.batch.size", "as in A.producer.batch.size"),
        ("use.defaults.from", "as in A->B.use.defaults.from"),
        ("request.timeout.ms", "as in A.consumer.request.timeout.ms"),
        ("B.request.timeout.ms", "as in B.consumer.request.timeout.ms"),
        ("A.topics", "write A->B. before it"),
        ("B.sync.group.offsets.enabled", "write A->B. before it"),
        ("A->B.errors.retry.timeout", "tried again without end"),
        ("metric.reporters", "MBeans: metrics are at /metrics"),
        ("B.metric.reporters", "MBeans: metrics are at /metrics"),
        ("metric.names.formats", "MBeans: metrics are at /metrics"),
        ("A->B.metric.names.formats", "MBeans: metrics are at /metrics"),
        *(
            (f"{scope}{key}", "names of their own, at /metrics")
            for scope in ("", "B.", "A->B.")
            for key in (
                *("metrics.num.samples", "metrics.sample.window.ms", "metrics.recording.level"),
                *(
                    "auto.include.jmx.reporter",
                    "enable.metrics.push",
                    "metrics.context.x",
                    "metrics.reporter",
                ),
            )
        ),
        ("metrics.jmx.include", "MBeans: metrics are at /metrics"),
        ("A->B.metrics.jmx.exclude", "MBeans: metrics are at /metrics"),
        ("xxx", "no key of MirrorMaker"),
        ("A.xxx", "no key of MirrorMaker"),
        ("A->B.xxx", "no key of MirrorMaker"),
    ],
)
def test_a_key_without_a_meaning_is_named_with_the_reason(key: str, reason: str) -> None:
    plan = planned({**BOTH, key: "true"})
    assert plan.warnings == ()
    (unused,) = plan.unused
    assert unused.keys == (key,)
    assert reason in unused.reason


GOOD = {
    "emit.heartbeats.enabled": "true",
    "enabled": "true",
    "tasks.max": "2",
    "topics": "orders",
    "replication.policy.separator": "_",
    "security.protocol": "PLAINTEXT",
    "sasl.jaas.config": "",
    "spark.master": "local[2]",
    "bridge.transform.timeout.ms": "1000",
    "bridge.batch.decompressed.max.bytes": "10485760",
    "config.storage.topic": "nodes",
    "A.security.protocol": "PLAINTEXT",
    "A.consumer.auto.offset.reset": "latest",
    "B.admin.request.timeout.ms": "1000",
    "B.producer.compression.type": "zstd",
    "B.session.timeout.ms": "9000",
    "B.group.id": "nodes",
    "B.config.storage.replication.factor": "1",
    "B.offset.storage.topic": "offsets",
    "B->A.enabled": "true",
    "B->A.topics": "orders",
    "A->B.topics": "orders",
    "A->B.groups": "billing",
    "A->B.use.defaults.from": "source",
    "A->B.exactly.once.support": "required",
    "A->B.producer.override.compression.type": "zstd",
    "A->B.source.consumer.client.id": "mirror",
    "A->B.source.cluster.ssl.truststore.type": "PEM",
}


@pytest.mark.parametrize("key", GOOD)
def test_a_key_with_a_meaning_is_not_named(key: str) -> None:
    plan = planned({**BOTH, key: GOOD[key]})
    assert (plan.warnings, plan.unused) == ((), ())


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("topcis", "did you mean 'topics'?"),
        ("replication.policy.seperator", "did you mean 'replication.policy.separator'?"),
        ("emit.heartbeat.enabled", "did you mean 'emit.heartbeats.enabled'?"),
        ("cluster", "did you mean 'clusters'?"),
        ("A.bootstrap.server", "did you mean 'A.bootstrap.servers'?"),
        ("A.secrity.protocol", "did you mean 'A.security.protocol'?"),
        ("A.consumer.isolation.levl", "did you mean 'A.consumer.isolation.level'?"),
        ("B.producr.batch.size", "did you mean 'B.producer.batch.size'?"),
        ("A->B.topic.exclude", "did you mean 'A->B.topics.exclude'?"),
        ("A->B.sync.groups.offsets.enabled", "did you mean 'A->B.sync.group.offsets.enabled'?"),
        ("A->B.source.consumer.isolation.levl", "did you mean 'A->B.source.consumer.isolation.level'?"),
        ("A->C.enabled", "C is not among the clusters (A, B); did you mean 'A->B.enabled'?"),
        ("a->b.topics", "a and b are not among the clusters (A, B)"),
        ("A->A.topics", "A is no source of its own"),
        ("AA.bootstrap.servers", "AA is not among the clusters (A, B); did you mean 'A.bootstrap.servers'?"),
        ("east.consumer.client.id", "east is not among the clusters (A, B)"),
    ],
)
def test_a_misspelling_is_a_warning_with_a_suggestion(key: str, message: str) -> None:
    plan = planned({**BOTH, key: "1"})
    assert [(warning.key, warning.message) for warning in plan.warnings] == [
        (key, f"Unknown configuration '{key}': {message}")
    ]
    assert plan.unused == ()
    assert not any(value == "1" for value in config(plan, "A->B").values())


def test_keys_that_classes_of_the_users_own_may_read_reach_them() -> None:
    own = {
        "A->B.topic.filter.class": "python:bridge.mm2.filters.DefaultTopicFilter",
        "A->B.my.filter.words": "x",
    }
    plan = planned({**BOTH, **own})
    assert config(plan, "A->B")["my.filter.words"] == "x"
    assert plan.unused == ()


def test_all_errors_come_at_once_by_the_keys_of_the_file() -> None:
    messages = errors(
        {
            **BOTH,
            "A->B.enabled": "yes",
            "offset.lag.max": "many",
            "tasks.max": "0",
            "A.security.protocol": "TLS",
            "B.producer.compression.type": "lzma",
            "B->A.emit.heartbeats.interval.seconds": "x",
            "dedicated.mode.enable.internal.rest": "maybe",
            "source.cluster.alias": "Z",
        }
    )
    assert messages["A->B.enabled"] == message("config.not_boolean", value="yes", key="A->B.enabled")
    lag = message("config.not_a_number", value="many", key="offset.lag.max", type="LONG")
    assert messages["offset.lag.max"] == lag
    assert messages["tasks.max"] == message("config.too_small", value=0, key="tasks.max", least=1)
    for key in ("A.security.protocol", "B.producer.compression.type"):
        assert re.fullmatch(message_pattern("config.invalid", key=key), messages[key])
    assert "Not a number of type LONG" in messages["B->A.emit.heartbeats.interval.seconds"]
    assert "either true or false" in messages["dedicated.mode.enable.internal.rest"]
    assert "aliases are the names in clusters" in messages["source.cluster.alias"]
    assert len(messages) == 8


SCRAM = {"B.security.protocol": "SASL_SSL", "B.sasl.mechanism": "SCRAM-SHA-512"}


@pytest.mark.parametrize(
    ("changes", "key", "named"),
    [
        ({"A->B.producer.override.compression.type": "lzo"}, "A->B.producer.override.compression.type", ""),
        ({"A->B.producer.compression.type": "lzo"}, "A->B.producer.compression.type", ""),
        ({"B.producer.compression.type": "lzo"}, "B.producer.compression.type", ""),
        ({"A->B.consumer.auto.offset.reset": "none"}, "A->B.consumer.auto.offset.reset", ""),
        ({"A->B.source.consumer.isolation.level": "x"}, "A->B.source.consumer.isolation.level", ""),
        ({"A.admin.request.timeout.ms": "5s"}, "A.admin.request.timeout.ms", ""),
        ({"security.protocol": "TLS"}, "security.protocol", ""),
        (SCRAM, "B.sasl.jaas.config", "Missing configuration B.sasl.jaas.config"),
        (
            {"A->B.producer.override.bootstrap.servers": "c:1"},
            "A->B.producer.override.bootstrap.servers",
            "the cluster of B.bootstrap.servers",
        ),
        (
            {"config.properties.blacklist": "a"},
            "config.properties.blacklist",
            "configuration config.properties.blacklist:",
        ),
        ({"groups.whitelist": "("}, "groups.whitelist", "configuration groups.whitelist:"),
        (
            {"B.replication.policy.separator": "x", "A->B.replication.policy.separator": ":"},
            "A->B.replication.policy.separator",
            "",
        ),
        (
            {"clusters": "A, B, x.y", "x.y.bootstrap.servers": "x:1", "x.y->B.enabled": "true"},
            "clusters",
            "Invalid value x.y for configuration clusters:",
        ),
        (
            {"B.session.timeout.ms": "5", "B.heartbeat.interval.ms": "9"},
            "B.heartbeat.interval.ms",
            "lower than B.session.timeout.ms",
        ),
        (
            {"A->B.spark.master": "spark://s:1"},
            "A->B.spark.authenticate",
            "configuration A->B.spark.authenticate:",
        ),
    ],
)
def test_errors_speak_in_the_keys_that_the_file_has(changes: dict[str, str], key: str, named: str) -> None:
    messages = errors({**BOTH, **changes})
    assert list(messages) == [key]
    assert (named or f"configuration {key}:") in messages[key]
    assert not re.search(r"\b(source|target)\.(cluster|admin|producer)\.", messages[key])


def test_a_group_that_flows_would_share_is_named_as_the_file_has_it() -> None:
    more = {"clusters": "A, B, C", "C.bootstrap.servers": "c:1", "C->B.enabled": "true"}
    messages = errors({**BOTH, **more, "B.group.id": "mine", "emit.heartbeats.enabled": "false"})
    assert list(messages) == ["B.group.id"]
    assert re.fullmatch(
        message_pattern("config.invalid", value="mine", key="B.group.id"), messages["B.group.id"]
    )


def test_servers_that_are_missing_are_named_by_their_cluster() -> None:
    messages = errors({"clusters": "A, B", "A->B.enabled": "true"})
    assert messages == {
        key: message("config.missing", key=key) for key in ("A.bootstrap.servers", "B.bootstrap.servers")
    }


@pytest.mark.parametrize(
    ("clusters", "message"),
    [
        (None, 'Missing required configuration "clusters" which has no default value.'),
        ("A, A", "Configuration 'clusters' values must not be duplicated."),
        ("A, , B", "Configuration 'clusters' values must not be empty."),
        ("A", "Invalid value A for configuration clusters: a flow needs two clusters, as in clusters = A, B"),
    ],
)
def test_clusters(clusters: str | None, message: str) -> None:
    file = {"A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1"}
    assert errors(file | ({} if clusters is None else {"clusters": clusters})) == {"clusters": message}


def test_no_secret_is_in_an_error() -> None:
    messages = errors({**BOTH, "A.sasl.jaas.config": "planted-s3cret", "A.security.protocol": "SASL_SSL"})
    assert messages
    assert "s3cret" not in str(messages)


# -- config providers ------------------------------------------------------------------------------------------------


def provided(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "all.properties").write_bytes("servers = a:1\npassword=päss\n".encode())
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir" / "servers").write_text("b:1\n")
    return {
        **BOTH,
        "config.providers": "file, directory, env",
        "config.providers.file.class": f"{PACKAGE}FileConfigProvider",
        "config.providers.directory.class": f"{PACKAGE}DirectoryConfigProvider",
        "config.providers.env.class": f"{PACKAGE}EnvVarConfigProvider",
        "A.bootstrap.servers": f"${{file:{tmp_path}/all.properties:servers}}",
        "B.bootstrap.servers": f"${{directory:{tmp_path}/dir:servers}}",
        "A->B.topics": "${env:TOPICS},x-${env:TOPICS}",
    }


def test_references_to_files_directories_and_the_environment(tmp_path: Path) -> None:
    plan = planned(provided(tmp_path), TOPICS="orders")
    assert (plan.warnings, plan.unused) == ((), ())
    props = config(plan, "A->B")
    assert props["source.cluster.bootstrap.servers"] == "a:1"
    assert props["target.cluster.bootstrap.servers"] == "b:1"
    assert props["topics"] == "orders,x-orders"
    assert not any(key.startswith("config.providers") for key in props)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("topics", "${env:NOT_THERE}", "there is no environment variable NOT_THERE"),
        ("topics", "${env:path:HOME}", "an environment variable has no path: write ${env:HOME}"),
        ("topics", "${file:/not/there:key}", "can't read /not/there: No such file or directory"),
        ("topics", "${file:TMP/all.properties:other}", "TMP/all.properties has no key other"),
        ("topics", "${directory:TMP/dir:../all.properties}", "TMP/dir has no file ../all.properties"),
        ("topics", "${directory:/not/there:key}", "/not/there is no directory"),
        ("topics", "${vault:secret/kafka:key}", "config.providers does not name vault"),
        (
            "config.providers.env.param.allowlist.pattern",
            "X.*",
            "allowlist.pattern of the provider does not allow it",
        ),
        (
            "config.providers.file.param.allowed.paths",
            "/other",
            "allowed.paths of the provider does not allow it",
        ),
    ],
)
def test_a_reference_that_leads_nowhere_is_an_error(
    tmp_path: Path, key: str, value: str, message: str
) -> None:
    message, value = message.replace("TMP", str(tmp_path)), value.replace("TMP", str(tmp_path))
    messages = errors({**provided(tmp_path), key: value}, TOPICS="orders")
    assert len(messages) == 1
    assert message in "".join(messages.values())


def test_a_provider_that_is_java_is_an_error(tmp_path: Path) -> None:
    file = {**provided(tmp_path), "config.providers.env.class": "com.acme.Vault"}
    messages = errors(file, TOPICS="x")
    assert list(messages) == ["config.providers.env.class"]
    assert f"{PACKAGE}FileConfigProvider" in messages["config.providers.env.class"]
    del file["config.providers.env.class"]
    messages = errors(file, TOPICS="x")
    assert list(messages) == ["config.providers.env.class"]
    assert "Missing configuration config.providers.env.class" in "".join(messages.values())


def test_what_a_provider_gave_is_in_no_error(tmp_path: Path) -> None:
    file = {**provided(tmp_path), "offset.lag.max": "${env:TOPICS}"}
    assert "hunter22" not in str(errors(file, TOPICS="hunter22"))
