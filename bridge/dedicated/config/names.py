"""Names that stock's file of dedicated mode has (stock §1.7): those of connectors' keys, of clients, and of what is in
front of them."""

from __future__ import annotations

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
