"""What becomes of every key: honoured, ignored by name, or refused with what to use instead."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from bridge.kafka.config.property_names import KNOWN
from bridge.model.key_rules import Effect, honoured, ignored
from connectors.registry import KINDS
from tests.unit.connectors.configs import CLIENTS, CONFIGS, SOURCE

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"
EMITTING = ("checkpoint", "heartbeat")


def errors(kind: str, **changes: str) -> dict[str, str]:
    validated = KINDS[kind].validate({**CONFIGS[kind], **dotted(changes)}, CLIENTS)
    return {error.key: error.message for error in validated.errors}


def ignoring(kind: str, **changes: str) -> dict[str, str]:
    """Reasons by key; of a configuration without errors."""
    validated = KINDS[kind].validate({**CONFIGS[kind], **dotted(changes)}, CLIENTS)
    assert validated.errors == ()
    return {each.key: each.reason for each in validated.ignored}


def dotted(changes: Mapping[str, str]) -> dict[str, str]:
    return {key.replace("__", "-").replace("_", "."): value for key, value in changes.items()}


# -- the source connector: records do not pass the worker -------------------------------------------------------------

REFUSED = [
    ("transforms", "mask", "bridge.transforms=python:module.function"),
    ("predicates", "p", "bridge.transforms=python:module.function"),
    ("key.converter", JSON, "bridge.transforms=python:module.function"),
    ("value.converter", "org.apache.kafka.connect.storage.StringConverter", "ByteArrayConverter"),
    ("header.converter", "org.apache.kafka.connect.storage.SimpleHeaderConverter", "ByteArrayConverter"),
    ("errors.tolerance", "all", "source.record.policy=report"),
    ("topic.creation.groups", "mine", "replication.factor"),
    ("topic.creation.default.replication.factor", "3", "replication.factor"),
    ("topic.creation.default.cleanup.policy", "compact", "config.properties.exclude"),
    ("producer.override.interceptor.classes", "com.example.Mask", "no JVM"),
    ("source.consumer.config.providers", "file", "the worker's own config.providers"),
    ("target.producer.config.providers", "env", "the worker's own config.providers"),
    ("source.cluster.sasl.kerberos.kinit.cmd", "/tmp/kinit", "names a command"),
    ("source.cluster.sasl.login.class", "com.example.Login", "no JVM"),
    ("source.consumer.interceptor.classes", "com.example.Mask", "no JVM"),
    ("target.producer.value.serializer", "com.example.Mine", "as bytes"),
    ("producer.override.compression.type", "brotli", "none, gzip, snappy, lz4, zstd"),
    ("target.producer.compression.zstd.level", "23", "from -131072 to 22"),
    ("target.producer.compression.gzip.level", "0", "from 1 to 9, or -1"),
    ("producer.override.bootstrap.servers", "c:9092", "target.cluster.bootstrap.servers"),
]


@pytest.mark.parametrize(("key", "value", "instead"), REFUSED)
def test_what_would_change_what_arrives_is_an_error_that_says_what_to_use(
    key: str, value: str, instead: str
) -> None:
    errors = KINDS["source"].validate({**SOURCE, key: value}, CLIENTS).errors
    assert [error.key for error in errors] == [key]
    assert errors[0].message.startswith(f"Invalid value {value} for configuration {key}: ")
    assert instead in errors[0].message


def test_all_of_them_are_told_at_once() -> None:
    wrong = {"transforms": "m", "transforms.m.type": "x.Y", "key.converter": JSON, "errors.tolerance": "all"}
    rejected = KINDS["source"].validate({**SOURCE, **wrong, "topics": "("}, CLIENTS).errors
    assert {error.key for error in rejected} == {"transforms", "key.converter", "errors.tolerance", "topics"}


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("source.consumer.group.protocol", "consumer", "the readers join no group"),
        ("consumer.group.remote.assignor", "com.example.Mine", "the readers join no group"),
        ("consumer.partition.assignment.strategy", "com.example.Mine", "the readers join no group"),
        ("source.consumer.enable.auto.commit", "true", "commit nothing for themselves"),
        ("target.producer.enable.idempotence", "false", "the pipeline's transactions are its own"),
        ("source.admin.enable.metrics.push", "true", "metrics of its own"),
        ("source.admin.metric.reporters", "com.example.Mine", "metrics of its own"),
        ("source.cluster.sasl.oauthbearer.jwks.endpoint.url", "file:///etc/passwd", "read by brokers only"),
        ("config.providers", "file", "before the service gets them"),
        ("group.protocol", "consumer", "without a prefix it reaches no client"),
    ],
)
def test_what_names_a_class_or_a_protocol_of_java_does_nothing_and_is_named(
    key: str, value: str, why: str
) -> None:
    validated = KINDS["source"].validate({**SOURCE, key: value}, CLIENTS)
    assert validated.errors == ()
    ((named, reason),) = [(each.key, each.reason) for each in validated.ignored]
    assert (named, why in reason) == (key, True)


@pytest.mark.parametrize(
    "same",
    [
        {"transforms": "", "predicates": " "},
        {"key.converter": BYTES, "value.converter": "ByteArrayConverter", "header.converter": "ByteArray"},
        {"errors.tolerance": "none", "errors.log.enable": "false"},
        {"tasks.max": "1", "transaction.boundary": "poll", "tasks.max.enforce": "true"},
        {
            "producer.override.acks": "all",
            "target.producer.acks": "-1",
            "producer.enable.idempotence": "TRUE",
        },
        {"producer.override.bootstrap.servers": "b:9092"},
        {"exactly.once.support": "required", "offsets.storage.topic": "mine", "config.action.reload": "none"},
        {"source.consumer.client.rack": "r1", "consumer.auto.offset.reset": "latest"},
        {"producer.override.compression.type": "zstd", "target.producer.compression.zstd.level": "9"},
        {"producer.override.batch.size": "32768", "spark.executor.memory": "2g"},
        {
            "bridge.transforms": "mask",
            "bridge.transforms.mask.type": "python:bridge.transforms.mask_fields",
            "bridge.transforms.mask.fields": "ssn",
        },
    ],
)
def test_what_happens_anyway_or_is_honoured_is_neither_an_error_nor_ignored(same: dict[str, str]) -> None:
    validated = KINDS["source"].validate({**SOURCE, **same}, CLIENTS)
    assert (validated.errors, validated.ignored) == ((), ())


def test_what_changes_only_speed_place_or_words_is_named_with_its_reason() -> None:
    result = ignoring(
        "source",
        tasks_max="8",
        errors_retry_timeout="60000",
        transaction_boundary="interval",
        transaction_boundary_interval_ms="500",
        key_converter_schemas_enable="false",
        producer_override_linger_ms="50",
        producer_override_acks="1",
        target_producer_max_request_size="9",
        source_consumer_fetch_max_bytes="1",
        consumer_override_max_poll_records="1",
        admin_override_retries="1",
        source_consumer_reconnect_backoff_ms="7",
        consumer_poll_timeout_ms="5",
        ssl_truststore_location="/x",
    )
    assert list(result) == sorted(result)
    assert "spark.default.parallelism" in result.pop("tasks.max")
    assert "transaction.interval.ms" in result.pop("transaction.boundary")
    assert "transaction.interval.ms" in result.pop("transaction.boundary.interval.ms")
    assert "transaction.interval.ms" in result.pop("producer.override.linger.ms")
    assert "in-sync" in result.pop("producer.override.acks")
    assert "max.message.bytes" in result.pop("target.producer.max.request.size")
    assert "source.consumer.*" in result.pop("consumer.override.max.poll.records")
    assert "target.admin.*" in result.pop("admin.override.retries")
    assert "source.cluster.ssl.truststore.location" in result.pop("ssl.truststore.location")
    assert set(result) == {
        *("errors.retry.timeout", "key.converter.schemas.enable", "source.consumer.fetch.max.bytes"),
        *("source.consumer.reconnect.backoff.ms", "consumer.poll.timeout.ms"),
    }


# -- connectors whose records pass the worker, and the one without -----------------------------------------------------


@pytest.mark.parametrize("kind", EMITTING)
def test_records_that_pass_the_worker_are_subject_to_connects_own_keys(kind: str) -> None:
    assert (
        ignoring(
            kind,
            transforms="m",
            transforms_m_type="x.Y",
            predicates="p",
            errors_tolerance="all",
            topic_creation_default_partitions="1",
            transaction_boundary="interval",
            producer_override_linger_ms="5",
            consumer_override_x="y",
            value_converter=BYTES,
            header_converter="org.apache.kafka.connect.storage.SimpleHeaderConverter",
        )
        == {}
    )


@pytest.mark.parametrize("kind", EMITTING)
@pytest.mark.parametrize("key", ["key.converter", "value.converter"])
def test_checkpoints_and_heartbeats_are_written_as_bytes_or_not_at_all(kind: str, key: str) -> None:
    errors = KINDS[kind].validate({**CONFIGS[kind], key: JSON}, CLIENTS).errors
    assert [error.key for error in errors] == [key]
    assert BYTES in errors[0].message


def test_a_connector_without_records_names_what_is_for_records() -> None:
    result = ignoring(
        "group_offset",
        tasks_max="4",
        transforms="m",
        transforms_m_type="x.Y",
        value_converter=JSON,
        errors_tolerance="all",
        producer_override_acks="0",
        admin_override_retries="3",
    )
    given = {
        "transforms",
        "transforms.m.type",
        "value.converter",
        "errors.tolerance",
        "producer.override.acks",
    }
    assert result == dict.fromkeys(given, "the connector produces no records")


def test_metrics_are_named_and_reported_where_stock_has_some() -> None:
    jmx = "org.apache.kafka.common.metrics.JmxReporter"
    for kind in ("source", "checkpoint"):
        for reporters in (jmx, ""):
            given = {"metric_reporters": reporters, "metric_names_formats": "legacy,new"}
            assert ignoring(kind, **given, metrics_jmx_include=".*", metrics_jmx_exclude="x") == {}
    for kind in ("heartbeat", "group_offset"):
        assert ignoring(kind, metric_reporters=jmx, metrics_jmx_include=".*").keys() == {
            "metric.reporters",
            "metrics.jmx.include",
        }


def test_heartbeats_go_on_whatever_enabled_says_and_that_is_named() -> None:
    assert "emit.heartbeats.enabled" in ignoring("heartbeat", enabled="false")["enabled"]
    assert ignoring("heartbeat", enabled="true") == {}
    assert ignoring("checkpoint", enabled="false") == {}


def test_clients_that_a_connector_does_not_make_are_named() -> None:
    assert "no such client" in ignoring("checkpoint", target_producer_acks="1")["target.producer.acks"]
    result = ignoring("heartbeat", source_cluster_bootstrap_servers="a:9092", source_admin_retries="2")
    assert set(result.values()) == {"the connector does not connect to the source"}
    assert "no such property" in ignoring("source", admin_linger_ms="1")["admin.linger.ms"]


# -- keys that are nobody's --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_that_nobody_has_is_named(kind: str) -> None:
    result = ignoring(kind, cron_schedule="daily", linger_ms="5", owner="me")
    assert "without a prefix it reaches no client" in result.pop("linger.ms")
    assert set(result) == {"cron.schedule", "owner"}
    own = ignoring(
        kind,
        cron_schedule="daily",
        replication_policy_class="python:bridge.mm2.replication_policy.DefaultReplicationPolicy",
    )
    assert "classes of your own may read it" in own["cron.schedule"]


def test_no_property_that_only_librdkafka_knows_passes_in_silence(librdkafka: set[str]) -> None:
    only = librdkafka - KNOWN
    assert {"queued.min.messages", "socket.timeout.ms", "queue.buffering.max.ms"} <= only
    for name in only:
        unprefixed = KINDS["source"].validate({**SOURCE, name: "1"}, CLIENTS)
        assert [each.key for each in unprefixed.ignored] == [name]
        for prefix in ("consumer", "source.consumer", "target.admin", "target.producer", "producer.override"):
            validated = KINDS["source"].validate({**SOURCE, f"{prefix}.{name}": "1"}, CLIENTS)
            assert [error.key for error in validated.errors] == [f"{prefix}.{name}"]


@pytest.mark.parametrize(
    ("key", "keys"),
    [
        ("target.cluster.compression.type", ["target.producer.compression.type"]),
        ("source.cluster.client.rack", ["source.consumer.client.rack"]),
        (
            "source.cluster.metadata.max.age.ms",
            ["source.consumer.metadata.max.age.ms", "source.producer.metadata.max.age.ms"],
        ),
        ("source.cluster.compression.type", []),
        ("source.cluster.max.poll.records", []),
    ],
)
def test_a_property_of_no_connection_is_ignored_and_named_with_keys_that_have_an_effect(
    key: str, keys: Sequence[str]
) -> None:
    validated = KINDS["source"].validate({**SOURCE, key: "1"}, CLIENTS)
    assert validated.errors == ()
    (ignored,) = validated.ignored
    assert ignored.key == key
    assert list(filter(None, ignored.reason.partition("; give ")[2].split(" or "))) == keys
    value = "zstd" if "compression" in key else "1"
    assert KINDS["source"].validate({**SOURCE, **dict.fromkeys(keys, value)}, CLIENTS).ignored == ()


def test_what_nobody_has_of_a_cluster_is_ignored_and_a_misspelling_is_an_error() -> None:
    validated = KINDS["source"].validate({**SOURCE, "source.cluster.sasl.username": "u"}, CLIENTS)
    assert (validated.errors, [each.key for each in validated.ignored]) == (
        (),
        ["source.cluster.sasl.username"],
    )
    (error,) = KINDS["source"].validate({**SOURCE, "source.cluster.securty.protocol": "SSL"}, CLIENTS).errors
    assert "did you mean 'source.cluster.security.protocol'?" in error.message


def test_a_key_of_workers_is_ignored() -> None:
    validated = KINDS["source"].validate({**SOURCE, "topic.creation.enable": "false"}, CLIENTS)
    assert (validated.errors, [each.key for each in validated.ignored]) == ((), ["topic.creation.enable"])


# -- what is shown -----------------------------------------------------------------------------------------------------


def test_values_that_do_nothing_are_not_visible_but_for_connects_own() -> None:
    given = {
        "tasks.max": "8",
        "consumer.fetch.min.bytes": "9",
        "security.protocol": "SSL",
        "my.secret": "s3cr3t",
    }
    validated = KINDS["source"].validate({**SOURCE, **given}, CLIENTS).response("x")
    assert {each.key for each in validated.ignored_settings} == set(given)
    unseen = {entry.value.name: entry.value.value for entry in validated.configs if not entry.value.visible}
    assert unseen == {"consumer.fetch.min.bytes": None, "security.protocol": "SSL", "my.secret": None}
    assert validated.error_count == 0
    assert "s3cr3t" not in validated.model_dump_json()


def test_of_values_that_say_the_same_case_and_blanks_do_not_matter() -> None:
    rule = ignored("why", "true")
    assert [rule.on(text) for text in ("true", " TRUE ", "", "false")] == [Effect.HONOURED] * 3 + [
        Effect.IGNORED
    ]
    assert honoured("how").on("anything") is Effect.HONOURED


@pytest.mark.parametrize("kind", KINDS)
def test_the_example_of_the_repository_has_nothing_that_does_nothing(kind: str) -> None:
    example = Path(__file__).parents[4] / "connectors" / kind / "connector.json"
    config = json.loads(example.read_text("utf-8"))["config"]
    assert KINDS[kind].validate(config, CLIENTS).ignored == ()
