"""Making topics; internal ones as MirrorUtils.createCompactedTopic does (stock §1.8, §2)."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic as LibraryTopic

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.admin.admin_client import AsyncAdminClient, failure_of, words
from bridge.kafka.protocol.error_codes import Errors
from bridge.model.topics import NewTopic

_MAY_NOT_OR_NEED_NOT = {
    Errors.TOPIC_AUTHORIZATION_FAILED,
    Errors.CLUSTER_AUTHORIZATION_FAILED,
    Errors.UNSUPPORTED_VERSION,
    Errors.TOPIC_ALREADY_EXISTS,
}
"""Stock swallows them."""
_AWAY = {KafkaFault.UNREACHABLE, KafkaFault.TIMEOUT}


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
