"""MirrorGroupOffsetConnector's configuration: what is accepted, what it means, each wrong one by its key."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import connectors.group_offset
from bridge.errors import ConfigError, ConfigRejected
from connectors.group_offset.options import GroupOffsetOptions, Rewind, validate
from connectors.group_offset.task import KIND
from connectors.registry import KINDS
from tests.support.messages import message
from tests.unit.connectors.configs import CLIENTS, GROUP_OFFSET

CONNECTOR_JSON = Path(connectors.group_offset.__file__).with_name("connector.json")


def options(**changes: str) -> GroupOffsetOptions:
    return GroupOffsetOptions.from_props(
        GROUP_OFFSET | {key.replace("_", "."): value for key, value in changes.items()}, CLIENTS
    )


def errors(changes: Mapping[str, str | None]) -> list[tuple[str, str]]:
    return [(error.key, error.message) for error in validate(GROUP_OFFSET | dict(changes), CLIENTS).errors]


def test_the_json_that_an_operator_puts_is_accepted() -> None:
    given = json.loads(CONNECTOR_JSON.read_text())
    assert given["config"]["connector.class"] == "MirrorGroupOffsetConnector"
    parsed = GroupOffsetOptions.from_props(given["config"], CLIENTS)
    assert (parsed.source_alias, parsed.target_alias) == ("A", "B")
    assert parsed.group_filter.should_replicate_group("any")


def test_defaults_are_stocks() -> None:
    parsed = options()
    assert parsed.enabled
    assert (parsed.refresh_groups_enabled, parsed.refresh_groups_interval, parsed.sync_interval) == (
        True,
        600.0,
        60.0,
    )
    assert (parsed.admin_timeout_ms, parsed.lease_ms) == (60_000, 30_000)
    assert (parsed.verify, parsed.rewind, parsed.dry_run) == (True, Rewind.NEVER, False)
    assert parsed.assigned_groups is None
    assert not parsed.source_committed_only
    assert parsed.group_filter.should_replicate_group("g")
    assert not parsed.group_filter.should_replicate_group("console-consumer-1")
    assert parsed.topic_filter.should_replicate_topic("t.internal")
    assert not parsed.topic_filter.should_replicate_topic("mm2-offset-syncs.A.internal")
    assert parsed.policy.format_remote_topic("A", "t") == "A.t"


def test_every_key_takes_effect() -> None:
    parsed = options(
        enabled="false",
        groups="x.*",
        groups_exclude="xx",
        topics="t",
        topics_exclude="",
        refresh_groups_enabled="False",
        refresh_groups_interval_seconds="5",
        sync_group_offsets_interval_seconds="7",
        sync_group_offsets_rewind="empty-groups",
        consumer_poll_timeout_ms="8",
        admin_timeout_ms="9",
        task_assigned_groups="x1, x2",
        translation_verify="false",
        dry_run="true",
        bridge_task_lease_ms="5000",
        replication_policy_separator="-",
        replication_policy_class="IdentityReplicationPolicy",
    )
    assert not parsed.enabled
    assert [parsed.group_filter.should_replicate_group(g) for g in ("x", "xx", "y")] == [True, False, False]
    assert [parsed.topic_filter.should_replicate_topic(t) for t in ("t", "u")] == [True, False]
    assert (parsed.refresh_groups_enabled, parsed.refresh_groups_interval, parsed.sync_interval) == (
        False,
        5.0,
        7.0,
    )
    assert (parsed.admin_timeout_ms, parsed.lease_ms) == (9, 5000)
    assert (parsed.verify, parsed.rewind, parsed.dry_run) == (False, Rewind.EMPTY_GROUPS, True)
    assert parsed.assigned_groups == ("x1", "x2")
    assert parsed.policy.format_remote_topic("A", "heartbeats") == "A-heartbeats"
    assert parsed.policy.topic_source("t") == "A"


def test_group_is_another_name_for_groups() -> None:
    parsed = options(group="a, b")
    assert [parsed.group_filter.should_replicate_group(g) for g in ("a", "b", "c")] == [True, True, False]


@pytest.mark.parametrize(
    ("props", "committed"),
    [
        ({}, False),
        ({"consumer.isolation.level": "read_committed"}, True),
        ({"source.consumer.isolation.level": "read_committed"}, True),
        (
            {
                "consumer.isolation.level": "read_committed",
                "source.consumer.isolation.level": "read_uncommitted",
            },
            False,
        ),
        ({"target.consumer.isolation.level": "read_committed"}, False),
    ],
)
def test_the_mirror_is_known_to_copy_committed_data_only(props: dict[str, str], committed: bool) -> None:
    assert GroupOffsetOptions.from_props(GROUP_OFFSET | props, CLIENTS).source_committed_only is committed


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (
            "source.cluster.alias",
            None,
            'Missing required configuration "source.cluster.alias" which has no default',
        ),
        (
            "source.cluster.bootstrap.servers",
            None,
            'Missing required configuration "source.cluster.bootstrap.servers"',
        ),
        ("target.cluster.bootstrap.servers", "", "must not be empty"),
        ("target.cluster.bootstrap.servers", "b", "is not of the form host:port"),
        ("source.cluster.alias", "us.west", "contains the separator '.' of replication.policy.separator"),
        ("target.cluster.alias", "eu.west", "choose an alias without it, or another separator"),
        ("target.cluster.alias", "A", "must differ from source.cluster.alias"),
        ("source.cluster.alias", "a b", "takes only letters, digits"),
        ("source.cluster.alias", " ", "String must be non-empty"),
        ("groups", "a(b", "a(b is not a regular expression: a group is not closed"),
        ("group", "[", "a character class is not closed"),
        ("groups", "", "an empty list selects no groups"),
        ("topics", " ", "an empty list selects no topics"),
        ("groups", "a,a", "Configuration 'groups' values must not be duplicated."),
        ("groups.exclude", "a,,b", "Configuration 'groups.exclude' values must not be empty."),
        ("topics", "*", "* is not a regular expression: nothing to repeat"),
        ("topics.exclude", "(?<=a*)b", "look-behind requires fixed-width pattern"),
        ("sync.group.offsets.interval.seconds", "-1", "Value must be at least 1"),
        ("refresh.groups.interval.seconds", "0", "Value must be at least 1"),
        ("consumer.poll.timeout.ms", "-5", "Value must be at least 1"),
        ("admin.timeout.ms", "soon", "Not a number of type LONG"),
        ("enabled", "yes", "Expected value to be either true or false"),
        ("translation.verify", "1", "Expected value to be either true or false"),
        ("sync.group.offsets.rewind", "always", "String must be one of: never, empty-groups"),
        ("replication.policy.separator", "", "String must be non-empty"),
        ("replication.policy.class", "com.example.Policy", "Java classes can't be loaded here"),
        ("group.filter.class", "python:no.such.Filter", "No module named 'no'"),
        ("topic.filter.class", "DefaultGroupFilter", "org.apache.kafka.connect.mirror.DefaultTopicFilter"),
        ("bridge.url", "localhost:8900", "must be a URL like"),
        ("bridge.task.lease.ms", "4999", "Value must be at least 5000"),
        ("bridge.request.timeout.ms", "x", "Not a number of type INT"),
        ("source.cluster.security.protocol", "TLS", "String must be one of (case insensitive)"),
        (
            "source.cluster.ssl.truststore.type",
            "BKS",
            "String must be one of (case insensitive): JKS, PKCS12, PEM",
        ),
        ("source.admin.request.timeout.ms", "x", "Not a number of type INT"),
    ],
)
def test_each_wrong_value_is_one_error_that_names_its_key(key: str, value: str | None, why: str) -> None:
    rejected = errors({key: value})
    assert [name for name, _ in rejected] == [key]
    assert why in rejected[0][1]
    if value and value.strip() and "values must not be" not in why:
        assert f"Invalid value {value} for configuration {key}: " in rejected[0][1]


def test_group_and_groups_together_are_refused() -> None:
    rejected = errors({"group": "a", "groups": "b"})
    assert rejected == [("group", message("config.both_names", value="a"))]


def test_the_way_home_is_to_be_asked_for() -> None:
    asked = {"reverse.checkpointing.enabled": "true"}
    assert not GroupOffsetOptions.from_props(GROUP_OFFSET, CLIENTS).reverse
    assert GroupOffsetOptions.from_props(GROUP_OFFSET | asked, CLIENTS).reverse
    assert errors({"reverse.checkpointing.enabled": "maybe"})


def test_ten_wrong_values_are_ten_errors_at_once() -> None:
    wrong = {
        "source.cluster.alias": "a.b",
        "enabled": "maybe",
        "groups": "(",
        "topics": "[",
        "group.filter.class": "x.Y",
        "topic.filter.class": "python:nope",
        "sync.group.offsets.interval.seconds": "-60",
        "sync.group.offsets.rewind": "yes",
        "bridge.url": "nowhere",
        "target.cluster.bootstrap.servers": "b:port",
    }
    with pytest.raises(ConfigRejected, match=r"contains the following 10 error\(s\)") as caught:
        GroupOffsetOptions.from_props(GROUP_OFFSET | wrong, CLIENTS)
    assert {error.key for error in caught.value.errors} == set(wrong)


def test_an_alias_with_a_dot_is_fine_with_another_separator() -> None:
    assert errors({"source.cluster.alias": "us.west", "replication.policy.separator": "-"}) == []


def test_keys_of_connect_are_none_of_ours() -> None:
    framework = {
        "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "transforms": "a",
        "transforms.a.type": "x.Y",
        "errors.tolerance": "all",
        "topic.creation.default.partitions": "1",
        "producer.override.linger.ms": "5",
        "tasks.max.enforce": "true",
        "exactly.once.support": "requested",
        "offset.lag.max": "100",
    }
    assert errors(framework) == []


def test_secrets_are_hidden_in_values_and_errors() -> None:
    secret = "very-geheim"
    props = GROUP_OFFSET | {
        "source.cluster.security.protocol": "SASL_PLAINTEXT",
        "source.cluster.sasl.mechanism": "PLAIN",
        "source.cluster.sasl.jaas.config": f'x.PlainLoginModule required username="u" password="{secret}"',
        "bridge.auth.token": secret,
        "target.cluster.ssl.key.password": secret,
    }
    checked = validate(props, CLIENTS)
    assert [error.key for error in checked.errors] == ["source.cluster.sasl.jaas.config"]
    answer = checked.response("x")
    values = {entry.value.name: entry.value.value for entry in answer.configs}
    assert values["bridge.auth.token"] == values["source.cluster.sasl.jaas.config"] == "[hidden]"
    assert secret not in answer.model_dump_json() + repr(checked)


def test_the_kind_is_registered() -> None:
    kind = KINDS["group_offset"]
    assert kind is KIND
    assert kind.connector_class == "org.apache.kafka.connect.mirror.MirrorGroupOffsetConnector"
    assert kind.validate(GROUP_OFFSET, CLIENTS).errors == ()
    assert "group" in kind.definition.keys


def test_errors_of_the_client_check_are_among_them() -> None:
    class Picky:
        def refused(self, props: object) -> tuple[()]:
            return ()

        def check(self, props: Mapping[str, str]) -> Sequence[ConfigError]:
            return [ConfigError("source.admin.x", f"{len(props)} keys and none is right")]

        def check_producer(self, side: object, props: object) -> tuple[()]:
            return ()

        def rule(self, use: object, name: object) -> None:
            return None

        properties = ()

    errors = validate(GROUP_OFFSET, Picky()).errors
    assert errors == (ConfigError("source.admin.x", "7 keys and none is right"),)
