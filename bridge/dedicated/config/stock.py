"""Stock's MirrorMakerConfig: which settings of a file a cluster, a worker and the connectors of a flow get, and which
of them win (stock §1.7).

Every setting is kept with the key of the file that it comes from, so that errors can name that one.

Names that stock's file of dedicated mode has (stock §1.7): those of connectors' keys, of clients, and of what is in
front of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bridge.dedicated.config.plan import ROLES
from bridge.model.java_values import split_list
from connectors.config.client_keys import unprefixed_keys

CLUSTERS = "clusters"
PROVIDERS = "config.providers"
INTERNAL_REST = "dedicated.mode.enable.internal.rest"
POLICY = "replication.policy"
ENABLED = "enabled"
TASKS_MAX = "tasks.max"
EMIT_HEARTBEATS, EMIT_CHECKPOINTS = "emit.heartbeats.enabled", "emit.checkpoints.enabled"
EMIT_SYNCS, SYNC_GROUPS = "emit.offset-syncs.enabled", "sync.group.offsets.enabled"
SIDES = ("source", "target")
ALIASES = tuple(f"{side}.cluster.alias" for side in SIDES)

CLIENT_NAMES = ("bootstrap.servers", "security.protocol", *(key.name for key in unprefixed_keys()))
"""What stock takes over from a cluster for each client, and from the top level for each cluster."""

_CONNECT = (
    *("name", "connector.class", "connector.plugin.version", TASKS_MAX, "tasks.max.enforce"),
    *(f"{side}.converter" for side in ("key", "value", "header")),
    *(f"{side}.converter.plugin.version" for side in ("key", "value", "header")),
    *("config.action.reload", "transforms", "predicates"),
    *("errors.retry.timeout", "errors.retry.delay.max.ms", "errors.tolerance"),
    *("errors.log.enable", "errors.log.include.messages"),
)
_MIRROR = (
    *(ENABLED, *ALIASES, "admin.timeout.ms", "forwarding.admin.class", "metric.reporters", PROVIDERS),
    *(f"{POLICY}.class", f"{POLICY}.separator", f"{POLICY}.internal.topic.separator.enabled"),
    *("consumer.poll.timeout.ms", "offset-syncs.topic.location", "topic.filter.class"),
    "metric.names.formats",
)
_SOURCE = (
    *("topics", "topics.exclude", "config.properties.exclude", "config.property.filter.class"),
    *("refresh.topics.enabled", "refresh.topics.interval.seconds"),
    *("sync.topic.configs.enabled", "sync.topic.configs.interval.seconds"),
    *("sync.topic.acls.enabled", "sync.topic.acls.interval.seconds"),
    *("replication.factor", "offset-syncs.topic.replication.factor", "offset.lag.max"),
    *(EMIT_SYNCS, "heartbeats.replication.enabled"),
)
_CHECKPOINT = (
    *("groups", "groups.exclude", "group.filter.class"),
    *("refresh.groups.enabled", "refresh.groups.interval.seconds"),
    *(EMIT_CHECKPOINTS, "emit.checkpoints.interval.seconds", "checkpoints.topic.replication.factor"),
    *(SYNC_GROUPS, "sync.group.offsets.interval.seconds"),
)
_HEARTBEAT = (EMIT_HEARTBEATS, "emit.heartbeats.interval.seconds", "heartbeats.topic.replication.factor")

CONNECTOR_NAMES = frozenset((*_CONNECT, *_MIRROR, *CLIENT_NAMES[1:], *_SOURCE, *_CHECKPOINT, *_HEARTBEAT))
"""Stock's `allConfigNames`: what its connectors get from the top level. Other keys reach them from a flow alone."""


File = Mapping[str, str]

_PACKAGE = "org.apache.kafka.connect.mirror."
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_OF_WORKERS = (
    *("offset.storage", "config.storage", "status.storage"),
    *("key.converter", "value.converter", "header.converter"),
    *("task", "worker", POLICY),
)
"""Workers get the top-level keys that begin with one of these."""


class Setting(NamedTuple):
    value: str
    key: str
    """Of the file; empty for what stock fills in."""


Settings = dict[str, Setting]


def values(settings: Mapping[str, Setting]) -> dict[str, str]:
    return {key: setting.value for key, setting in settings.items()}


def clusters(file: File) -> tuple[str, ...]:
    return tuple(dict.fromkeys(split_list(file.get(CLUSTERS, ""))))


def is_true(text: str) -> bool:
    """Reads a flag as stock's driver does: as Java's Boolean.parseBoolean, where all but true is false."""
    return text.lower() == "true"


def cluster_pairs(file: File) -> list[tuple[str, str]]:
    """Returns source and target of each flow for which stock runs a herder: it is enabled, or emits heartbeats."""
    everywhere = file.get(EMIT_HEARTBEATS, "true")
    return [
        (source, target)
        for source in clusters(file)
        for target in clusters(file)
        if source != target
        and (
            is_true(file.get(f"{source}->{target}.{ENABLED}", "false"))
            or is_true(file.get(f"{source}->{target}.{EMIT_HEARTBEATS}", everywhere))
        )
    ]


def cluster_settings(file: File, cluster: str) -> Settings:
    """Returns stock's `clusterProps`: the cluster's own settings, with each client property also under every role's
    prefix; then, for what is not set yet, the client properties of the top level, likewise."""
    settings = _stripped(file, f"{cluster}.")
    top = {name: Setting(file[name], name) for name in CLIENT_NAMES if name in file}
    for layer in (dict(settings), top):
        for name in CLIENT_NAMES:
            if name in layer:
                for key in (name, *(f"{role}.{name}" for role in ROLES)):
                    settings.setdefault(key, layer[name])
    return settings


def client_settings(file: File, cluster: str) -> Settings:
    """Returns stock's `clientConfig`: all of the file, with the cluster's settings in front."""
    return {**_beginning(file, ("",)), **cluster_settings(file, cluster)}


def worker_settings(file: File, source: str, target: str) -> Settings:
    """Returns stock's `workerConfig` of a flow's herder, which keeps to the target."""
    settings = cluster_settings(file, target)
    settings |= _beginning(file, _OF_WORKERS)
    settings |= _beginning(file, (PROVIDERS,))
    filled_in = {
        "client.id": f"{source}->{target}",
        "group.id": f"{source}-mm2",
        "offset.storage.topic": f"mm2-offsets.{source}.internal",
        "status.storage.topic": f"mm2-status.{source}.internal",
        "config.storage.topic": f"mm2-configs.{source}.internal",
        **{f"{of}.converter": _BYTES for of in ("key", "value", "header")},
    }
    return {**_generated(filled_in), **settings}


def connector_settings(file: File, source: str, target: str, connector: str) -> Settings:
    """Returns stock's `connectorBaseConfig` of a flow. `connector`: the simple name of its class."""
    settings = {key: Setting(value, key) for key, value in file.items() if key in CONNECTOR_NAMES}
    settings |= _beginning(file, (PROVIDERS, POLICY))
    for side, cluster in zip(SIDES, (source, target), strict=True):
        for key, setting in cluster_settings(file, cluster).items():
            settings[on_side(side, key)] = setting
    filled_in = {"name": connector, "connector.class": _PACKAGE + connector}
    filled_in |= dict(zip(ALIASES, (source, target), strict=True))
    of_flow = _stripped(file, f"{source}->{target}.")
    return {**_generated({ENABLED: "false"}), **_generated(filled_in), **settings, **of_flow}


def on_side(side: str, key: str) -> str:
    """Returns the key of a connector that a cluster's key becomes."""
    # Stock only looks at how the key begins (admin, consumer, producer), and does not ask for a dot after it.
    return f"{side}.{key}" if key.startswith(ROLES) else f"{side}.cluster.{key}"


def _stripped(file: File, prefix: str) -> Settings:
    return {
        key.removeprefix(prefix): Setting(value, key)
        for key, value in file.items()
        if key.startswith(prefix) and key != prefix
    }


def _beginning(file: File, prefixes: tuple[str, ...]) -> Settings:
    return {key: Setting(value, key) for key, value in file.items() if key.startswith(prefixes)}


def _generated(values: Mapping[str, str]) -> Settings:
    return {key: Setting(value, "") for key, value in values.items()}
