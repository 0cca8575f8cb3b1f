"""What benchmarks of the copy have to copy: topics full of batches of one size, made once and sent over and over."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from bridge.kafka.config.settings import client_settings
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.producer.producer import TransactionalProducer, producer_settings
from bridge.kafka.producer.sender import BatchSender
from bridge.model.values import Side, TopicPartition
from tests.support import create_topic, unique
from tests.unit.kafka.record.raw_batches import LZ4, NONE, ZSTD, Plain, batch_of

PARTITIONS = 10
SCALE = float(os.environ.get("MIRROR_BRIDGE_BENCH_SCALE", "1"))
"""Part of the records, and of the time, that benchmarks of the copy take; 0.1 to try them."""
CODECS = {"none": NONE, "lz4": LZ4, "zstd": ZSTD}
BATCHES = {"1": 1, "4": 4, "16 KB": 16_384, "1 MB": 1_000_000}
"""By name, records of a batch (below 1,000) or its bytes before compression."""
_OVERHEAD = 8
"""Bytes of a record beside its key and value."""
_KEY = 16
_IN_FLIGHT, _UNANSWERED = 32 * 1024 * 1024, 5_000


@dataclass(frozen=True)
class Load:
    """`records` of `size` bytes (key, value and what the format adds), evenly over the partitions."""

    records: int
    size: int
    batch: str = "16 KB"
    codec: str = "none"
    partitions: int = PARTITIONS
    json: bool = False
    """Values are objects with the fields id, email and text."""

    @property
    def name(self) -> str:
        size = f"{self.size // 1000} KB" if self.size >= 1000 else f"{self.size} B"
        return f"{size}, {self.batch}, {self.codec}"

    @property
    def in_batch(self) -> int:
        """Records of a full batch."""
        limit = BATCHES[self.batch]
        return limit if limit < 1000 else max(1, limit // self.size)

    @property
    def in_partition(self) -> int:
        return self.records // self.partitions

    @property
    def total(self) -> int:
        return self.in_partition * self.partitions

    def row(self) -> dict[str, object]:
        return {
            "records": self.total,
            "bytes_each": self.size,
            "batch": self.batch,
            "codec": self.codec,
            "partitions": self.partitions,
        }

    def batches(self) -> Iterator[tuple[bytes, int]]:
        """Of one partition, with how many records each has. All full batches are the same; the last record of the
        last batch is like no other."""
        before, at = self.in_partition - 1, self.in_batch
        full = _batch(at, self)
        for _ in range(before // at):
            yield full, at
        rest = before % at + 1
        yield _batch(rest, self, last=b"last"), rest


def _batch(count: int, load: Load, last: bytes | None = None) -> bytes:
    """Of words, which compress about as well as JSON does. `last`: key of the last record."""
    size, codec = load.size, load.codec
    dice, now = random.Random(size), int(time.time() * 1000)
    words = [dice.randbytes(4).hex() for _ in range(500)]
    length = max(1, size - _KEY - _OVERHEAD)
    records = []
    for number in range(count):
        value = " ".join(dice.choices(words, k=length // 9 + 1)).encode()[:length]
        if load.json:
            value = _object(number, value)
        key = last if last is not None and number == count - 1 else b"%0*d" % (_KEY, number)
        records.append(Plain(now, key, value))
    return batch_of(records, codec=CODECS[codec])


def _object(number: int, text: bytes) -> bytes:
    """Of as many bytes as the text, give or take a few."""
    start = b'{"id": %d, "email": "user%d@example.com", "text": "' % (number, number)
    return start + text[: max(1, len(text) - len(start) - 2)] + b'"}'


def filled(bootstrap: str, load: Load) -> str:
    """A new topic that holds the load."""
    topic = create_topic(bootstrap, unique("load"), load.partitions)
    asyncio.run(_fill(bootstrap, topic, load))
    return topic


async def _fill(bootstrap: str, topic: str, load: Load) -> None:
    client = NetworkClient(client_settings(Side.SOURCE, {"source.cluster.bootstrap.servers": bootstrap}).raw)
    sender = BatchSender(client, None, 120.0)
    try:
        unanswered: deque[asyncio.Future[int]] = deque()
        for place, data, count in _in_turn(topic, load):
            while sender.bytes_in_flight > _IN_FLIGHT or len(unanswered) > _UNANSWERED:
                await unanswered.popleft()
            unanswered.append(sender.send(place, bytearray(data), count))
        await sender.flush()
    finally:
        await sender.close()
        await client.close()


def _in_turn(topic: str, load: Load) -> Iterator[tuple[TopicPartition, bytes, int]]:
    """A batch of each partition, then the next of each."""
    for data, count in load.batches():
        for partition in range(load.partitions):
            yield TopicPartition(topic, partition), data, count


async def produce_alone(bootstrap: str, topic: str, load: Load, interval: float = 0.1) -> None:
    """Ready-made batches into an empty topic, in transactions of `interval` seconds: no copy can be faster."""
    props = {"target.cluster.bootstrap.servers": bootstrap}
    producer = TransactionalProducer(producer_settings(Side.TARGET, props), unique("alone"))
    try:
        await producer.start()
        await producer.begin()
        began = time.monotonic()
        unanswered: deque[asyncio.Future[int]] = deque()
        for place, data, count in _in_turn(topic, load):
            while producer.bytes_in_flight > _IN_FLIGHT or len(unanswered) > _UNANSWERED:
                await unanswered.popleft()
            if time.monotonic() > began + interval:
                await producer.commit()
                unanswered.clear()
                await producer.begin()
                began = time.monotonic()
            unanswered.append(producer.send(place, bytearray(data), count))
        await producer.commit()
    finally:
        await producer.close()
