"""BridgeMirrorHeartbeatConnector's configuration: what is accepted, what it means, each wrong one by its key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

import connectors.heartbeat
from connectors.heartbeat.options import HeartbeatOptions, validate
from connectors.registry import KINDS
from tests.unit.connectors.configs import CLIENTS, HEARTBEAT

CONNECTOR_JSON = Path(connectors.heartbeat.__file__).with_name("connector.json")


def errors(changes: Mapping[str, str | None]) -> list[tuple[str, str]]:
    return [(error.key, error.message) for error in validate(HEARTBEAT | dict(changes), CLIENTS).errors]


def test_the_json_that_an_operator_puts_is_accepted() -> None:
    given = json.loads(CONNECTOR_JSON.read_text())
    assert given["config"]["connector.class"] == "BridgeMirrorHeartbeatConnector"
    assert HeartbeatOptions.from_props(given["config"], CLIENTS).target_alias == "B"


def test_the_kind_is_registered() -> None:
    kind = KINDS["heartbeat"]
    assert kind.connector_class == "dev.mirrorbridge.BridgeMirrorHeartbeatConnector"
    assert kind.validate(HEARTBEAT, CLIENTS).errors == ()


def test_defaults_are_stocks() -> None:
    parsed = HeartbeatOptions.from_props(HEARTBEAT, CLIENTS)
    assert (parsed.source_alias, parsed.target_alias) == ("A", "B")
    assert (parsed.emit_enabled, parsed.emit_interval, parsed.replication_factor) == (True, 1.0, 3)
    assert (parsed.admin_timeout_ms, parsed.lease_ms) == (60_000, 30_000)
    assert parsed.policy.heartbeats_topic() == "heartbeats"


def test_every_key_takes_effect() -> None:
    parsed = HeartbeatOptions.from_props(
        HEARTBEAT
        | {
            "emit.heartbeats.enabled": "FALSE",
            "emit.heartbeats.interval.seconds": "5",
            "heartbeats.topic.replication.factor": "-1",
            "admin.timeout.ms": "7",
            "bridge.task.lease.ms": "6000",
            "replication.policy.class": "IdentityReplicationPolicy",
        },
        CLIENTS,
    )
    assert (parsed.emit_enabled, parsed.emit_interval, parsed.replication_factor) == (False, 5.0, -1)
    assert (parsed.admin_timeout_ms, parsed.lease_ms) == (7, 6000)
    assert parsed.policy.topic_source("t") == "A"


def test_the_source_cluster_is_nobodys_business() -> None:
    """Stock's connector does not connect to it: a JSON that says nothing of it, or what fits stock only, works."""
    assert errors({"source.cluster.ssl.engine.factory.class": "x.Y", "source.admin.foo": "1"}) == []
    assert errors({"target.cluster.ssl.engine.factory.class": "x.Y"}) != []
    assert not any(key.startswith("source.cluster.b") for key in KINDS["heartbeat"].definition.keys)


def test_emit_checkpoints_and_offset_syncs_are_nobodys_business_either() -> None:
    assert errors({"emit.checkpoints.enabled": "false", "emit.offset-syncs.enabled": "false"}) == []


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("source.cluster.alias", None, "Missing required configuration"),
        ("target.cluster.bootstrap.servers", None, "Missing required configuration"),
        ("target.cluster.bootstrap.servers", "b", "is not of the form host:port"),
        ("target.cluster.alias", "A", "must differ from source.cluster.alias"),
        ("emit.heartbeats.enabled", "yes", "Expected value to be either true or false"),
        ("emit.heartbeats.interval.seconds", "0", "Value must be at least 1"),
        ("emit.heartbeats.interval.seconds", "x", "Not a number of type LONG"),
        ("heartbeats.topic.replication.factor", "0", "or -1 to use the broker's default"),
        ("heartbeats.topic.replication.factor", "32768", "Not a number of type SHORT"),
        ("admin.timeout.ms", "0", "Value must be at least 1"),
        ("replication.policy.class", "x.Y", "Java classes can't be loaded here"),
        ("forwarding.admin.class", "x.Y", "String must be one of"),
        ("security.protocol", "abc", "String must be one of (case insensitive)"),
    ],
)
def test_each_wrong_value_is_one_error_that_names_its_key(key: str, value: str | None, why: str) -> None:
    rejected = errors({key: value})
    assert [name for name, _ in rejected] == [key]
    assert why in rejected[0][1]
