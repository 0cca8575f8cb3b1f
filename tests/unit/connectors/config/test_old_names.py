"""No key's old name is ignored in silence: each is an error of validate that says what to give."""

from __future__ import annotations

import pytest

from bridge.kafka.config.settings import StaticClientCheck
from connectors.base import Kind
from connectors.config.key_effects import OLD_NAMES, instead
from connectors.registry import KINDS
from tests.unit.connectors.configs import CONFIGS

DRAFT = {
    "topics.blacklist": "topics.exclude",
    "rename.topics": "replication.policy.class",
    "emit.heartbeats": "emit.heartbeats.enabled",
    "emit.checkpoints": "emit.checkpoints.enabled",
    "refresh.topics": "refresh.topics.enabled",
    "refresh.groups": "refresh.groups.enabled",
    "readahead.queue.capacity": "leave it out",
    "heartbeat.retention.ms": "leave it out",
    "checkpoint.retention.ms": "leave it out",
    "sync.topic.configs": "sync.topic.configs.enabled",
    "sync.topic.acls": "sync.topic.acls.enabled",
    "remote.admin.retries": "source.admin.retries or target.admin.retries",
}
"""KIP-382's keys that never shipped under these names, and what to give instead."""
BEFORE_4 = {
    "topics.blacklist": "topics.exclude",
    "groups.blacklist": "groups.exclude",
    "config.properties.blacklist": "config.properties.exclude",
}
"""Names that KIP-629 has replaced."""
OTHERS = {
    "whitelist": "topics",
    "blacklist": "topics.exclude",
    "topic.blacklist": "topics.exclude",
    "group.whitelist": "groups",
    "source.cluster.broker.list": "source.cluster.bootstrap.servers",
    "target.cluster.brokers.list": "target.cluster.bootstrap.servers",
}
INSTEAD = DRAFT | BEFORE_4 | OTHERS


def said(kind: Kind, key: str) -> list[str]:
    config = kind.validate({**CONFIGS[kind.kind], key: "x"}, StaticClientCheck())
    return [error.message for error in config.errors if error.key == key]


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.kind)
def test_an_old_name_is_an_error_that_says_what_to_give(kind: Kind) -> None:
    for key in sorted({*OLD_NAMES, *INSTEAD}):
        (error,) = said(kind, key)
        assert f"'{key}'" in error
        assert INSTEAD.get(key, "") in error


@pytest.mark.parametrize("key", sorted(OLD_NAMES))
def test_what_an_old_name_became_is_a_key(key: str) -> None:
    new = (instead(key) or "").removeprefix("its name is ")
    if " " not in new:
        assert any(new in kind.definition.keys for kind in KINDS.values()), new


def test_names_that_are_no_old_ones_are_none() -> None:
    assert [instead(key) for key in ("topics", "remote.admin.", "remote.admin", "x")] == [None] * 4
