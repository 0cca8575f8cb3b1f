"""Reads whole partitions and single records, with a client that the product does not use.

The error of a demo that can't go on. An offset that is not exact is no error, but a line of the report.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from bridge.errors import BridgeError

Tp = tuple[str, int]
"""A topic and a partition."""
READ_SECONDS = 60.0
_BATCH = 10_000


class DemoFailed(BridgeError):
    """The demo can't go on; the text is one line for the command line."""


class Content(NamedTuple):
    """The parts of a record that its copy has too."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...]


class Entry(NamedTuple):
    """A record: its offset, and a digest of its content (450,000 contents would fill half a GB)."""

    offset: int
    digest: bytes


@dataclass(slots=True)
class PartitionLog:
    """The data records of a partition, and its log end offset."""

    entries: list[Entry] = field(default_factory=list)
    end: int = 0

    @property
    def offsets(self) -> list[int]:
        return [entry.offset for entry in self.entries]


def content(message: Message) -> Content:
    _, timestamp = message.timestamp()
    pairs = message.headers() or []
    # Never a dict when it was read; the type allows what `produce` accepts.
    headers = tuple(
        (name, as_bytes(value)) for name, value in (pairs if isinstance(pairs, list) else pairs.items())
    )
    return Content(as_bytes(message.key()), as_bytes(message.value()), timestamp, headers)


def as_bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def digest(of: Content) -> bytes:
    """A digest of the content; `repr` of nested tuples of bytes, text and numbers is unique."""
    return hashlib.blake2b(repr(tuple(of)).encode(), digest_size=16).digest()


def read_logs(bootstrap: str, tps: Iterable[Tp], *, committed_only: bool) -> dict[Tp, PartitionLog]:
    """All data records that the partitions hold now."""
    logs = {tp: PartitionLog() for tp in tps}
    unfinished = set(logs)
    deadline = time.monotonic() + READ_SECONDS
    with reader(bootstrap, committed_only=committed_only) as consumer:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for topic, partition in logs])
        while unfinished:
            if time.monotonic() > deadline:
                raise DemoFailed(f"{bootstrap} could not be read to its end within {READ_SECONDS:g} s")
            for message in consumer.consume(_BATCH, 0.2):
                tp = tp_of(message)
                if ended(message):
                    logs[tp].end = offset_of(message)
                    unfinished.discard(tp)
                elif tp in unfinished:
                    logs[tp].entries.append(Entry(offset_of(message), digest(content(message))))
    return logs


def first_from(consumer: Consumer, tp: Tp, offset: int) -> tuple[int, Content] | None:
    """The first data record at or after the offset; None at the end of the log."""
    consumer.assign([TopicPartition(*tp, offset)])
    try:
        while True:
            message = consumer.poll(READ_SECONDS)
            if message is None:
                raise DemoFailed(f"{tp[0]}-{tp[1]} could not be read at {offset}")
            if tp_of(message) == tp and not ended(message):
                return offset_of(message), content(message)
            if ended(message):
                return None
    finally:
        consumer.unassign()


def client_settings(bootstrap: str) -> dict[str, str | int | float | bool]:
    """Settings of all clients of the demo. They log nothing: lines would break the progress display."""
    return {"bootstrap.servers": bootstrap, "log_level": 0}


@contextmanager
def reader(bootstrap: str, *, committed_only: bool) -> Iterator[Consumer]:
    """A consumer that is assigned its partitions, commits nothing and leaves no group behind."""
    settings = {
        **client_settings(bootstrap),
        "group.id": "mirror-bridge-demo-reader",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        # A fetch that waits at the end of one partition would hold up the look-up in the next.
        "fetch.wait.max.ms": 10,
        "fetch.queue.backoff.ms": 1,
        "isolation.level": "read_committed" if committed_only else "read_uncommitted",
    }
    consumer = Consumer(settings)
    try:
        yield consumer
    finally:
        consumer.close()


def ended(message: Message) -> bool:
    """Whether the message says that the end of the partition was reached. Raises any other error."""
    error = message.error()
    if error is None:
        return False
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    raise KafkaException(error)


def tp_of(message: Message) -> Tp:
    topic, partition = message.topic(), message.partition()
    if topic is None or partition is None:
        raise KafkaException(message.error() or KafkaError(KafkaError._FAIL))
    return topic, partition


def offset_of(message: Message) -> int:
    offset = message.offset()
    return -1 if offset is None else offset
