"""The one definition of BridgeMirrorHeartbeatConnector's keys: stock's, in stock's order (stock §1.1, §1.4), then
ours."""

from __future__ import annotations

from dataclasses import replace

from bridge.model.key_rules import ignored
from connectors.config.client_keys import unprefixed_keys
from connectors.config.cluster_options import bridge_keys, cluster_keys
from connectors.config.configdef import ConfigDef, Importance, Key, Type
from connectors.config.keys import flag, interval, numbered
from connectors.config.mirror_options import mirror_keys
from connectors.config.validators import ReplicationFactor

EMIT, EMIT_INTERVAL = "emit.heartbeats.enabled", "emit.heartbeats.interval.seconds"
REPLICATION_FACTOR = "heartbeats.topic.replication.factor"

_GROUP = "Heartbeats"
_ENABLED = ignored("heartbeats go on, as in MirrorMaker; emit.heartbeats.enabled=false ends them", "true")

DEFINITION = ConfigDef(
    numbered(
        (
            *(replace(key, rule=_ENABLED) if key.name == "enabled" else key for key in mirror_keys("Mirror")),
            *unprefixed_keys(),
            flag(EMIT, "true", "Whether to emit heartbeats to target cluster.", _GROUP),
            interval(EMIT_INTERVAL, "1", "Frequency of heartbeats.", _GROUP),
            Key(
                REPLICATION_FACTOR,
                Type.SHORT,
                "3",
                Importance.LOW,
                "Replication factor for heartbeats topic; -1: the brokers' default.",
                _GROUP,
                validator=ReplicationFactor(),
            ),
            *bridge_keys("Bridge"),
            *cluster_keys("target", "Target cluster"),
        )
    )
)
