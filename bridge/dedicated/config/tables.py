"""Keys that stock's driver, its REST server and its Connect workers read, and that mean nothing here: each with the
reason."""

from __future__ import annotations

from typing import NamedTuple

_NO_WORKER = "there is no Connect worker: state is in topics of this project's own (docs/state-topics.md)"
_NO_REST = (
    "nodes share flows by Kafka's own consumer groups, without REST between them; the HTTP of health, metrics and "
    "groups is set by the command's own options"
)
_OWN_NAMES = "each connector of a flow has its own name and class, as in MirrorMaker"
_ONCE = "records are copied exactly once without it"
_SHIM = "it is for the shim in a Connect worker, and there is none"
_METRICS = "the service's metrics have names of their own, at /metrics"
_NO_MBEANS = "there is no Connect worker with MBeans: metrics are at /metrics (docs/operations.md)"

MEMBERSHIP = ("group.id", "session.timeout.ms", "heartbeat.interval.ms", "rebalance.timeout.ms")
"""Keys of a cluster's workers that are kept: nodes share the flows into the cluster by them."""
STORAGE = ("config.storage.topic", "config.storage.replication.factor", "offset.storage.topic")
"""Of the topics of stock's workers those that are kept, of a cluster or for all: the group's own topic, and where a
mirror of stock's left off."""


class Meaningless(NamedTuple):
    """A key, or all that begin with what stands before a final `*`."""

    name: str
    why: str

    def covers(self, key: str) -> bool:
        return key.startswith(self.name[:-1]) if self.name.endswith("*") else key == self.name


def _all(why: str, *keys: str) -> tuple[Meaningless, ...]:
    return tuple(Meaningless(key, why) for key in keys)


OF_DRIVER = (
    *_all(_NO_REST, "dedicated.mode.enable.internal.rest", "listeners", "listeners.https.*", "rest.*"),
    *_all(
        _NO_REST, "admin.listeners", "admin.listeners.https.*", "access.control.allow.*", "ssl.client.auth"
    ),
    *_all(_NO_REST, "response.http.headers.config", "inter.worker.*"),
    *_all(_NO_WORKER, "offset.storage.*", "config.storage.*", "status.storage.*", "offset.flush.*"),
    *_all(_NO_WORKER, "worker.*", "task.shutdown.graceful.timeout.ms", "connect.protocol"),
    *_all(_NO_WORKER, "scheduled.rebalance.max.delay.ms", "topic.tracking.*", "topic.creation.enable"),
    *_all(_NO_WORKER, "connector.client.config.override.policy", "header.converter.*"),
    *_all(_NO_WORKER, "key.converter.*", "value.converter.*", "internal.key.converter*"),
    *_all(_NO_WORKER, "internal.value.converter*"),
    *_all("no Java plugin is loaded: there is no JVM", "plugin.path", "plugin.discovery"),
    *_all(_ONCE, "exactly.once.source.support"),
    *_all(
        _METRICS, "metrics.context.*", "metrics.reporter", "metrics.num.samples", "metrics.recording.level"
    ),
    *_all(_METRICS, "metrics.sample.window.ms", "auto.include.jmx.reporter", "enable.metrics.push"),
    *_all(_NO_MBEANS, "metric.reporters", "metric.names.formats", "metrics.jmx.*"),
    *_all("topics have the retention of their cluster", "heartbeat.retention.ms", "checkpoint.retention.ms"),
    *_all("how much is read ahead is the pipeline's own affair", "readahead.queue.capacity"),
    *_all("it is what happens anyway", "rename.topics"),
)
"""In any scope: stock reads some of them of a cluster, some of the top level, and none of a flow."""
OF_CONNECTORS = (
    *_all(_OWN_NAMES, "name", "connector.class", "connector.plugin.version", "task.class"),
    *_all("a flow never has more tasks than tasks.max", "tasks.max.enforce"),
    *_all("a value that changes needs a restart, one node after the other", "config.action.reload"),
    *_all(_NO_WORKER, "offsets.storage.topic"),
    *_all(_SHIM, "bridge.url", "bridge.auth.token", "bridge.request.timeout.ms", "bridge.task.lease.ms"),
    *_all(_SHIM, "bridge.ssl.*"),
)
"""Keys of connectors that only a Connect worker gives a meaning."""


def meaningless(key: str, table: tuple[Meaningless, ...]) -> str | None:
    """Returns why a key means nothing here; None where the table has nothing to say of it."""
    return next((each.why for each in table if each.covers(key)), None)
