"""Records in and out of a cluster, with everything that a record can carry."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from bridge.local import eventually
from tests.support.names import unique
from tests.support.readers import reader
from tests.support.waiting import once_back
from tests.support.waits import WAIT

FLUSH_SECONDS = 60.0
READ_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Record:
    """A record to produce, or one that was read (then with its offset)."""

    value: bytes | None
    key: bytes | None = None
    timestamp: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int = 0
    offset: int = -1

    @property
    def content(self) -> tuple[object, ...]:
        """The content that a copy has in common with it."""
        return (self.key, self.value, self.timestamp, self.headers)


def numbered(count: int, *, start: int = 0, timestamp: int | None = None, partition: int = 0) -> list[Record]:
    """Records `start…` of distinct values; timestamps rise by one ms from `timestamp` if that is given."""
    return [
        Record(
            b"value-%d" % number,
            key=b"key-%d" % number,
            timestamp=None if timestamp is None else timestamp + number - start,
            partition=partition,
        )
        for number in range(start, start + count)
    ]


def varied(count: int, start: int = 0) -> list[Record]:
    """Records that have between them everything that a record can carry; others from each `start`."""
    dice = random.Random(start)
    return [
        Record(
            None if number % 7 == 0 else dice.randbytes(dice.randint(0, 300)),
            key=None if number % 5 == 0 else b"key-%d" % number,
            timestamp=1_600_000_000_000 + dice.randint(-100_000, 100_000),
            headers=(("a", b"1"), ("a", None), ("", b"")) if number % 3 == 0 else (),
        )
        for number in range(start, start + count)
    ]


def values(records: Sequence[Record]) -> list[bytes | None]:
    return [each.value for each in records]


def produce(
    bootstrap: str, topic: str, records: Iterable[Record], *, compression: str = "none", **settings: object
) -> list[int]:
    """Produces in order, waits for every acknowledgement, answers the offsets. `settings`: `_` for `.`."""
    with producer(bootstrap, compression=compression, **settings) as sink:
        return [offset for _, offset in _send(sink, topic, records)]


def produce_transaction(
    bootstrap: str, topic: str, records: Iterable[Record], *, commit: bool = True, compression: str = "none"
) -> list[int]:
    """One transaction, committed or aborted; either leaves a control record in each partition it wrote to, which is
    waited for: the broker answers before."""
    with producer(bootstrap, compression=compression, transactional_id=unique("tx")) as sink:
        sink.init_transactions(FLUSH_SECONDS)
        sink.begin_transaction()
        sent = _send(sink, topic, records)
        if commit:
            sink.commit_transaction(FLUSH_SECONDS)
        else:
            sink.abort_transaction(FLUSH_SECONDS)
    with reader(bootstrap) as consumer:
        for partition, offset in dict(sorted(sent)).items():
            _wait_end(consumer, TopicPartition(topic, partition), offset + 2)
    return [offset for _, offset in sent]


@contextmanager
def open_transaction(
    bootstrap: str, topic: str, records: Sequence[Record], *, by: str | None = None
) -> Iterator[Producer]:
    """Records that are in the log, and neither committed nor aborted. `by`: the transactional id."""
    with producer(bootstrap, transactional_id=by or unique("tx")) as sink:
        sink.init_transactions(FLUSH_SECONDS)
        sink.begin_transaction()
        for each in records:
            sink.produce(topic, value=each.value, key=each.key, partition=each.partition)
        sink.flush(FLUSH_SECONDS)
        yield sink


def _wait_end(consumer: Consumer, place: TopicPartition, least: int) -> None:
    def end() -> int:
        return consumer.get_watermark_offsets(place, timeout=READ_SECONDS)[1]

    eventually(lambda: end() >= least, WAIT, what=f"{place.topic}-{place.partition} ends at {least} or later")


@contextmanager
def producer(bootstrap: str, *, compression: str = "none", **settings: object) -> Iterator[Producer]:
    """An idempotent producer, flushed at the end."""
    extra = {name.replace("_", "."): value for name, value in settings.items()}
    common = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "compression.type": compression}
    sink = Producer({**common, "linger.ms": 5, **extra})
    try:
        yield sink
    finally:
        sink.flush(FLUSH_SECONDS)


def read(
    bootstrap: str, topic: str, partition: int = 0, *, start: int | None = None, committed_only: bool = False
) -> list[Record]:
    """All records of a partition from `start` (default: the log's) to the end it has now."""

    def attempt() -> list[Record]:
        with reader(bootstrap, committed_only=committed_only) as consumer:
            low, _ = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=READ_SECONDS)
            consumer.assign([TopicPartition(topic, partition, low if start is None else max(low, start))])
            return list(_until_end(consumer))

    return once_back(attempt, f"{topic}-{partition} is read")


def last(bootstrap: str, topic: str, partition: int, end: int) -> Record | None:
    """The last data record before `end`; None when there is none. Control records are stepped over."""
    for step in (1, 100, end):
        result = read(bootstrap, topic, partition, start=max(0, end - step))
        if result:
            return result[-1]
    return None


def position(message: Message) -> tuple[int, int]:
    """Partition and offset of a message that was read or delivered: only messages that were not sent have none."""
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    return partition, offset


def _headers(message: Message) -> Iterator[tuple[str, bytes | None]]:
    headers = message.headers() or []
    assert isinstance(headers, list)
    for name, value in headers:
        assert not isinstance(value, str)
        yield name, value


def as_record(message: Message) -> Record:
    partition, offset = position(message)
    return Record(
        value=message.value(),
        key=message.key(),
        timestamp=message.timestamp()[1],
        headers=tuple(_headers(message)),
        partition=partition,
        offset=offset,
    )


def _send(sink: Producer, topic: str, records: Iterable[Record]) -> list[tuple[int, int]]:
    """Partitions and offsets, as they were acknowledged."""
    sent: list[tuple[int, int]] = []
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(error)
        else:
            sent.append(position(message))

    for record in records:
        while True:
            try:
                sink.produce(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=record.partition,
                    on_delivery=delivered,
                    timestamp=record.timestamp or 0,  # 0: the client's clock
                )
                break
            except BufferError:
                sink.poll(0.1)
        sink.poll(0)
    sink.flush(FLUSH_SECONDS)
    if failures:
        raise KafkaException(failures[0])
    return sent


def _until_end(consumer: Consumer) -> Iterator[Record]:
    while True:
        message = consumer.poll(READ_SECONDS)
        if message is None:
            raise TimeoutError(f"nothing within {READ_SECONDS:g} s, not even the end of the partition")
        error = message.error()
        if error is None:
            yield as_record(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            return
        else:
            raise KafkaException(error)
