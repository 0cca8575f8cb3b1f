"""Keys that are written nearly as a known one are errors that name it; all others are left alone."""

from __future__ import annotations

import time

import pytest

from bridge.kafka.config.settings import StaticClientCheck
from connectors.registry import KINDS
from tests.unit.connectors.configs import CONFIGS

CLIENTS = StaticClientCheck()


def errors(kind: str, **changes: str) -> list[tuple[str, str]]:
    validated = KINDS[kind].validate({**CONFIGS[kind], **changes}, CLIENTS)
    assert not {error.key for error in validated.errors} & {each.key for each in validated.ignored}
    return [(error.key, error.message) for error in validated.errors]


MEANT = [
    ("group_offset", "groupz", "groups"),
    ("group_offset", "Groups", "groups"),
    ("group_offset", "groups ", "groups"),
    ("group_offset", "gruops", "groups"),
    ("group_offset", "tasks.maxx", "tasks.max"),
    ("checkpoint", "sync.groups.offset.enabled", "sync.group.offsets.enabled"),
    ("checkpoint", "emit_checkpoints_enabled", "emit.checkpoints.enabled"),
    ("checkpoint", "offset.syncs.topic.location", "offset-syncs.topic.location"),
    ("heartbeat", "emit.heartbeat.enabled", "emit.heartbeats.enabled"),
    ("source", "sync.topic.config.enabled", "sync.topic.configs.enabled"),
    ("source", "topic", "topics"),
    ("source", "transform", "transforms"),
    ("source", "replication.policy.seperator", "replication.policy.separator"),
    ("source", "source.cluster.bootstrap.server", "source.cluster.bootstrap.servers"),
    ("source", "source.cluser.bootstrap.servers", "source.cluster.bootstrap.servers"),
    ("source", "source.cluster.ssl.truststore.pasword", "source.cluster.ssl.truststore.password"),
    ("source", "source.consumer.isolation.levl", "source.consumer.isolation.level"),
    ("source", "source-consumer.isolation.level", "source.consumer.isolation.level"),
    ("source", "producer.overide.compression.type", "producer.override.compression.type"),
    ("source", "target.producr.batch.size", "target.producer.batch.size"),
]


@pytest.mark.parametrize(("kind", "key", "meant"), MEANT)
def test_a_misspelling_is_one_error_that_says_what_was_meant(kind: str, key: str, meant: str) -> None:
    assert errors(kind, **{key: "s3cr3t"}) == [
        (key, f"Unknown configuration '{key}': did you mean '{meant}'?")
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_the_known_key_beside_it_is_judged_as_ever(kind: str) -> None:
    rejected = errors(
        kind, **{"target.cluster.bootstrap.servers": "", "target.cluster.bootstrap.server": "b:9"}
    )
    assert {key for key, _ in rejected} == {
        "target.cluster.bootstrap.servers",
        "target.cluster.bootstrap.server",
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "key",
    [
        *("owner", "team.name", "cron.schedule", "names", "grupzz", "A->B.enabled"),
        *("task.assigned.partitions", "offset.storage.topic", "my.consumer.note"),
    ],
)
def test_a_key_that_is_near_none_is_no_error(kind: str, key: str) -> None:
    assert errors(kind, **{key: "1"}) == []


def test_a_key_that_another_kind_has_is_no_misspelling_but_for_group() -> None:
    """Only MirrorGroupOffsetConnector has it, so that in a checkpoint connector it would mean all groups."""
    for kind, each in KINDS.items():
        for other in KINDS.values():
            foreign = other.definition.keys.keys() - each.definition.keys.keys()
            wrong = {
                key for key, message in errors(kind, **dict.fromkeys(foreign, "")) if "Unknown" in message
            }
            assert wrong == ({"group"} if "group" in foreign and "groups" in each.definition.keys else set())


def test_no_property_of_librdkafka_is_taken_for_a_misspelling(librdkafka: set[str]) -> None:
    for kind in KINDS:
        rejected = errors(kind, **dict.fromkeys(librdkafka, ""))
        assert [message for _, message in rejected if "Unknown" in message] == []


def test_many_and_long_keys_cost_little() -> None:
    began = time.process_time()
    errors("source", **{"a." * 200_000: "1"}, **{f"note.of.number.{number}": "" for number in range(2_000)})
    assert time.process_time() - began < 10


def test_a_key_that_would_do_nothing_here_is_not_what_was_meant() -> None:
    assert errors("checkpoint", **{"target.producr.acks": "1"}) == []
    assert errors("heartbeat", **{"sorce.admin.retries": "1"}) == []
