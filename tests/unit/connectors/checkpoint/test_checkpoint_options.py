"""BridgeMirrorCheckpointConnector's configuration; rows of stock's MirrorCheckpointConfigTest and
MirrorConnectorConfigTest carry the names of its tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

import connectors.checkpoint
from bridge.errors import ConfigRejected
from bridge.kafka.config.properties import ADMIN, CONSUMER, PRODUCER, ClientProps, KeyPrefixes
from bridge.model.values import Side
from connectors.checkpoint.options import CheckpointOptions, Evidences, validate
from connectors.group_translation.options import Rewind
from connectors.registry import KINDS
from tests.unit.connectors.configs import CHECKPOINT, CLIENTS

CONNECTOR_JSON = Path(connectors.checkpoint.__file__).with_name("connector.json")
CHECKPOINTS = (
    "emit.checkpoints.enabled",
    "MirrorCheckpointConnector can't run with emit.checkpoints.enabled set to false",
)
SYNCS = ("emit.offset-syncs.enabled", "MirrorCheckpointConnector can't run without offset syncs")


def options(changes: Mapping[str, str] | None = None) -> CheckpointOptions:
    return CheckpointOptions.from_props(CHECKPOINT | dict(changes or {}), CLIENTS)


def errors(changes: Mapping[str, str | None]) -> list[tuple[str, str]]:
    return [(error.key, error.message) for error in validate(CHECKPOINT | dict(changes), CLIENTS).errors]


def test_the_json_that_an_operator_puts_is_accepted() -> None:
    given = json.loads(CONNECTOR_JSON.read_text())
    assert given["config"]["connector.class"] == "BridgeMirrorCheckpointConnector"
    parsed = CheckpointOptions.from_props(given["config"], CLIENTS)
    assert (parsed.source_alias, parsed.target_alias, parsed.sync_enabled) == ("A", "B", True)


def test_the_kind_is_registered() -> None:
    kind = KINDS["checkpoint"]
    assert kind.connector_class == "dev.mirrorbridge.BridgeMirrorCheckpointConnector"
    assert kind.validate(CHECKPOINT, CLIENTS).errors == ()
    assert kind.definition.forbidden


def test_defaults_are_stocks() -> None:
    parsed = options()
    assert (parsed.enabled, parsed.emit_enabled, parsed.sync_enabled) == (True, True, False)
    assert (parsed.emit_interval, parsed.sync_interval) == (60.0, 60.0)
    assert (parsed.refresh_groups_enabled, parsed.refresh_groups_interval) == (True, 600.0)
    assert (parsed.admin_timeout_ms, parsed.lease_ms) == (60_000, 30_000)
    assert (parsed.checkpoints_replication_factor, parsed.offset_syncs_on_target) == (3, False)
    assert (parsed.evidence, parsed.rewind, parsed.dry_run) == (Evidences.BOTH, Rewind.NEVER, False)
    assert (parsed.assigned_groups, parsed.source_committed_only) == (None, False)
    assert parsed.group_filter.should_replicate_group("g")
    assert not parsed.group_filter.should_replicate_group("connect-x")
    assert not parsed.topic_filter.should_replicate_topic("__consumer_offsets")


def test_every_key_takes_effect() -> None:
    parsed = options(
        {
            "groups": "group1",
            "groups.exclude": "",
            "topics": "t",
            "refresh.groups.enabled": "False",
            "refresh.groups.interval.seconds": "5",
            "emit.checkpoints.interval.seconds": "6",
            "sync.group.offsets.enabled": " TRUE ",
            "sync.group.offsets.interval.seconds": "7",
            "sync.group.offsets.rewind": "empty-groups",
            "checkpoints.topic.replication.factor": "-1",
            "offset-syncs.topic.location": "target",
            "translation.evidence": "syncs",
            "consumer.poll.timeout.ms": "8",
            "admin.timeout.ms": "9",
            "dry.run": "true",
            "bridge.task.lease.ms": "5000",
            "source.consumer.isolation.level": "read_committed",
            "replication.policy.separator": "_",
        }
    )
    assert [parsed.topic_filter.should_replicate_topic(topic) for topic in ("t", "u")] == [True, False]
    assert (parsed.refresh_groups_enabled, parsed.refresh_groups_interval) == (False, 5.0)
    assert (parsed.emit_interval, parsed.sync_interval, parsed.sync_enabled) == (6.0, 7.0, True)
    assert (parsed.checkpoints_replication_factor, parsed.offset_syncs_on_target) == (-1, True)
    assert (parsed.evidence, parsed.rewind, parsed.dry_run) == (Evidences.SYNCS, Rewind.EMPTY_GROUPS, True)
    assert (parsed.admin_timeout_ms, parsed.lease_ms) == (9, 5000)
    assert parsed.source_committed_only
    assert parsed.policy.checkpoints_topic("source1") == "source1_checkpoints_internal"


# -- rows of stock's tests --------------------------------------------------------------------------------------------


def test_task_config_consumer_groups() -> None:
    """MirrorCheckpointConfigTest.testTaskConfigConsumerGroups"""
    groups = ("consumer-1", "consumer-2", "consumer-3")
    assert options({"task.assigned.groups": ",".join(groups)}).assigned_groups == groups


def test_group_matching() -> None:
    """MirrorCheckpointConfigTest.testGroupMatching"""
    parsed = options({"groups": "group1"})
    assert [parsed.group_filter.should_replicate_group(each) for each in ("group1", "group2")] == [
        True,
        False,
    ]


def test_non_mutation_of_config_def() -> None:
    """MirrorCheckpointConfigTest.testNonMutationOfConfigDef; task.assigned.groups is a key of ours, and filters."""
    assert {"task.index", "task.count", "bridge.kind"}.isdisjoint(KINDS["checkpoint"].definition.keys)


@pytest.mark.parametrize(("location", "interval"), [("source", "100"), ("target", "200")])
def test_consumer_configs_for_offset_syncs_topic(location: str, interval: str) -> None:
    """MirrorCheckpointConfigTest.testConsumerConfigsForOffsetSyncsTopic: the side's consumer properties are used."""
    changes = {
        "source.consumer.max.poll.interval.ms": "100",
        "target.consumer.max.poll.interval.ms": "200",
        "offset-syncs.topic.location": location,
    }
    side = Side.TARGET if options(changes).offset_syncs_on_target else Side.SOURCE
    assert (
        ClientProps(KeyPrefixes.for_side(side), CONSUMER, CHECKPOINT | changes).get("max.poll.interval.ms")
        == interval
    )


@pytest.mark.parametrize(
    ("enabled", "checkpoints", "syncs", "expected"),
    [
        ("true", "false", "true", [CHECKPOINTS]),
        ("true", "true", "false", [SYNCS]),
        ("true", "false", "false", [CHECKPOINTS, SYNCS]),
        ("true", "true", "true", []),
        (None, "false", "false", [CHECKPOINTS, SYNCS]),
    ],
)
def test_validate_if_connector_enabled(
    enabled: str | None, checkpoints: str, syncs: str, expected: list[tuple[str, str]]
) -> None:
    """MirrorCheckpointConfigTest.testValidateIfConnectorEnabled"""
    changes = {CHECKPOINTS[0]: checkpoints, SYNCS[0]: syncs, "enabled": enabled}
    assert errors(changes) == expected


def test_skip_validation_if_connector_disabled() -> None:
    """MirrorCheckpointConfigTest.testSkipValidationIfConnectorDisabled"""
    assert errors({CHECKPOINTS[0]: "false", SYNCS[0]: "false", "enabled": "false"}) == []


@pytest.mark.parametrize("false", ["FALSE", "False", " false ", "\tfAlSe"])
def test_b44_checks_across_keys_mind_neither_case_nor_whitespace(false: str) -> None:
    assert errors({CHECKPOINTS[0]: false, SYNCS[0]: false}) == [CHECKPOINTS, SYNCS]
    assert errors({CHECKPOINTS[0]: false, SYNCS[0]: false, "enabled": false}) == []
    assert errors({SYNCS[0]: "no"}) == [
        (
            SYNCS[0],
            f"Invalid value no for configuration {SYNCS[0]}: Expected value to be either true or false",
        )
    ]


def test_without_offset_syncs_where_none_are_used_is_right() -> None:
    assert errors({SYNCS[0]: "false", "translation.evidence": "timestamps"}) == []
    assert errors({CHECKPOINTS[0]: "false", "translation.evidence": "timestamps"}) == [CHECKPOINTS]


@pytest.mark.parametrize(
    ("side", "role", "given", "expected"),
    [
        pytest.param(
            Side.SOURCE,
            CONSUMER,
            {"consumer.max.poll.interval.ms": "120000"},
            {"max.poll.interval.ms": "120000"},
            id="MirrorConnectorConfigTest.testSourceConsumerConfig",
        ),
        pytest.param(
            Side.SOURCE,
            CONSUMER,
            {"source.consumer.auto.offset.reset": "latest", "source.consumer.max.poll.interval.ms": "100"},
            {"auto.offset.reset": "latest", "max.poll.interval.ms": "100"},
            id="MirrorConnectorConfigTest.testSourceConsumerConfigWithSourcePrefix",
        ),
        pytest.param(
            Side.SOURCE,
            PRODUCER,
            {"producer.acks": "1"},
            {"acks": "1"},
            id="MirrorConnectorConfigTest.testSourceProducerConfig",
        ),
        pytest.param(
            Side.SOURCE,
            PRODUCER,
            {"source.producer.acks": "1"},
            {"acks": "1"},
            id="MirrorConnectorConfigTest.testSourceProducerConfigWithSourcePrefix",
        ),
        pytest.param(
            Side.SOURCE,
            ADMIN,
            {"admin.connections.max.idle.ms": "10000"},
            {"connections.max.idle.ms": "10000"},
            id="MirrorConnectorConfigTest.testSourceAdminConfig",
        ),
        pytest.param(
            Side.SOURCE,
            ADMIN,
            {"source.admin.connections.max.idle.ms": "10000"},
            {"connections.max.idle.ms": "10000"},
            id="MirrorConnectorConfigTest.testSourceAdminConfigWithSourcePrefix",
        ),
        pytest.param(
            Side.TARGET,
            ADMIN,
            {"admin.connections.max.idle.ms": "10000"},
            {"connections.max.idle.ms": "10000"},
            id="MirrorConnectorConfigTest.testTargetAdminConfig",
        ),
        pytest.param(
            Side.TARGET,
            ADMIN,
            {"target.admin.connections.max.idle.ms": "10000", "source.admin.connections.max.idle.ms": "1"},
            {"connections.max.idle.ms": "10000"},
            id="MirrorConnectorConfigTest.testTargetAdminConfigWithSourcePrefix",
        ),
    ],
)
def test_client_properties(side: Side, role: str, given: dict[str, str], expected: dict[str, str]) -> None:
    props = ClientProps(KeyPrefixes.for_side(side), role, CHECKPOINT | given)
    assert errors(given) == []
    assert {name: props.get(name) for name in expected} == expected
    assert props.get("bootstrap.servers") == ("a:9092" if side is Side.SOURCE else "b:9092")


def test_invalid_security_protocol() -> None:
    """MirrorConnectorConfigTest.testInvalidSecurityProtocol"""
    why = "String must be one of (case insensitive): SASL_SSL, PLAINTEXT, SSL, SASL_PLAINTEXT"
    for key in ("security.protocol", "source.cluster.security.protocol"):
        assert errors({key: "abc"}) == [(key, f"Invalid value abc for configuration {key}: {why}")]


def test_case_insensitive_security_protocol() -> None:
    """MirrorConnectorConfigTest.testCaseInsensitiveSecurityProtocol"""
    assert errors({"security.protocol": "sasl_ssl"}) == []


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("emit.checkpoints.interval.seconds", "0", "Value must be at least 1"),
        ("sync.group.offsets.interval.seconds", "-1", "Value must be at least 1"),
        ("refresh.groups.interval.seconds", "0", "Value must be at least 1"),
        ("consumer.poll.timeout.ms", "0", "Value must be at least 1"),
        ("admin.timeout.ms", "-5", "Value must be at least 1"),
        ("checkpoints.topic.replication.factor", "0", "or -1 to use the broker's default"),
        ("checkpoints.topic.replication.factor", "-2", "Replication factor must be positive"),
        ("checkpoints.topic.replication.factor", "99999", "Not a number of type SHORT"),
        ("offset-syncs.topic.location", "something", "String must be one of: source, target"),
        ("offset-syncs.topic.location", "Source", "String must be one of: source, target"),
        ("translation.evidence", "none", "String must be one of: syncs, timestamps, both"),
        ("forwarding.admin.class", "x.Y", "one of: org.apache.kafka.clients.admin.ForwardingAdmin"),
        ("metric.reporters", "x.Y", "String must be one of: org.apache.kafka.common.metrics.JmxReporter"),
        ("replication.policy.class", "x.Policy", "Java classes can't be loaded here"),
        ("target.cluster.alias", "source1", "must differ from source.cluster.alias"),
        ("source.cluster.alias", "us.west", "contains the separator"),
        ("groups", "(", "is not a regular expression"),
    ],
)
def test_each_wrong_value_is_one_error_that_names_its_key(key: str, value: str, why: str) -> None:
    rejected = errors({key: value})
    assert [name for name, _ in rejected] == [key]
    assert rejected[0][1].startswith(f"Invalid value {value} for configuration {key}: ")
    assert why in rejected[0][1]


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("", "Configuration 'metric.names.formats' must not be empty. Valid values include: [legacy, new]"),
        ("new,new", "Configuration 'metric.names.formats' values must not be duplicated."),
        (
            "foo",
            "Invalid value foo for configuration metric.names.formats: String must be one of: legacy, new",
        ),
        ("legacy,new", None),
    ],
)
def test_metric_names_formats_is_checked_as_stock_does(value: str, error: str | None) -> None:
    assert errors({"metric.names.formats": value}) == ([("metric.names.formats", error)] if error else [])


@pytest.mark.parametrize("key", ["groups", "groups.exclude", "topics", "topics.exclude", "metric.reporters"])
def test_empty_lists_are_right_as_in_stock(key: str) -> None:
    """MirrorSourceConfigTest.testNoTopics: nothing is matched."""
    assert errors({key: ""}) == []
    assert options({"groups": ""}).group_filter.should_replicate_group("g") is False


def test_a_reference_that_only_a_java_provider_could_resolve_is_an_error() -> None:
    given = {"config.providers": "file,env", "config.providers.file.class": "x.FileConfigProvider"}
    assert errors(given) == []
    ((key, message),) = errors(given | {"source.cluster.sasl.jaas.config": "${file:/secrets:jaas}"})
    assert key == "config.providers"
    assert "source.cluster.sasl.jaas.config refers to ${file:...}" in message
    assert "worker's own config.providers" in message


def test_unprefixed_secrets_are_hidden() -> None:
    secret = "very-geheim"
    answer = validate(
        CHECKPOINT | {"sasl.jaas.config": secret, "ssl.key.password": secret}, CLIENTS
    ).response("x")
    assert answer.error_count == 0
    assert secret not in answer.model_dump_json()


def test_all_errors_come_at_once() -> None:
    wrong = {
        "enabled": "maybe",
        "emit.checkpoints.enabled": "FALSE",
        "emit.offset-syncs.enabled": "false",
        "checkpoints.topic.replication.factor": "0",
        "groups": "[",
        "sasl.login.refresh.window.factor": "7",
        "target.cluster.bootstrap.servers": "b:port",
    }
    with pytest.raises(ConfigRejected, match=r"the following 7 error\(s\)") as caught:
        options(wrong)
    assert {error.key for error in caught.value.errors} == set(wrong)
