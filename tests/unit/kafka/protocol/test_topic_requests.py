"""Requests that make and alter topics and their rules, against bytes of Kafka's own message classes (tests/golden)."""

from __future__ import annotations

from bridge.kafka.protocol import acl_requests, topic_requests
from bridge.model.topics import (
    ConfigEntry,
    ConfigSource,
    NewTopic,
    Operation,
    PatternType,
    Permission,
    TopicAcl,
)
from tests.unit.kafka.protocol.test_wire import MESSAGES, answer, encoded, read_whole

READ = TopicAcl("größe", PatternType.PREFIXED, "User:a", "*", Operation.READ, Permission.ALLOW)


def test_create_topics() -> None:
    call = topic_requests.create_topics([NewTopic("größe", 1, -1, {"cleanup.policy": "compact"})], 30_000)
    assert encoded(call, 4) == MESSAGES["create-topic", 4]
    reader = answer("create-topic-answer", 4, flexible=False)
    assert topic_requests.read_done_topics(reader) == {"größe": (38, "too few"), "good": (0, "")}
    assert read_whole(reader)


def test_create_partitions() -> None:
    call = topic_requests.create_partitions({"größe": 7}, 30_000)
    assert encoded(call, 1) == MESSAGES["create-partitions", 1]
    reader = answer("create-partitions-answer", 1, flexible=False)
    assert topic_requests.read_done_topics(reader) == {"größe": (37, "as many"), "good": (0, "")}
    assert read_whole(reader)


def test_describe_configs() -> None:
    assert encoded(topic_requests.describe_configs(["größe"]), 2) == MESSAGES["describe-configs", 2]
    reader = answer("describe-configs-answer", 2, flexible=False)
    assert topic_requests.read_described_configs(reader) == {
        "größe": (
            0,
            "",
            {
                "retention.ms": ConfigEntry("7", ConfigSource.DYNAMIC_TOPIC),
                "secret": ConfigEntry(None, ConfigSource.UNKNOWN, read_only=True, sensitive=True),
            },
        ),
        "gone": (3, "no such", {}),
    }
    assert read_whole(reader)


def test_alter_configs() -> None:
    call = topic_requests.alter_configs({"größe": {"retention.ms": "7", "retention.bytes": None}})
    assert encoded(call, 0) == MESSAGES["alter-configs", 0]
    reader = answer("alter-configs-answer", 0, flexible=False)
    assert topic_requests.read_altered_configs(reader) == {"größe": (40, "what"), "good": (0, "")}
    assert read_whole(reader)


def test_describe_acls() -> None:
    assert encoded(acl_requests.describe_topic_acls(), 1) == MESSAGES["describe-acls", 1]
    reader = answer("describe-acls-answer", 1, flexible=False)
    assert acl_requests.read_described_acls(reader) == (0, "", {READ}), "one has an operation of the future"
    assert read_whole(reader)


def test_create_and_delete_acls() -> None:
    assert encoded(acl_requests.create_acls([READ]), 1) == MESSAGES["create-acls", 1]
    reader = answer("create-acls-answer", 1, flexible=False)
    assert acl_requests.read_created_acls(reader) == [(0, ""), (31, "no")]
    assert read_whole(reader)
    assert encoded(acl_requests.delete_acls([READ]), 1) == MESSAGES["delete-acls", 1]
    reader = answer("delete-acls-answer", 1, flexible=False)
    assert acl_requests.read_deleted_acls(reader) == [(31, "no"), (0, "")]
    assert read_whole(reader)
