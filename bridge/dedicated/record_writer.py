"""Writes the records of a flow's polls, checkpoints and heartbeats, to its target: all in-sync replicas, in order.

By transactions of one id for each flow: a node that takes the flow over shuts the one before out, so that a node that
was paused can't put an old checkpoint behind a new one.
"""

from __future__ import annotations

import asyncio
import logging
from base64 import b64decode
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.cimpl import Message

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.config.sasl import Setting
from bridge.kafka.config.settings import RECONNECT
from bridge.kafka.config.tokens import obtain_first
from bridge.kafka.protocol.errors import failure, not_allowed_to_write, of_exception
from bridge.protocol.messages import Record

_LIBRARY = logging.getLogger("librdkafka")
_SECONDS = 30.0
"""For which a transaction may take; the broker ends one of a node that is gone after twice that."""
_DOING = "write checkpoints and heartbeats"
_FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})


class RecordWriter:
    """Used by one flow; each call writes all its records, or none and raises KafkaFailure."""

    def __init__(self, settings: Mapping[str, Setting], transactional_id: str) -> None:
        self._settings: dict[str, Any] = {
            **RECONNECT,
            **settings,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": int(2 * _SECONDS * 1000),
            "message.timeout.ms": int(_SECONDS * 1000),
            "linger.ms": 0,
            "log_level": 2,
        }
        self._denied: set[str] = set()
        """Topics that may not be written to, as far as the transaction has come."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="writer")
        self._producer: Producer | None = None

    async def write(self, records: Sequence[Record]) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._thread, self._write, records)
        except (KafkaException, BufferError) as error:
            raise self._failure(error) from None

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._drop)
        self._thread.shutdown(wait=False)

    # -- in the thread -------------------------------------------------------------------------------------------------

    def _write(self, records: Sequence[Record]) -> None:
        self._denied.clear()
        try:
            producer = self._ready()
            producer.begin_transaction()
            for record in records:
                producer.produce(
                    record.topic,
                    value=_bytes(record.value),
                    key=_bytes(record.key),
                    partition=-1 if record.partition is None else record.partition,
                    timestamp=record.timestamp or 0,
                    headers=[(each.key, _bytes(each.value)) for each in record.headers],
                    on_delivery=self._delivered,
                )
            producer.commit_transaction(_SECONDS)
        except (KafkaException, BufferError):
            # The next producer of this id ends what this one has begun.
            self._drop()
            raise

    def _ready(self) -> Producer:
        if self._producer is None:
            obtain_first(self._settings)
            producer = Producer(self._settings, logger=_LIBRARY)
            self._producer = producer
            producer.init_transactions(_SECONDS)
        return self._producer

    def _drop(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            producer.flush(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            self._denied.add(message.topic() or "")

    def _failure(self, error: BaseException) -> KafkaFailure:
        if self._denied:
            return not_allowed_to_write(self._denied, _DOING)
        cause = error.args[0] if isinstance(error, KafkaException) else None
        if isinstance(cause, KafkaError) and cause.code() in _FENCED:
            return failure(KafkaFault.FENCED, _DOING, "another node has taken the flow over")
        if isinstance(error, BufferError):
            return failure(KafkaFault.OTHER, _DOING, str(error))
        return of_exception(error, _DOING, f"WRITE on transactional id {self._settings['transactional.id']}")


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
