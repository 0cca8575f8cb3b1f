"""Defines configs and ACLs of topics, as the admin API has them. Numbers are those of the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple


class NewTopic(NamedTuple):
    """A topic to be created; a replication factor of -1 is the brokers' default."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


class ConfigSource(IntEnum):
    """Where the value of a config comes from; other sources count as UNKNOWN."""

    UNKNOWN = 0
    DYNAMIC_TOPIC = 1
    """An override: set on the topic itself."""
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class ConfigEntry(NamedTuple):
    """One config of a topic, as described; `value` is None for sensitive ones."""

    value: str | None
    source: ConfigSource
    read_only: bool = False
    sensitive: bool = False


_CLEANUP_POLICY = "cleanup.policy"
_COMPACT = "compact"


def not_only_compacted(topic: str, configs: Mapping[str, ConfigEntry], holds: str) -> str | None:
    """Returns why a topic that must keep the newest record of every key can't be used, in the words of Connect's own
    check (TopicAdmin.verifyTopicCleanupPolicyOnlyCompact); None where it can, or where its configs do not tell.
    `holds`: what the topic holds."""
    entry = configs.get(_CLEANUP_POLICY)
    values = [] if entry is None or entry.value is None else entry.value.split(",")
    policies = {value.strip().lower() for value in values if value.strip()}
    if policies <= {_COMPACT}:
        return None
    return (
        f"Topic '{topic}' is required to have '{_CLEANUP_POLICY}={_COMPACT}' to guarantee consistency and durability "
        f"of {holds}, but found the topic currently has '{_CLEANUP_POLICY}={','.join(sorted(policies))}'. Continuing "
        f"would likely result in eventually losing {holds}. Set it with: kafka-configs.sh --alter --entity-type topics "
        f"--entity-name {topic} --add-config {_CLEANUP_POLICY}={_COMPACT}"
    )


class PatternType(IntEnum):
    LITERAL = 3
    PREFIXED = 4


class TopicOperation(IntEnum):
    """The operations on topics."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11


class Permission(IntEnum):
    DENY = 2
    ALLOW = 3


WILDCARD = "*"
"""As the name of a LITERAL rule: every topic."""


class TopicAcl(NamedTuple):
    """A rule of an authorizer about topics."""

    name: str
    pattern: PatternType
    principal: str
    host: str
    operation: TopicOperation
    permission: Permission

    def __str__(self) -> str:
        who = f"{self.principal} from {self.host}"
        return f"{self.permission.name} {self.operation.name} on {self.pattern.name} {self.name} for {who}"
