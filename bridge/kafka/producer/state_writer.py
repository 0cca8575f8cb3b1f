"""Records of state topics: in batches, and appended outside of transactions, acknowledged by all in-sync replicas."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from bridge.backoff import pauses
from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.producer.sender import BatchSender
from bridge.kafka.protocol.errors import not_allowed_to_write, of_code
from bridge.kafka.protocol.produce_requests import ProducerIdAndEpoch
from bridge.kafka.record.decompression import LZ4
from bridge.model.values import TopicPartition

KeyValue = tuple[bytes | None, bytes | None]

_RECORDS_BYTES = 512 * 1024
"""Of records of a state topic in one batch, before compression: below every broker's default limit."""
_PORTION = 200
"""Records that are built, and perhaps sent again, together."""
_RETRIABLE = {KafkaFault.LEADER_MOVED, KafkaFault.UNREACHABLE, KafkaFault.UNKNOWN_TOPIC}
"""What another leader may heal, or a moment: not every broker knows a topic at once that was just created."""
_PAUSES = (0.1, 0.5, 2)
"""Seconds before a batch is sent again, with its leader looked up anew: the first pause, the longest, and how many;
then its failure is raised."""


def record_batches(records: Sequence[KeyValue], codec: int = 0) -> list[tuple[bytearray, int]]:
    """Batches of the records, and how many are in each. A record that is too large for a batch has one of its own."""
    now = time.time_ns() // 1_000_000
    batches: list[tuple[bytearray, int]] = []
    at = 0
    while at < len(records):
        builder = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, _RECORDS_BYTES)
        count = 0
        while at < len(records):
            key, value = records[at]
            if builder.append(count, now, key, value, []) is None:
                break
            count, at = count + 1, at + 1
        batches.append((bytearray(builder.build()), count))
    return batches


class StateWriter:
    """Appends to partition 0, one batch in flight, at least once: each record stands for its key, so twice is harmless.

    No producer id is asked for, so that writing needs no right but that of the topic.
    """

    def __init__(self, client: NetworkClient, timeout: float) -> None:
        """`timeout`: seconds that a batch may take. The caller closes the client."""
        self._client = client
        self._sender = BatchSender(client, None, timeout)
        self._appending = asyncio.Lock()

    async def append(self, topic: str, records: Sequence[KeyValue]) -> None:
        """Acknowledged when this returns. Raises KafkaFailure; then some may be."""
        async with self._appending:
            for pieces in _portions(records):
                await self._write(topic, pieces)

    async def close(self) -> None:
        await self._sender.close()

    async def _write(self, topic: str, records: Sequence[KeyValue]) -> None:
        for pause in (*pauses(*_PAUSES), None):
            try:
                if self._sender.failed is not None:
                    await self._sender.close()
                    self._sender.restart(ProducerIdAndEpoch())
                for data, count in record_batches(records, LZ4):
                    self._sender.send(TopicPartition(topic, 0), data, count)
                    await self._sender.flush()
                return
            except KafkaFailure as failed:
                if failed.fault is KafkaFault.UNKNOWN_TOPIC:
                    await self._refuse_unseen(topic)
                if failed.fault not in _RETRIABLE or pause is None:
                    raise
            await asyncio.sleep(pause)

    async def _refuse_unseen(self, topic: str) -> None:
        """A topic that we may not describe looks like one that is not there. Raises KafkaFailure."""
        doing = f"write to {topic}"
        failed = of_code((await self._client.metadata([topic]))[topic].error, doing)
        if failed is not None and failed.fault is KafkaFault.NOT_AUTHORIZED:
            raise not_allowed_to_write([topic], doing)


def _portions(records: Sequence[KeyValue]) -> list[Sequence[KeyValue]]:
    return [records[at : at + _PORTION] for at in range(0, len(records), _PORTION)]
