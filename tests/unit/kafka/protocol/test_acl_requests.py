"""Requests about the ACLs of topics, against bytes of Kafka's own message classes (tests/golden)."""

from __future__ import annotations

from bridge.kafka.protocol import admin_requests
from bridge.model.topics import PatternType, Permission, TopicAcl, TopicOperation
from tests.unit.kafka.protocol.golden import MESSAGES, answer, encoded, read_whole

READ = TopicAcl("größe", PatternType.PREFIXED, "User:a", "*", TopicOperation.READ, Permission.ALLOW)


def test_describe_acls() -> None:
    assert encoded(admin_requests.describe_topic_acls(), 1) == MESSAGES["describe-acls", 1]
    reader = answer("describe-acls-answer", 1, flexible=False)
    assert admin_requests.read_described_acls(reader) == (0, "", {READ}), "one has an operation of the future"
    assert read_whole(reader)


def test_delete_acls() -> None:
    assert encoded(admin_requests.delete_acls([READ]), 1) == MESSAGES["delete-acls", 1]
    reader = answer("delete-acls-answer", 1, flexible=False)
    assert admin_requests.read_deleted_acls(reader) == [(31, "no"), (0, "")]
    assert read_whole(reader)
