"""Helpers that tests share: names, topics, records, groups, and the stock mirror."""

from bridge.local import eventually
from tests.support.groups import active_member, commit, committed, delete_group, resume, state
from tests.support.mirror import connector, mirror, mirroring, stock_config, wait_mirrored
from tests.support.names import unique
from tests.support.records import Record, numbered, produce, produce_transaction, read
from tests.support.topics import (
    add_partitions,
    admin,
    allow,
    bounds,
    compact,
    create_topic,
    delete_records,
    delete_topic,
    denied,
    exists,
    set_topic_config,
)

__all__ = [
    "Record",
    "active_member",
    "add_partitions",
    "admin",
    "allow",
    "bounds",
    "commit",
    "committed",
    "compact",
    "connector",
    "create_topic",
    "delete_group",
    "delete_records",
    "delete_topic",
    "denied",
    "eventually",
    "exists",
    "mirror",
    "mirroring",
    "numbered",
    "produce",
    "produce_transaction",
    "read",
    "resume",
    "set_topic_config",
    "state",
    "stock_config",
    "unique",
    "wait_mirrored",
]
