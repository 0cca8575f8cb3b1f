"""Writes source offsets as a stock connect-mirror-maker.sh stores them, so that it goes on from there.

They stand in the topic of its Connect workers, which a flow has on its target (stock §2). Keys are as the workers write
them to the byte, and in the same partition: the newest of two counts only where they are in one.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.cimpl import Message

from bridge.kafka.config.sasl import Setting
from bridge.kafka.config.tokens import obtain_first
from bridge.kafka.protocol.errors import of_exception

_LIBRARY = logging.getLogger("librdkafka")
_SECONDS = 30.0

SourceOffset = tuple[Mapping[str, str | int], int | None]
"""A source partition as stock names it, and the offset of the last record copied; None takes the offset back."""


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
