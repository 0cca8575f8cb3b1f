"""BridgeMirrorHeartbeatConnector's configuration, typed. `enabled` is no part of it (stock §1.1).

The one definition of BridgeMirrorHeartbeatConnector's keys: stock's, in stock's order (stock §1.1, §1.4), then
ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from bridge.mm2.replication_policy import ReplicationPolicy
from bridge.model.key_rules import ignored
from connectors.config.client_keys import unprefixed_keys
from connectors.config.cluster_options import bridge_keys, cluster_keys
from connectors.config.configdef import (
    ConfigDef,
    Importance,
    Key,
    ReplicationFactor,
    Type,
    ValidatedConfig,
    flag,
    given,
    interval,
    numbered,
)
from connectors.config.mirror_options import SOURCE_ALIAS, TARGET_ALIAS, mirror_errors, mirror_keys
from connectors.config.plugins import REPLICATION_POLICY, Plugins, sound, token_function_errors
from connectors.ports import ClientCheck

__all__ = ["DEFINITION", "HeartbeatOptions", "validate"]


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


Props = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class HeartbeatOptions:
    """The options of a heartbeat connector. `emit_interval` in seconds; a replication factor of -1 is the brokers'
    default."""

    source_alias: str
    target_alias: str
    emit_enabled: bool
    emit_interval: float
    replication_factor: int
    policy: ReplicationPolicy
    admin_timeout_ms: int
    lease_ms: int

    @staticmethod
    def from_props(props: Props, clients: ClientCheck) -> HeartbeatOptions:
        """Raises ConfigRejected with every error at once."""
        config, policy = _check(props, clients)
        config.raise_if_invalid()
        return HeartbeatOptions(
            source_alias=config.text(SOURCE_ALIAS),
            target_alias=config.text(TARGET_ALIAS),
            emit_enabled=config.flag(EMIT),
            emit_interval=float(config.number(EMIT_INTERVAL)),
            replication_factor=config.number(REPLICATION_FACTOR),
            policy=sound(policy),
            admin_timeout_ms=config.number("admin.timeout.ms"),
            lease_ms=config.number("bridge.task.lease.ms"),
        )


def validate(props: Props, clients: ClientCheck) -> ValidatedConfig:
    """Checks a configuration: every key with its value and errors; rules across keys, the policy and client properties
    included."""
    return _check(props, clients)[0]


def _check(props: Props, clients: ClientCheck) -> tuple[ValidatedConfig, ReplicationPolicy | None]:
    given_props = given(props)
    config = DEFINITION.validate(props).with_errors(clients.refused(given_props))
    plugins = Plugins(given_props, config)
    policy = plugins.load(REPLICATION_POLICY)
    # Nobody connects to the source here, and stock's JSON need not say how.
    used = {key: value for key, value in given_props.items() if not key.startswith("source.")}
    errors = [
        *mirror_errors(given_props, config),
        *clients.check(used),
        *token_function_errors(used, config),
        *plugins.errors,
    ]
    return config.with_errors(errors), policy
