"""Names that keys had before: in KIP-382's draft, in MirrorMaker 1, and in MirrorMaker 2 before Kafka 4.

Each is an error that names the key to use: a name that nobody reads would change what is copied, in silence.
"""

from __future__ import annotations

from types import MappingProxyType

_SIDES = ("source", "target")
_NEW_NAMES = {
    **{f"{topics}.blacklist": "topics.exclude" for topics in ("topics", "topic")},
    **{f"{topics}.whitelist": "topics" for topics in ("topics", "topic")},
    "whitelist": "topics",
    "blacklist": "topics.exclude",
    **{f"{groups}.blacklist": "groups.exclude" for groups in ("groups", "group")},
    **{f"{groups}.whitelist": "groups" for groups in ("groups", "group")},
    "config.properties.blacklist": "config.properties.exclude",
    "emit.heartbeats": "emit.heartbeats.enabled",
    "emit.checkpoints": "emit.checkpoints.enabled",
    "refresh.topics": "refresh.topics.enabled",
    "refresh.groups": "refresh.groups.enabled",
    "sync.topic.configs": "sync.topic.configs.enabled",
    "sync.topic.acls": "sync.topic.acls.enabled",
    **{f"{side}.cluster.broker.list": f"{side}.cluster.bootstrap.servers" for side in _SIDES},
    **{f"{side}.cluster.brokers.list": f"{side}.cluster.bootstrap.servers" for side in _SIDES},
    **{f"{side}.cluster.brokers": f"{side}.cluster.bootstrap.servers" for side in _SIDES},
    **{f"{side}.broker.list": f"{side}.cluster.bootstrap.servers" for side in _SIDES},
}
_NO_LONGER = {
    "rename.topics": (
        "remove it: topics are renamed, but with replication.policy.class="
        "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    ),
    "readahead.queue.capacity": "how much is read ahead follows from how fast the target takes it; leave it out",
    "heartbeat.retention.ms": "the heartbeats topic is compacted, and keeps the newest of each flow; leave it out",
    "checkpoint.retention.ms": "the checkpoints topic is compacted, and keeps the newest of each group; leave it out",
    "message.handler": "give bridge.transforms=python:module.function",
    "num.streams": "give spark.master=local[N], or spark.default.parallelism=N",
    "abort.on.send.failure": "give source.record.policy: fail for true, report for false",
    "offset.commit.interval.ms": "positions are committed with the records: give transaction.interval.ms",
}
_REMOTE_ADMIN = "remote.admin."
OLD_NAMES = MappingProxyType({**{old: f"its name is {new}" for old, new in _NEW_NAMES.items()}, **_NO_LONGER})
"""By old name, what to do instead."""


def instead(key: str) -> str | None:
    """Returns what to give in place of an old name; None for a name that is none."""
    if key.startswith(_REMOTE_ADMIN) and key != _REMOTE_ADMIN:
        name = key.removeprefix(_REMOTE_ADMIN)
        return f"its name is source.admin.{name} or target.admin.{name}"
    return OLD_NAMES.get(key)
