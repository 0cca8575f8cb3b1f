"""The data of the source cluster: four topics, each with something that makes offsets hard to translate.

| topic    | partitions | difficulty |
| -------- | ---------- | --- |
| orders   | 4 | compressed; bursts of 50 orders carry one timestamp |
| payments | 2 | transactions: control records take offsets and have no copy; every fourth is aborted |
| profiles | 2 | compacted before it is mirrored: holes in the source, none in the target |
| ticks    | 1 | 10,000 records in one millisecond |
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from bridge.demo.cluster import Outgoing, admin, create_topic, producing, send
from bridge.demo.compaction import compact
from bridge.demo.logs import Tp

ORDERS, PAYMENTS, PROFILES, TICKS = "orders", "payments", "profiles", "ticks"
TOPICS = {ORDERS: 4, PAYMENTS: 2, PROFILES: 2, TICKS: 1}
PARTITIONS: tuple[Tp, ...] = tuple((topic, each) for topic, count in TOPICS.items() for each in range(count))

START_MS = 1_750_000_000_000
FEWEST = 2_000
DEFAULT_RECORDS = 230_000
_BURST = 50
_TRANSACTION = 500
_ABORT_EVERY = 4
_TRANSACTION_SECONDS = 60.0
_PAUSE_MS = 60_000
"""Time between older and newer profiles, in which the timestamps of compact()'s own records lie."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """How many records each topic gets; of the ticks, `burst` have the same timestamp."""

    orders: int
    payments: int
    profiles: int
    burst: int

    @staticmethod
    def of(total: int) -> Amounts:
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
