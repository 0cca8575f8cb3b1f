"""Topics, committed offsets and records of the demo's clusters, by the admin API and a producer."""

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
from bridge.demo.logs import Tp, client_settings, offset_of
from bridge.local import eventually

WAIT = 60.0
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


def ends(consumer: Consumer, tps: Iterable[Tp]) -> dict[Tp, int]:
    """The log end of each of the partitions whose topic exists."""
    existing = consumer.list_topics(timeout=WAIT).topics
    log_ends: dict[Tp, int] = {}
    for tp in tps:
        if tp[0] in existing:
            _, log_ends[tp] = consumer.get_watermark_offsets(KafkaPartition(*tp), timeout=WAIT)
    return log_ends


def create_topic(client: AdminClient, name: str, partitions: int, configs: Mapping[str, str]) -> None:
    topic = NewTopic(name, partitions, 1, config=dict(configs))
    client.create_topics([topic])[name].result(WAIT)


def set_topic_config(client: AdminClient, name: str, configs: Mapping[str, str | None]) -> None:
    """Sets configurations of a topic; None removes one."""
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


def commit(client: AdminClient, group: str, offsets: Mapping[Tp, int]) -> None:
    """Commits as kafka-consumer-groups --reset-offsets does; the group needs no member."""
    partitions = [KafkaPartition(*tp, offset) for tp, offset in offsets.items()]

    def done() -> bool:
        request = [ConsumerGroupTopicPartitions(group, partitions)]
        for future in client.alter_consumer_group_offsets(request).values():
            for partition in future.result(WAIT).topic_partitions or []:
                if partition.error is not None:
                    raise KafkaException(partition.error)
        return True

    # The first commit of a cluster may meet a coordinator that is still loading.
    eventually(done, WAIT, what=f"offsets of {group} are committed")


def committed(client: AdminClient, group: str) -> dict[Tp, int]:
    """The offsets that the group has committed; empty for a group that does not exist."""
    (future,) = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    partitions = future.result(WAIT).topic_partitions or []
    return {(each.topic, each.partition): each.offset for each in partitions if each.offset >= 0}


@contextmanager
def producing(bootstrap: str, **settings: str | int) -> Iterator[Producer]:
    """A producer that is flushed at the end. `settings`: its properties, with `_` for `.`."""
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
    """Produces in order, waits for every acknowledgement, and returns the offsets by partition."""
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
