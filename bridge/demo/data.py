"""The data of the source cluster: four topics, each with something that makes offsets hard to translate.

| topic    | partitions | difficulty |
| -------- | ---------- | --- |
| orders   | 4 | compressed; bursts of 50 orders carry one timestamp |
| payments | 2 | transactions: control records take offsets and have no copy; every fourth is aborted |
| profiles | 2 | compacted before it is mirrored: holes in the source, none in the target |
| ticks    | 1 | 10,000 records in one millisecond |

Topics, committed offsets and records of the demo's clusters, by the admin API and a producer.

Compacts a topic once: at once, and never again, so that what was counted stays true.

Chooses consumer groups with offsets at the head, the tail, the middle and in every kind of hole of the logs.
Pure.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
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

from bridge.demo.logs import DemoFailed, PartitionLog, Tp, client_settings, offset_of, read_logs
from bridge.local import eventually

WAIT = 60.0
FLUSH_SECONDS = 60.0
_COMPACT_SECONDS = 60.0
_STILL_SECONDS = 0.7
_STILL_TRIES = 30
_COMPACT_NOW = {"segment.ms": "1", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "0"}
_COMPACT_NO_MORE = {"segment.ms": None, "min.cleanable.dirty.ratio": "1", "delete.retention.ms": None}
"""No log's dirty ratio exceeds 1, so it is never compacted. The copy gets this configuration too."""
ORDERS, PAYMENTS, PROFILES, TICKS = "orders", "payments", "profiles", "ticks"
TOPICS = {ORDERS: 4, PAYMENTS: 2, PROFILES: 2, TICKS: 1}
PARTITIONS: tuple[Tp, ...] = tuple(
    (topic, number) for topic, count in TOPICS.items() for number in range(count)
)
START_MS = 1_750_000_000_000
FEWEST = 2_000
DEFAULT_RECORDS = 230_000
_BURST = 50
_TRANSACTION = 500
_ABORT_EVERY = 4
_TRANSACTION_SECONDS = 60.0
_PAUSE_MS = 60_000
"""Time between older and newer profiles, in which the timestamps of compact()'s own records lie."""
Groups = dict[str, dict[Tp, int]]


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
    return {
        (partition.topic, partition.partition): partition.offset
        for partition in partitions
        if partition.offset >= 0
    }


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


def compact(client: AdminClient, bootstrap: str, topic: str, partitions: int, touch_ms: int) -> None:
    """Waits until the log cleaner has removed more than half of every partition, and has finished.

    Only closed segments are compacted, and a segment is closed by a record that comes `segment.ms` after its first one:
    so this produces further records, with timestamps from `touch_ms` on.
    """
    tps = [(topic, number) for number in range(partitions)]
    before = {tp: len(log.entries) for tp, log in _read(bootstrap, tps).items()}
    set_topic_config(client, topic, _COMPACT_NOW)
    rounds = 0

    def compacted() -> bool:
        nonlocal rounds
        rounds += 1
        stamp = touch_ms + 2 * rounds
        with producing(bootstrap) as sink:
            value = b'{"touched":%d}' % rounds
            send(sink, topic, [Outgoing(number, b"profile-touched", value, stamp) for _, number in tps])
        return all(len(log.entries) < before[tp] // 2 for tp, log in _read(bootstrap, tps).items())

    eventually(compacted, _COMPACT_SECONDS, what=f"{topic} is compacted")
    set_topic_config(client, topic, _COMPACT_NO_MORE)
    _wait_still(bootstrap, tps)


def _wait_still(bootstrap: str, tps: list[Tp]) -> None:
    """Waits until the partitions no longer change: a cleaning that has begun goes on to its end."""
    last: dict[Tp, list[int]] = {}
    for _ in range(_STILL_TRIES):
        now = {tp: log.offsets for tp, log in _read(bootstrap, tps).items()}
        if now == last:
            return
        last = now
        time.sleep(_STILL_SECONDS)
    raise DemoFailed(
        f"the log cleaner of {bootstrap} does not finish within {_STILL_TRIES * _STILL_SECONDS:g} s"
    )


def _read(bootstrap: str, tps: list[Tp]) -> Mapping[Tp, PartitionLog]:
    return read_logs(bootstrap, tps, committed_only=False)


@dataclass(frozen=True, slots=True)
class Amounts:
    """How many records each topic gets; of the ticks, `burst` have the same timestamp."""

    orders: int
    payments: int
    profiles: int
    burst: int

    @staticmethod
    def for_total(total: int) -> Amounts:
        burst = min(10_000, total // 8)
        payments = profiles = total * 13 // 100
        return Amounts(total - payments - profiles - 3 * burst, payments, profiles, burst)


@dataclass(slots=True)
class Produced:
    """What was produced; `aborted`: offsets of aborted transactions, which a reader of the log can't tell."""

    records: int = 0
    aborted: dict[Tp, list[int]] = field(default_factory=dict)


def orders(count: int) -> Iterator[Outgoing]:
    for number in range(count):
        yield Outgoing(
            number % TOPICS[ORDERS],
            b"customer-%d" % (number % 997),
            b'{"order":%d,"item":"sku-%d","quantity":%d}' % (number, number % 4999, number % 7 + 1),
            START_MS + 20 * (number // _BURST),
            (("channel", b"web" if number % 3 else b"shop"), ("trace", b"%016x" % number)),
        )


def payments(first: int, count: int) -> Iterator[Outgoing]:
    for number in range(first, first + count):
        value = b'{"payment":%d,"cents":%d}' % (number, number * 37 % 99_991)
        yield Outgoing(number % TOPICS[PAYMENTS], b"account-%d" % (number % 1009), value, START_MS + number)


def profiles(first: int, count: int, keys: int, start_ms: int = START_MS) -> Iterator[Outgoing]:
    """Updates with keys in random order, so that compaction leaves holes of every width."""
    for number in range(first, first + count):
        key = zlib.crc32(b"%d" % number) % keys
        value = b'{"profile":%d,"revision":%d}' % (key, number)
        yield Outgoing(key % TOPICS[PROFILES], b"profile-%d" % key, value, start_ms + number)


def ticks(burst: int) -> Iterator[Outgoing]:
    """A third with a millisecond each, a third in one millisecond, a third with a millisecond each."""
    for number in range(3 * burst):
        time = min(number, burst) if number < 2 * burst else number - burst + 1
        yield Outgoing(0, b"EURUSD", b'{"tick":%d}' % number, START_MS + time)


def produce_all(bootstrap: str, amounts: Amounts) -> Produced:
    """Creates and fills the topics; compacts the older part of `profiles`."""
    client = admin(bootstrap)
    for topic, partitions in TOPICS.items():
        create_topic(client, topic, partitions, {"cleanup.policy": "compact"} if topic == PROFILES else {})
    produced = Produced()
    older = amounts.profiles * 3 // 4
    keys = max(1, amounts.profiles // 6)
    with producing(bootstrap, compression_type="zstd") as sink:
        send(sink, PROFILES, profiles(0, older, keys))
        compact(client, bootstrap, PROFILES, TOPICS[PROFILES], START_MS + older)
        send(sink, PROFILES, profiles(older, amounts.profiles - older, keys, START_MS + _PAUSE_MS))
        send(sink, ORDERS, orders(amounts.orders))
        send(sink, TICKS, ticks(amounts.burst))
    _transactions(bootstrap, amounts.payments, produced)
    produced.records = amounts.orders + amounts.payments + amounts.profiles + 3 * amounts.burst
    return produced


def _transactions(bootstrap: str, count: int, produced: Produced) -> None:
    size = min(_TRANSACTION, max(1, count // 8))
    with producing(bootstrap, transactional_id="demo-payments") as sink:
        sink.init_transactions(_TRANSACTION_SECONDS)
        for index, first in enumerate(range(0, count, size)):
            sink.begin_transaction()
            sent = send(sink, PAYMENTS, payments(first, min(size, count - first)))
            if index % _ABORT_EVERY == 1:
                sink.abort_transaction(_TRANSACTION_SECONDS)
                for partition, offsets in sent.items():
                    produced.aborted.setdefault((PAYMENTS, partition), []).extend(offsets)
            else:
                sink.commit_transaction(_TRANSACTION_SECONDS)


@dataclass(frozen=True, slots=True)
class Shape:
    """The offsets of a source partition."""

    offsets: Sequence[int]
    """Offsets of data records, without aborted ones, which are not copied."""
    end: int
    aborted: Sequence[int] = ()

    def at(self, share: float) -> int:
        """The offset of the record at this share of the log, from 0 to 1."""
        return self.offsets[int(share * (len(self.offsets) - 1))]

    def behind(self, lag: int) -> int:
        """The offset from which `lag` records are unread, or all of a shorter log."""
        return self.end if lag == 0 else self.offsets[-min(lag, len(self.offsets))]

    def holes(self) -> list[tuple[int, int]]:
        """Offsets without a record, as [first, next record), in order; with control records at the very end."""
        bounds = [-1, *self.offsets, self.end]
        return [(low + 1, high) for low, high in pairwise(bounds) if high > low + 1]

    def widest_hole(self) -> tuple[int, int]:
        return max(self.holes(), key=lambda hole: hole[1] - hole[0])


def choose(shapes: Mapping[Tp, Shape], burst: int) -> Groups:
    """The groups' committed offsets. Each group has one in every partition of its topics, so that it can subscribe."""

    def spread(topic: str, *offsets: int) -> dict[Tp, int]:
        tps = [tp for tp in PARTITIONS if tp[0] == topic]
        return dict(zip(tps, offsets, strict=True))

    order = [shapes[ORDERS, number] for number in range(4)]
    payment = [shapes[PAYMENTS, number] for number in range(2)]
    profile = [shapes[PROFILES, number] for number in range(2)]
    tick = shapes[TICKS, 0]
    holes = [shape.widest_hole() for shape in profile]
    markers = [shape.holes() for shape in payment]
    return {
        # At the head, and just behind it.
        "analytics": spread(
            ORDERS, *(shape.offsets[lead] for shape, lead in zip(order, (0, 1, 25, 500), strict=True))
        ),
        # In the middle, inside bursts of one millisecond.
        "shipping": spread(
            ORDERS, *(shape.at(share) for shape, share in zip(order, (0.2, 0.4, 0.6, 0.8), strict=True))
        ),
        # At the tail: caught up, one behind, and a little more.
        "billing": spread(
            ORDERS, *(shape.behind(lag) for shape, lag in zip(order, (0, 1, 30, 400), strict=True))
        )
        | spread(PAYMENTS, *(shape.behind(0) for shape in payment)),
        # Data records between control records.
        "ledger": spread(PAYMENTS, payment[0].at(0.3), payment[1].at(0.7)),
        # On control records: one inside the log, and the last one, behind which there is nothing.
        "settlement": spread(PAYMENTS, markers[0][len(markers[0]) // 2][0], markers[1][-1][0]),
        # Inside aborted transactions.
        "audit": spread(PAYMENTS, payment[0].aborted[0], payment[1].aborted[len(payment[1].aborted) // 2]),
        # In compaction holes: the middle of the widest one, and the missing start of the log.
        "crm": spread(PROFILES, sum(holes[0]) // 2, 0),
        # At the record right after the widest hole, and caught up.
        "search": spread(PROFILES, holes[0][1], profile[1].behind(0)),
        # Inside, at the start and at the end of the millisecond with all those ticks, and at the head.
        "charts": spread(TICKS, tick.offsets[burst + burst // 2]),
        "candles": spread(TICKS, tick.offsets[burst]),
        "alerts": spread(TICKS, tick.offsets[2 * burst - 1]),
        "replay": spread(TICKS, tick.offsets[0]),
        # All topics at once, lagging by different amounts.
        "warehouse": {tp: shapes[tp].behind(137 * (3 * number + 1)) for number, tp in enumerate(PARTITIONS)},
    }
