"""Topics of a cluster: created, altered, deleted; done when the cluster says so."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.admin._metadata import TopicMetadata
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic

from bridge.local import eventually
from tests.support.names import unique
from tests.support.records import Record, produce, read
from tests.support.waiting import once_back
from tests.support.waits import WAIT

_TRY = 15.0
"""Seconds of one try to create a topic."""


@functools.lru_cache(maxsize=8)
def admin(bootstrap: str) -> AdminClient:
    """One for all calls, since a client costs more than a call. Keep it in a variable until its futures are done: they
    fail when the client is collected. A broker that was away is asked again as soon as it is back."""
    settings = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "log_level": 0}
    return AdminClient({"bootstrap.servers": bootstrap, **settings})


def create_topic(
    bootstrap: str, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
) -> str:
    """Creates the topic and waits until the broker serves each of its partitions."""
    topic = NewTopic(name, partitions, 1, config=dict(configs or {}))

    def created() -> None:
        # Again also when the only broker has lost its session for a moment, because the machine stood still. A client
        # that has seen a cluster without brokers then may not connect any more.
        client = admin(bootstrap)
        try:
            client.create_topics([topic])[name].result(_TRY)
        except TimeoutError:
            admin.cache_clear()
            raise
        except KafkaException as error:
            # The client sends a request again when its connection went away meanwhile; names are unique: it is ours.
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise

    eventually(created, WAIT, what=f"topic {name} is created")

    def served() -> bool:
        return all(len(each) == 2 for each in bounds(bootstrap, name).values())

    eventually(served, WAIT, what=f"topic {name} is served")
    return name


def exists(bootstrap: str, name: str) -> bool:
    return admin(bootstrap).list_topics(name, timeout=10).topics[name].error is None


def delete_topic(bootstrap: str, name: str) -> None:
    client = admin(bootstrap)
    client.delete_topics([name])[name].result(WAIT)
    eventually(lambda: not exists(bootstrap, name), WAIT, what=f"topic {name} is gone")


def add_partitions(bootstrap: str, name: str, total: int) -> None:
    client = admin(bootstrap)
    client.create_partitions([NewPartitions(name, total)])[name].result(WAIT)
    eventually(lambda: len(bounds(bootstrap, name)) == total, WAIT, what=f"{name} has {total} partitions")


def set_topic_config(bootstrap: str, name: str, configs: Mapping[str, str]) -> None:
    """Sets these and waits until the broker shows them, which is a moment after the controller has taken them."""
    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in configs.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
    client = admin(bootstrap)

    def done() -> None:
        for future in client.incremental_alter_configs([resource]).values():
            future.result(WAIT)

    def shown() -> bool:
        (described,) = client.describe_configs([ConfigResource(ResourceType.TOPIC, name)]).values()
        current = described.result(WAIT)
        return all(_same(current[key].value, value) for key, value in configs.items())

    once_back(done, f"{name} has {configs}")
    eventually(shown, WAIT, what=f"{name} shows {configs}")


def _same(shown: str, value: str) -> bool:
    """Whether a broker shows this value so: of 0 it makes 0.0 where a key is a double."""
    with suppress(ValueError):
        return float(shown) == float(value)
    return shown == value


def bounds(bootstrap: str, name: str, *, committed_only: bool = False) -> dict[int, tuple[int, int]]:
    """Log start and end of every partition, as soon as all of them have a leader. The end is the high watermark, or
    with `committed_only` the last stable offset."""
    isolation = IsolationLevel.READ_COMMITTED if committed_only else IsolationLevel.READ_UNCOMMITTED

    def described() -> TopicMetadata:
        try:
            return admin(bootstrap).list_topics(name, timeout=10).topics[name]
        except KafkaException:
            admin.cache_clear()  # one that has seen no broker may not connect any more
            raise

    # A broker that has just come back may not answer for a moment, or lead nothing.
    metadata = eventually(described, WAIT, what=f"{name} is described")
    client = admin(bootstrap)
    if metadata.error is not None:
        raise KafkaException(metadata.error)
    partitions = [TopicPartition(name, number) for number in metadata.partitions]

    def ask() -> dict[int, list[int]]:
        result: dict[int, list[int]] = {number: [] for number in metadata.partitions}
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest()):
            asked = client.list_offsets(dict.fromkeys(partitions, spec), isolation_level=isolation)
            for partition, future in asked.items():
                result[partition.partition].append(future.result(WAIT).offset)
        return result

    outcome = eventually(ask, WAIT, what=f"all partitions of {name} have a leader")
    return {number: (start, end) for number, (start, end) in outcome.items()}


def wait_transactions_ended(bootstrap: str, name: str) -> None:
    """Waits until no partition has an open transaction: a commit is answered before its markers are in all of them."""
    eventually(
        lambda: bounds(bootstrap, name) == bounds(bootstrap, name, committed_only=True),
        WAIT,
        what=f"all transactions in {name} have ended",
    )


def delete_records(bootstrap: str, name: str, before: Mapping[int, int]) -> None:
    """Moves the log start of partitions, as retention does."""
    targets = [TopicPartition(name, number, offset) for number, offset in before.items()]
    client = admin(bootstrap)

    def done() -> None:
        for future in client.delete_records(targets).values():
            future.result(WAIT)

    once_back(done, f"the log of {name} starts at {before}")


def allow(bootstrap: str, principal: str, name: str, operation: str, kind: str = "TOPIC") -> None:
    """An ACL from every host: `operation` as DESCRIBE or READ, on a TOPIC, a GROUP or the BROKER (cluster). Done when
    the broker has it: what the controller has stored it learns a moment later."""
    _add_rule(bootstrap, _rule(principal, name, operation, kind, "ALLOW"))


@contextmanager
def denied(bootstrap: str, principal: str, name: str, operation: str, kind: str = "TOPIC") -> Iterator[None]:
    """As `allow`, and the contrary of it, for the time of the block."""
    rule = _rule(principal, name, operation, kind, "DENY")
    _add_rule(bootstrap, rule)
    try:
        yield
    finally:
        drop_rule(admin(bootstrap), rule)


def _rule(principal: str, name: str, operation: str, kind: str, permission: str) -> AclBinding:
    return AclBinding(
        ResourceType[kind],
        name,
        ResourcePatternType.LITERAL,
        principal,
        "*",
        AclOperation[operation],
        AclPermissionType[permission],
    )


def _filter(rule: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        rule.restype,
        rule.name,
        rule.resource_pattern_type,
        rule.principal,
        rule.host,
        rule.operation,
        rule.permission_type,
    )


def _add_rule(bootstrap: str, rule: AclBinding) -> None:
    client = admin(bootstrap)
    client.create_acls([rule])[rule].result(WAIT)
    eventually(lambda: has_rule(client, rule), WAIT, what=f"the broker has {rule}")


def drop_rule(client: AdminClient, rule: AclBinding) -> None:
    """Deletes an ACL; done when the broker no longer has it."""
    client.delete_acls([_filter(rule)])[_filter(rule)].result(WAIT)
    eventually(lambda: not has_rule(client, rule), WAIT, what=f"{rule} is gone")


def has_rule(client: AdminClient, rule: AclBinding) -> bool:
    """Whether the broker has this ACL."""
    return bool(client.describe_acls(_filter(rule)).result(WAIT))


def compact(bootstrap: str, name: str, partition: int = 0) -> list[int]:
    """Compacts a partition now and answers the offsets that are left.

    Only closed segments are compacted, and one closes when a record arrives after `segment.ms`: so fillers are
    appended until every other key stands once. Each filler has a key of its own: none is compacted away later, while a
    test reads the log a second time.
    """
    eager = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0"}
    set_topic_config(bootstrap, name, {**eager, "delete.retention.ms": "0"})

    def compacted() -> list[int] | bool:
        produce(bootstrap, name, [Record(b"filler", key=unique("filler").encode(), partition=partition)])
        left = read(bootstrap, name, partition)
        keys = [record.key for record in left if record.value != b"filler"]
        return [record.offset for record in left] if len(keys) == len(set(keys)) else False

    offsets = eventually(compacted, WAIT, what=f"{name}-{partition} is compacted")
    assert isinstance(offsets, list)
    return offsets
