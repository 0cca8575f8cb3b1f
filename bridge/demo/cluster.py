"""What the demo asks of a cluster's admin API and of a producer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
)
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from bridge.demo.errors import DemoFailed
from bridge.demo.logs import Place, client_settings, offset_of
from bridge.local import eventually

WAIT = 30.0
FLUSH_SECONDS = 60.0


class Outgoing(NamedTuple):
    """A record to produce."""

    partition: int
    key: bytes
    value: bytes
    timestamp: int
    headers: tuple[tuple[str, bytes], ...] = ()


def admin(bootstrap: str) -> AdminClient:
    return AdminClient(dict(client_settings(bootstrap)))


def ends(consumer: Consumer, places: Iterable[Place]) -> dict[Place, int]:
    """The log end of each of the partitions whose topic exists."""
    there = consumer.list_topics(timeout=WAIT).topics
    found: dict[Place, int] = {}
    for place in places:
        if place[0] in there:
            _, found[place] = consumer.get_watermark_offsets(KafkaPartition(*place), timeout=WAIT)
    return found


def create_topic(client: AdminClient, name: str, partitions: int, configs: Mapping[str, str]) -> None:
    topic = NewTopic(name, partitions, 1, config=dict(configs))
    client.create_topics([topic])[name].result(WAIT)


def set_topic_config(client: AdminClient, name: str, configs: Mapping[str, str | None]) -> None:
    """None takes the topic's own value away again."""
    entries = [
        ConfigEntry(
            key,
            value or "",
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for key, value in configs.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
    for future in client.incremental_alter_configs([resource]).values():
        future.result(WAIT)


def commit(client: AdminClient, group: str, offsets: Mapping[Place, int]) -> None:
    """Commits as an operator would; the group needs no member."""
    partitions = [KafkaPartition(*place, offset) for place, offset in offsets.items()]

    def done() -> bool:
        request = [ConsumerGroupTopicPartitions(group, partitions)]
        for future in client.alter_consumer_group_offsets(request).values():
            for partition in future.result(WAIT).topic_partitions or []:
                if partition.error is not None:
                    raise KafkaException(partition.error)
        return True

    # The first commit of a cluster may meet a coordinator that is still loading.
    eventually(done, WAIT, what=f"offsets of {group} are committed")


def committed(client: AdminClient, group: str) -> dict[Place, int]:
    """What the group has committed; empty for a group that does not exist."""
    (future,) = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    found = future.result(WAIT).topic_partitions or []
    return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}


@contextmanager
def producing(bootstrap: str, **settings: str | int) -> Iterator[Producer]:
    """`settings` with `_` for `.`; what is still on its way is awaited at the end."""
    common: dict[str, str | int | float | bool] = {
        **client_settings(bootstrap),
        "enable.idempotence": True,
        "linger.ms": 20,
        "queue.buffering.max.messages": 500_000,
    }
    sink = Producer({**common, **{name.replace("_", "."): value for name, value in settings.items()}})
    yield sink
    if sink.flush(FLUSH_SECONDS):
        raise DemoFailed(f"not all records were acknowledged by {bootstrap} within {FLUSH_SECONDS:g} s")


def send(sink: Producer, topic: str, records: Iterable[Outgoing]) -> dict[int, list[int]]:
    """Produces in order, waits for every acknowledgement, and answers the offsets by partition."""
    sent: dict[int, list[int]] = {}
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        partition = message.partition()
        if error is not None or partition is None:
            failures.append(error or KafkaError(KafkaError._FAIL))
        else:
            sent.setdefault(partition, []).append(offset_of(message))

    for record in records:
        sink.produce(
            topic,
            value=record.value,
            key=record.key,
            partition=record.partition,
            timestamp=record.timestamp,
            headers=list(record.headers),
            on_delivery=delivered,
        )
        sink.poll(0)
    sink.flush(FLUSH_SECONDS)
    if failures:
        raise KafkaException(failures[0])
    return sent
