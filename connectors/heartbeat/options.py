"""BridgeMirrorHeartbeatConnector's configuration, typed. `enabled` is no part of it (stock §1.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bridge.mm2.replication_policy import ReplicationPolicy
from connectors.config.configdef import ValidatedConfig, given
from connectors.config.mirror_options import SOURCE_ALIAS, TARGET_ALIAS, mirror_errors
from connectors.config.plugins import REPLICATION_POLICY, Plugins, sound
from connectors.config.token_functions import token_function_errors
from connectors.heartbeat.definition import DEFINITION, EMIT, EMIT_INTERVAL, REPLICATION_FACTOR
from connectors.ports import ClientCheck

__all__ = ["DEFINITION", "HeartbeatOptions", "validate"]

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
