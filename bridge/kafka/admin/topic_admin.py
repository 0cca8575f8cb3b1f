"""A cluster's topics as the source connector alters them (the TopicAdmin port).

Making topics; internal ones as MirrorUtils.createCompactedTopic does (stock §1.8, §2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._config import AlterConfigOpType, ConfigResource
from confluent_kafka.admin._config import ConfigEntry as LibraryEntry
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.cimpl import NewPartitions
from confluent_kafka.cimpl import NewTopic as LibraryTopic

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.admin.admin_client import AsyncAdminClient, failure_of, words
from bridge.kafka.admin.topic_configs import describe_configs
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol import admin_requests
from bridge.kafka.protocol.error_codes import Errors
from bridge.kafka.protocol.errors import refusal
from bridge.model.topics import ConfigEntry, NewTopic, TopicAcl

_MAY_NOT_OR_NEED_NOT = {
    Errors.TOPIC_AUTHORIZATION_FAILED,
    Errors.CLUSTER_AUTHORIZATION_FAILED,
    Errors.UNSUPPORTED_VERSION,
    Errors.TOPIC_ALREADY_EXISTS,
}
"""Stock swallows them."""
_AWAY = {KafkaFault.UNREACHABLE, KafkaFault.TIMEOUT}
T = TypeVar("T")
_RECORDS_A_CALL = 4_000
"""A controller writes a record for each topic, partition and config, and refuses a request that would make it write
10,000: "Unable to perform excessively large batch operation" (KAFKA-19327)."""
_ACLS_A_CALL = 500
_ALTER = "ALTER on the cluster"


async def create(
    client: AsyncAdminClient, topics: Sequence[NewTopic], doing: str
) -> dict[str, KafkaError | None]:
    """Creates topics; returns by topic why it was not made, None for one that was. Raises KafkaFailure."""
    new_topics = [
        LibraryTopic(
            topic.name,
            num_partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            config=dict(topic.configs),
        )
        for topic in topics
    ]
    return await client.call(doing, AdminClient.create_topics, new_topics, operation_timeout=client.seconds)


async def create_compacted(
    client: AsyncAdminClient, name: str, replication_factor: int, partitions: int = 1
) -> KafkaFailure | None:
    """Creates a topic with cleanup.policy=compact and nothing else. Never raises KafkaFailure.

    None: it was made, exists, or somebody else has to make it. Else the message is that of stock's ConnectException;
    the last of the three kinds adds the broker's own words, which stock has in the cause.
    """
    doing = f"create topic {name}"
    topic = NewTopic(name, partitions, replication_factor, {"cleanup.policy": "compact"})
    try:
        error = (await create(client, [topic], doing))[name]
    except KafkaFailure as failed:
        return None if failed.fault is KafkaFault.UNSUPPORTED else _failed(name, failed, str(failed))
    if error is None or error.code() in _MAY_NOT_OR_NEED_NOT:
        return None
    message = words(error)
    cause = failure_of(error, doing, f"CREATE on topic {name}")
    if error.code() == Errors.INVALID_CONFIG:
        return KafkaFailure(cause.fault, f"Unable to create topic '{name}': {message}", retriable=False)
    return _failed(name, cause, message or str(cause))


def _failed(name: str, cause: KafkaFailure, message: str) -> KafkaFailure:
    if cause.fault in _AWAY:
        text = (
            f"Timed out while checking for or creating topic '{name}'. This could indicate a connectivity issue, "
            "unavailable topic partitions, or if this is your first use of the topic it may have taken too long to "
            "create."
        )
    else:
        text = f"Error while attempting to create/find topic '{name}': {message}"
    return KafkaFailure(cause.fault, text, retriable=cause.retriable)


class KafkaTopicAdmin:
    def __init__(self, client: AsyncAdminClient, network: NetworkClient) -> None:
        """Both log in as the admin client: it may have credentials of its own (`admin.*`)."""
        self._client, self._network = client, network

    async def create_topics(self, topics: Sequence[NewTopic]) -> dict[str, KafkaFailure | None]:
        done: dict[str, KafkaError | None] = {}
        for some in _in_calls(topics, lambda topic: 1 + topic.partitions + len(topic.configs)):
            done |= await create(self._client, some, "create topics")
        return {
            name: _failure(
                error, f"create topic {name}", _on(name, "CREATE"), harmless=Errors.TOPIC_ALREADY_EXISTS
            )
            for name, error in done.items()
        }

    async def create_partitions(self, totals: Mapping[str, int]) -> dict[str, KafkaFailure | None]:
        results: dict[str, KafkaFailure | None] = {}
        for some in _in_calls(list(totals.items()), lambda growing: growing[1]):
            errors = await self._client.call(
                "create partitions",
                AdminClient.create_partitions,
                [NewPartitions(name, total) for name, total in some],
                operation_timeout=self._client.seconds,
            )
            for name, error in errors.items():
                doing, right = f"create partitions of topic {name}", _on(name, "ALTER")
                # One that has as many by now, or more, is no failure.
                results[name] = _failure(error, doing, right, harmless=Errors.INVALID_PARTITIONS)
        return results

    async def configs(self, topics: Sequence[str]) -> dict[str, Mapping[str, ConfigEntry] | KafkaFailure]:
        return await describe_configs(self._network, topics)

    async def alter_configs(
        self, changes: Mapping[str, Mapping[str, str | None]]
    ) -> dict[str, KafkaFailure | None]:
        """A broker refuses all changes of a topic for one key: then each is tried alone."""
        results = await self._alter(changes)
        refused = {
            name: list(changes[name].items()) for name, result in results.items() if _of_one_key(result)
        }
        apart: dict[str, list[KafkaFailure | None]] = {
            name: [] for name, configs in refused.items() if len(configs) > 1
        }
        for number in range(max(map(len, refused.values()), default=0)):
            one = {name: dict([refused[name][number]]) for name in apart if number < len(refused[name])}
            for name, result in (await self._alter(one)).items():
                apart[name].append(result)
        return results | {name: _all_of(failures) for name, failures in apart.items()}

    async def _alter(self, changes: Mapping[str, Mapping[str, str | None]]) -> dict[str, KafkaFailure | None]:
        results: dict[str, KafkaFailure | None] = {}
        for some in _in_calls(list(changes.items()), lambda change: len(change[1])):
            resources = [_changes(name, configs) for name, configs in some]
            doing = "alter configs of topics"
            errors = await self._client.call(doing, AdminClient.incremental_alter_configs, resources)
            for resource, error in errors.items():
                name = resource.name
                results[name] = _failure(error, f"alter configs of topic {name}", _on(name, "ALTER_CONFIGS"))
        return results

    async def acls(self) -> set[TopicAcl] | None:
        """Lists the ACLs by a request of our own: librdkafka answers an error with no rules at all, and rules that the
        source has no more are taken from the target (decision 0040)."""
        doing, right = "describe ACLs of topics", "DESCRIBE on the cluster"
        response = await self._network.send(None, admin_requests.describe_topic_acls(), doing)
        code, words, acls = admin_requests.read_described_acls(response)
        if code == Errors.SECURITY_DISABLED:
            return None
        if failed := refusal(code, words, doing, right):
            raise failed
        return acls

    async def create_acls(self, acls: Sequence[TopicAcl]) -> dict[TopicAcl, KafkaFailure | None]:
        results: dict[TopicAcl, KafkaFailure | None] = {}
        for some in _parts(acls, _ACLS_A_CALL):
            rules = {AclBinding(*_fields(acl)): acl for acl in some}
            errors = await self._client.call("create ACLs of topics", AdminClient.create_acls, list(rules))
            results |= {
                rules[rule]: _failure(error, f"create ACL {rules[rule]}", _ALTER)
                for rule, error in errors.items()
            }
        return results

    async def delete_acls(self, acls: Sequence[TopicAcl]) -> dict[TopicAcl, KafkaFailure | None]:
        """Exactly these rules. By requests of our own: librdkafka hides the error of a rule that is not deleted."""
        results: dict[TopicAcl, KafkaFailure | None] = {}
        for some in _parts(acls, _ACLS_A_CALL):
            call = admin_requests.delete_acls(some)
            response = await self._network.send(None, call, "delete ACLs of topics")
            for acl, result in zip(some, admin_requests.read_deleted_acls(response), strict=True):
                results[acl] = refusal(*result, f"delete ACL {acl}", _ALTER)
        return results


def _failure(error: object, doing: str, right: str, harmless: int = Errors.NONE) -> KafkaFailure | None:
    if not isinstance(error, KafkaError) or error.code() == harmless:
        return None
    return failure_of(error, doing, right)


def _of_one_key(failed: KafkaFailure | None) -> bool:
    """Whether changes may have been refused for one of them."""
    return failed is not None and failed.fault is KafkaFault.OTHER


def _all_of(results: Iterable[KafkaFailure | None]) -> KafkaFailure | None:
    failures = [result for result in results if result is not None]
    if not failures:
        return None
    return KafkaFailure(
        failures[0].fault, "; ".join(dict.fromkeys(map(str, failures))), retriable=failures[0].retriable
    )


def _on(topic: str, operation: str) -> str:
    return f"{operation} on topic {topic}"


def _changes(topic: str, configs: Mapping[str, str | None]) -> ConfigResource:
    """Returns the changes to a topic's configs; None takes an override away."""
    entries = [
        LibraryEntry(
            key,
            value,
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for key, value in configs.items()
    ]
    return ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)


def _fields(
    acl: TopicAcl,
) -> tuple[ResourceType, str, ResourcePatternType, str, str, AclOperation, AclPermissionType]:
    return (
        ResourceType.TOPIC,
        acl.name,
        ResourcePatternType(int(acl.pattern)),
        acl.principal,
        acl.host,
        AclOperation(int(acl.operation)),
        AclPermissionType(int(acl.permission)),
    )


def _in_calls(items: Iterable[T], records: Callable[[T], int]) -> Iterator[list[T]]:
    """Yields the items of one call after the other, in their order. `records`: how many an item takes."""
    part: list[T] = []
    total = 0
    for item in items:
        more = records(item)
        if part and total + more > _RECORDS_A_CALL:
            yield part
            part, total = [], 0
        part.append(item)
        total += more
    if part:
        yield part


def _parts(items: Sequence[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part
