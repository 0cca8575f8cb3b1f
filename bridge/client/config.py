"""MirrorClientConfig (stock §1.9): bootstrap servers, client properties and replication policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bridge.errors import ConfigRejected
from bridge.kafka.config.properties import KeyPrefixes
from bridge.kafka.config.settings import ClientSettings, settings_at
from bridge.mm2.replication_policy import ReplicationPolicy
from bridge.model.java_values import given
from bridge.model.values import Side
from connectors.config.configdef import REQUIRED, ConfigDef, Importance, Key, Type
from connectors.config.mirror_options import mirror_keys, separator_errors
from connectors.config.plugins import REPLICATION_POLICY, Plugins, sound
from connectors.config.validators import ListOf

_GROUP = "Mirror client"
_NAMES = (
    "replication.policy.class",
    "replication.policy.separator",
    "replication.policy.internal.topic.separator.enabled",
    "replication.policy.aliases",
    "replication.policy.topic.map",
    "replication.policy.topic.map.file",
    "forwarding.admin.class",
)


@dataclass(frozen=True, slots=True)
class MirrorClientConfig:
    settings: ClientSettings
    policy: ReplicationPolicy


def read_config(props: Mapping[str, str], side: Side | None = None) -> MirrorClientConfig:
    """Reads Kafka's client properties as they are, under `admin.` and under `consumer.`, and `replication.policy.*`;
    with a side, a connector's configuration (`source.cluster.*`, `target.cluster.*` and so on). Unknown keys are
    ignored, as in stock. Raises ConfigRejected with all errors at once.

    Stock drops client properties that are not about connection and security; here they work, or are an error.
    """
    props = given(props)
    prefixes = KeyPrefixes() if side is None else KeyPrefixes.of(side)
    config = _definition(prefixes).validate(props)
    plugins = Plugins(props, config)
    policy = plugins.load(REPLICATION_POLICY)
    errors = [*config.errors, *separator_errors(config), *plugins.errors]
    try:
        settings = settings_at(prefixes, props)
    except ConfigRejected as rejected:
        keys = {error.key for error in errors}
        errors += [error for error in rejected.errors if error.key not in keys]
        raise ConfigRejected(errors) from None
    if errors:
        raise ConfigRejected(errors)
    return MirrorClientConfig(settings, sound(policy))


def _definition(prefixes: KeyPrefixes) -> ConfigDef:
    bootstrap = Key(
        f"{prefixes.connection}bootstrap.servers",
        Type.LIST,
        REQUIRED,
        Importance.HIGH,
        "Brokers for the first connection, as host:port.",
        _GROUP,
        validator=ListOf(allow_empty=False),
    )
    return ConfigDef([bootstrap, *(key for key in mirror_keys(_GROUP) if key.name in _NAMES)])
