"""Topics, configs and ACLs by the library: what it is asked for, and what its answers become."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin._acl import AclOperation, AclPermissionType
from confluent_kafka.admin._config import AlterConfigOpType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from bridge.errors import KafkaFault
from bridge.kafka.admin.topic_admin import KafkaTopicAdmin
from bridge.model.topics import (
    NewTopic,
    PatternType,
    Permission,
    TopicAcl,
    TopicOperation,
)
from tests.support.messages import message
from tests.unit.kafka.admin.library import Library, done

T = TypeVar("T")
READ = TopicAcl("größe", PatternType.PREFIXED, "User:a", "*", TopicOperation.READ, Permission.ALLOW)
WRITE = READ._replace(operation=TopicOperation.WRITE, permission=Permission.DENY)
REFUSED = "Request Request(processor=1, session=Session(User:alice,/127.0.0.1)) is not authorized."


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    return Library(monkeypatch)


def asked(library: Library, work: Callable[[KafkaTopicAdmin], Awaitable[T]]) -> T:
    return library.run(lambda client: work(KafkaTopicAdmin(client, library.network)))


def test_topics_are_made_in_parts(library: Library) -> None:
    errors = {"t-0": KafkaError(36), "t-1": KafkaError(40, "no.such is unknown"), "t-2": KafkaError(29)}
    library.answers(
        "create_topics", lambda topics: {each.topic: done(errors.get(each.topic)) for each in topics}
    )
    topics = [NewTopic(f"t-{number}", 48, -1, {"retention.ms": "7"}) for number in range(204)]
    result = asked(library, lambda admin: admin.create_topics(topics))
    assert [len(requested) for _, requested, _ in library.asked] == [80, 80, 44], "4,000 records a call"
    (first, *_) = library.asked[0][1]
    assert (first.topic, first.num_partitions, first.replication_factor) == ("t-0", 48, -1)
    assert first.config == {"retention.ms": "7"}
    assert result.keys() == {topic.name for topic in topics}
    failures = {name: failure for name, failure in result.items() if failure is not None}
    assert failures.keys() == {"t-1", "t-2"}, "one that exists is no failure"
    assert str(failures["t-1"]) == message("kafka.doing", said="no.such is unknown", doing="create topic t-1")
    assert failures["t-2"].fault is KafkaFault.NOT_AUTHORIZED
    assert "grant CREATE on topic t-2" in str(failures["t-2"])


def test_a_topic_that_has_as_many_partitions_already_is_no_failure(library: Library) -> None:
    codes = {"grown": 0, "larger": 37, "gone": 3}
    library.answers(
        "create_partitions",
        lambda requested: {
            each.topic: done(KafkaError(codes[each.topic]) if codes[each.topic] else None)
            for each in requested
        },
    )
    result = asked(library, lambda admin: admin.create_partitions({"grown": 7, "larger": 2, "gone": 3}))
    assert [each.new_total_count for each in library.asked[0][1]] == [7, 2, 3]
    assert (result["grown"], result["larger"]) == (None, None)
    assert result["gone"] is not None
    assert result["gone"].fault is KafkaFault.UNKNOWN_TOPIC


def test_partitions_and_overrides_are_made_in_parts_too(library: Library) -> None:
    library.answers("create_partitions", lambda topics: {each.topic: done(None) for each in topics})
    library.answers("incremental_alter_configs", lambda topics: {each: done(None) for each in topics})
    totals = {f"t-{number}": total for number, total in enumerate((3_000, 1_500, 2_500, 9_000, 1))}
    asked(library, lambda admin: admin.create_partitions(totals))
    changes = {name: dict.fromkeys(map(str, range(30)), "x") for name in map(str, range(300))}
    asked(library, lambda admin: admin.alter_configs(changes))
    sizes = [len(requested) for _, requested, _ in library.asked]
    assert sizes == [1, 2, 1, 1, 133, 133, 34]


def test_overrides_are_set_and_taken_away(library: Library) -> None:
    library.answers(
        "incremental_alter_configs",
        lambda requested: {
            each: done(KafkaError(40, "what") if each.name == "bad" else None) for each in requested
        },
    )
    changes: dict[str, dict[str, str | None]] = {
        "good": {"retention.ms": "7", "retention.bytes": None},
        "bad": {"x": ""},
    }
    result = asked(library, lambda admin: admin.alter_configs(changes))
    sent = {
        each.name: [
            (entry.name, entry.value, entry.incremental_operation) for entry in each.incremental_configs
        ]
        for each in library.asked[0][1]
    }
    assert sent == {
        "good": [
            ("retention.ms", "7", AlterConfigOpType.SET),
            ("retention.bytes", None, AlterConfigOpType.DELETE),
        ],
        "bad": [("x", "", AlterConfigOpType.SET)],
    }
    assert result["good"] is None
    assert str(result["bad"]) == message("kafka.doing", said="what", doing="alter configs of topic bad")


def test_of_overrides_that_are_refused_each_is_tried_alone(library: Library) -> None:
    """One that is refused holds up no other one of its topic; a right that is missing is missing for all."""

    def answer(requested: Any) -> dict[Any, Any]:
        return {
            each: done(error(each.name, {entry.name for entry in each.incremental_configs}))
            for each in requested
        }

    def error(topic: str, keys: set[str]) -> KafkaError | None:
        if topic == "denied":
            return KafkaError(29)
        wrong = sorted(keys & {"a", "c"})
        return KafkaError(40, f"{wrong[0]} is wrong") if wrong and topic != "good" else None

    library.answers("incremental_alter_configs", answer)
    four: dict[str, str | None] = {"a": "1", "b": "2", "c": None, "d": "4"}
    one: dict[str, str | None] = {"a": "1"}
    changes = {"bad": four, "good": four, "denied": four, "one": one}
    result = asked(library, lambda admin: admin.alter_configs(changes))
    sent = [
        [(each.name, len(each.incremental_configs)) for each in requested]
        for _, requested, _ in library.asked
    ]
    assert sent == [[("bad", 4), ("good", 4), ("denied", 4), ("one", 1)], *[[("bad", 1)]] * 4]
    assert result["good"] is None
    assert result["denied"] is not None
    assert result["denied"].fault is KafkaFault.NOT_AUTHORIZED
    for name, wrong in {"bad": ["a", "c"], "one": ["a"]}.items():
        assert all(f"{key} is wrong" in str(result[name]) for key in wrong)


def test_rules_are_made_one_by_one(library: Library) -> None:
    def answer(requested: Any) -> dict[Any, Any]:
        return {
            each: done(KafkaError(31, REFUSED) if each.operation is AclOperation.WRITE else None)
            for each in requested
        }

    library.answers("create_acls", answer)
    result = asked(library, lambda admin: admin.create_acls([READ, WRITE]))
    assert result[READ] is None
    assert "User:alice" in str(result[WRITE])
    assert "grant ALTER on the cluster" in str(result[WRITE])
    each = library.asked[0][1][1]
    assert (each.restype, each.name, each.principal, each.host) == (
        ResourceType.TOPIC,
        "größe",
        "User:a",
        "*",
    )
    assert (each.resource_pattern_type, each.operation, each.permission_type) == (
        ResourcePatternType.PREFIXED,
        AclOperation.WRITE,
        AclPermissionType.DENY,
    )
