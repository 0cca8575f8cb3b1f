"""What the admin API says of topics beside their partitions: configs and ACLs. Numbers are those of the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple


class NewTopic(NamedTuple):
    """A topic to be made; a replication factor of -1 is the brokers' default."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


class ConfigSource(IntEnum):
    """Where the value of a config comes from; what else there is counts as UNKNOWN."""

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


class PatternType(IntEnum):
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """Those that there are on topics."""

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
    operation: Operation
    permission: Permission

    def __str__(self) -> str:
        who = f"{self.principal} from {self.host}"
        return f"{self.permission.name} {self.operation.name} on {self.pattern.name} {self.name} for {who}"
