"""Source offsets as a stock connect-mirror-maker.sh stores them: written to hand a flow back, read to take one over.

Writes source offsets as a stock connect-mirror-maker.sh stores them, so that it goes on from there.

They stand in the topic of its Connect workers, which a flow has on its target (stock §2). Keys are as the workers write
them to the byte, and in the same partition: the newest of two counts only where they are in one.

Reads the source offsets that a stock connect-mirror-maker.sh has left on the target, from which its copy goes on.

They stand in the topic of its Connect workers under the connector's name (stock §2). A stock mirror of the same flow
does not run meanwhile: its workers and our nodes are never members of the flow's group at the same time.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.cimpl import Message

from bridge.kafka.config.sasl import Setting
from bridge.kafka.config.tokens import obtain_first
from bridge.kafka.protocol.errors import of_exception
from bridge.protocol.messages import StoredOffset

log = logging.getLogger(__name__)


_SECONDS = 30.0
_LAST_OFFSET = 2**63 - 2
Offsets = dict[str, dict[str, int]]
"""By the source partition as JSON in order."""
_LIBRARY = logging.getLogger("librdkafka")
SourceOffset = tuple[Mapping[str, str | int], int | None]
"""A source partition as stock names it, and the offset of the last record copied; None takes the offset back."""


class StoredOffsets:
    """The offsets of one connector, read when they are first asked for."""

    def __init__(self, settings: Mapping[str, Setting], topic: str, connector: str) -> None:
        """`connector`: its name in Connect."""
        self._settings: dict[str, Any] = {
            **settings,
            "group.id": "mirror-bridge-reads-no-group",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "allow.auto.create.topics": False,
            "log_level": 2,
        }
        self._topic, self._connector = topic, connector
        self._stored: Offsets | None = None

    async def read(self, partitions: Sequence[Mapping[str, str | int]]) -> list[StoredOffset]:
        """Raises KafkaFailure."""
        if self._stored is None:
            try:
                self._stored = await asyncio.to_thread(self._read)
            except KafkaException as error:
                right = f"READ on topic {self._topic}"
                raise of_exception(error, f"read {self._topic}", right) from None
            if self._stored:
                log.info(
                    "a stock mirror has left the offsets of %d partition(s) in %s; copying goes on where it stopped, "
                    "where no offset run says otherwise",
                    len(self._stored),
                    self._topic,
                )
        return [
            StoredOffset(source_partition=dict(partition), source_offset=self._stored.get(_key(partition)))
            for partition in partitions
        ]

    def _read(self) -> Offsets:
        obtain_first(self._settings)
        consumer = Consumer(self._settings)
        try:
            # By name, which makes no topic here (allow.auto.create.topics): in a list of all a topic that may not be
            # described is missing as one that nobody has made, and all that stock has copied would be copied again.
            metadata = consumer.list_topics(self._topic, timeout=_SECONDS).topics[self._topic]
            if metadata.error is not None and metadata.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return {}
            if metadata.error is not None:
                raise KafkaException(metadata.error)
            ends = set(metadata.partitions)
            consumer.assign([TopicPartition(self._topic, number, OFFSET_BEGINNING) for number in ends])
            offsets: Offsets = {}
            while ends:
                message = consumer.poll(_SECONDS)
                if message is None:
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
                error = message.error()
                if error is None:
                    put(offsets, self._connector, message.key(), message.value())
                elif error.code() == KafkaError._PARTITION_EOF:
                    ends.discard(message.partition() or 0)
                elif error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
                    # The client has to have a group, and looks for its coordinator; nothing else is done with it.
                    raise KafkaException(error)
            return offsets
        finally:
            consumer.close()


def put(offsets: Offsets, connector: str, key: bytes | None, value: bytes | None) -> None:
    """Adds a record of the topic; what is not this connector's, or can't be read, is passed over."""
    try:
        name, partition = json.loads(key or b"")
        if name != connector or not isinstance(partition, dict):
            return
        place = _key(partition)
        offset = None if value is None else json.loads(value)
    except (ValueError, TypeError, RecursionError):
        return
    if isinstance(offset, dict):
        offsets[place] = _sound(offset)
    else:
        offsets.pop(place, None)


def _sound(offset: Mapping[str, Any]) -> dict[str, int]:
    """Returns stock's one field, without it where Kafka has no such offset. Whoever may write to the
    topic may add others, which the rounds process could not be sent."""
    number = offset.get("offset")
    if isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= _LAST_OFFSET:
        return {"offset": number}
    return {}


def _key(partition: Mapping[str, Any]) -> str:
    return json.dumps(dict(partition), sort_keys=True)


class OffsetWriter:
    """The offsets of one connector."""

    def __init__(self, settings: Mapping[str, Setting], topic: str, connector: str) -> None:
        """`settings`: of a producer; `connector`: its name in Connect."""
        self._settings: dict[str, Any] = {
            **settings,
            "acks": "all",
            "partitioner": "murmur2_random",  # that of Java's producer
            "message.timeout.ms": int(_SECONDS * 1000),
            "log_level": 2,
        }
        self._topic, self._connector = topic, connector

    def write(self, offsets: Sequence[SourceOffset]) -> None:
        """Blocking. Raises KafkaFailure; then some may be written."""
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error)

        obtain_first(self._settings)
        producer = Producer(self._settings, logger=_LIBRARY)
        try:
            for partition, offset in offsets:
                producer.produce(
                    self._topic,
                    key=key(self._connector, partition),
                    value=None if offset is None else _json({"offset": offset}),
                    on_delivery=delivered,
                )
                producer.poll(0)
            left = producer.flush(_SECONDS)
            if failed or left:
                raise KafkaException(failed[0] if failed else KafkaError(KafkaError._TIMED_OUT))
        except KafkaException as error:
            right = f"WRITE on topic {self._topic}"
            raise of_exception(error, f"write source offsets to {self._topic}", right) from None
        finally:
            producer.purge()
            producer.flush(0)


def key(connector: str, partition: Mapping[str, str | int]) -> bytes:
    """The fields of a partition stand in the order of their names: that of a HashMap with stock's three."""
    return _json([connector, dict(sorted(partition.items()))])


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
