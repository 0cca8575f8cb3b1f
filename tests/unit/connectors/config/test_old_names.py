"""No key's old name is ignored in silence: each is an error of validate that says what to give."""

from __future__ import annotations

import pytest

from bridge.kafka.config.settings import StaticClientCheck
from connectors.base import Kind
from connectors.config.old_names import OLD_NAMES, instead
from connectors.registry import KINDS
from tests.unit.connectors.configs import CONFIGS

DRAFT = [
    "topics.blacklist",
    "rename.topics",
    "emit.heartbeats",
    "emit.checkpoints",
    "refresh.topics",
    "refresh.groups",
    "readahead.queue.capacity",
    "heartbeat.retention.ms",
    "checkpoint.retention.ms",
    "sync.topic.configs",
    "sync.topic.acls",
    "remote.admin.retries",
]
"""KIP-382's keys that never shipped under these names."""
BEFORE_4 = ["topics.blacklist", "groups.blacklist", "config.properties.blacklist"]
"""Names that KIP-629 has replaced."""
OTHERS = ["whitelist", "blacklist", "source.cluster.broker.list", "target.cluster.brokers.list"]


def said(kind: Kind, key: str) -> list[str]:
    config = kind.validate({**CONFIGS[kind.kind], key: "x"}, StaticClientCheck())
    return [error.message for error in config.errors if error.key == key]


@pytest.mark.parametrize("key", sorted({*OLD_NAMES, *DRAFT, *BEFORE_4, *OTHERS}))
@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.kind)
def test_an_old_name_is_an_error_that_says_what_to_give(kind: Kind, key: str) -> None:
    assert said(kind, key) == [f"Unknown configuration '{key}': {instead(key)}"]


@pytest.mark.parametrize("key", sorted(OLD_NAMES))
def test_what_an_old_name_became_is_a_key(key: str) -> None:
    new = (instead(key) or "").removeprefix("its name is ")
    if " " not in new:
        assert any(new in kind.definition.keys for kind in KINDS.values()), new


def test_names_that_are_no_old_ones_are_none() -> None:
    assert [instead(key) for key in ("topics", "remote.admin.", "remote.admin", "x")] == [None] * 4


def test_what_has_replaced_a_list_of_an_admin_is_named() -> None:
    assert instead("remote.admin.retries") == "its name is source.admin.retries or target.admin.retries"
