"""The failover: starts a consumer of each group on the target, and checks its first records.

Consumers subscribe under the group's own id, read committed data, and have `auto.offset.reset=error`: a partition
without an offset fails. The first record of every partition has to be the first one that the group has not processed on
the source: same key, value, timestamp and headers.

Where the group has processed everything, the consumer has to reach the end of the partition without a record. Then one
more record is produced, which has to be the consumer's first.

The source is read before consumers start, and may be gone then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition

from bridge.demo.data import Groups, Outgoing, producing, send
from bridge.demo.logs import Content, Tp, client_settings, content, first_from, reader, tp_of

FIRST_SECONDS = 60.0
NEXT_SECONDS = 60.0
_POLL_SECONDS = 0.02


First = Mapping[tuple[str, Tp], Content | None]
"""By group and partition: the first record that the group has not processed, None if it has processed all."""


class Resumed(NamedTuple):
    """Whether a group's first record of a partition on the target was the right one."""

    group: str
    tp: Tp
    matches: bool


class Member:
    """A consumer of a group on the target, and the first record that it read of each partition."""

    def __init__(self, bootstrap: str, alias: str, group: str, tps: Sequence[Tp]) -> None:
        settings = {
            **client_settings(bootstrap),
            "group.id": group,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            # Only the first record of each partition is needed: don't fetch 64 MB of what follows.
            "queued.max.messages.kbytes": 1024,
            "fetch.message.max.bytes": 65_536,
        }
        self.group = group
        self.tps = frozenset(tps)
        self.first: dict[Tp, Content] = {}
        self.at_end: set[Tp] = set()
        """Partitions whose end it reached before any record."""
        self._failed: set[Tp] = set()
        self._alias = alias
        self._consumer = Consumer(settings)
        self._consumer.subscribe(sorted({f"{alias}.{topic}" for topic, _ in tps}))

    def close(self) -> None:
        self._consumer.close()

    def knows_all(self) -> bool:
        return self.tps <= self.first.keys() | self.at_end | self._failed

    def poll(self) -> None:
        message = self._consumer.poll(_POLL_SECONDS)
        if message is None:
            return
        error = message.error()
        if error is not None and error.code() not in (
            KafkaError._PARTITION_EOF,
            KafkaError._AUTO_OFFSET_RESET,
        ):
            # An error of the connection or the group: the client retries, until the deadline.
            return
        topic, partition = tp_of(message)
        tp = topic.removeprefix(f"{self._alias}."), partition
        if error is None:
            self.first.setdefault(tp, content(message))
            self._consumer.pause([TopicPartition(topic, partition)])
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            self._failed.add(tp)
        elif tp not in self.first:
            self.at_end.add(tp)


def fail_over(first: First, target: str, alias: str, groups: Groups) -> list[Resumed]:
    """Starts a consumer of every group. The result has every group and partition in the given order. `first`: the
    records expected, from `first_unprocessed`."""
    expected = dict(first)
    caught_up = {(group, tp) for (group, tp), record in expected.items() if record is None}
    with ExitStack() as closing:
        members = {group: Member(target, alias, group, list(offsets)) for group, offsets in groups.items()}
        for member in members.values():
            closing.callback(member.close)
        _poll(list(members.values()), lambda member: member.knows_all(), FIRST_SECONDS)
        at_end = {(group, tp) for group, tp in caught_up if _is_at_end(members[group], tp)}
        following = _produce_next(target, alias, sorted({tp for _, tp in caught_up}))
        for group, tp in caught_up:
            expected[group, tp] = following[tp]
        waiting = [members[group] for group in {group for group, _ in at_end}]
        _poll(
            waiting,
            lambda member: all(p in member.first for g, p in at_end if g == member.group),
            NEXT_SECONDS,
        )
    return [
        Resumed(
            group,
            tp,
            members[group].first.get(tp) == expected[group, tp]
            and ((group, tp) in at_end) == ((group, tp) in caught_up),
        )
        for group, offsets in groups.items()
        for tp in offsets
    ]


def first_unprocessed(source: str, groups: Groups) -> First:
    """The first committed record at or after each group's offset on the source."""
    records: dict[tuple[Tp, int], Content | None] = {}
    with reader(source, committed_only=True) as consumer:
        for tp, offset in {item for offsets in groups.values() for item in offsets.items()}:
            record = first_from(consumer, tp, offset)
            records[tp, offset] = record[1] if record is not None else None
    return {
        (group, tp): records[tp, offset]
        for group, offsets in groups.items()
        for tp, offset in offsets.items()
    }


def _is_at_end(member: Member, tp: Tp) -> bool:
    return tp in member.at_end and tp not in member.first


def _poll(members: Sequence[Member], enough: Callable[[Member], bool], seconds: float) -> None:
    """Polls all members in turns until they have enough, or for so many seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not all(enough(member) for member in members):
        for member in members:
            member.poll()


def _produce_next(target: str, alias: str, tps: Sequence[Tp]) -> dict[Tp, Content]:
    """Produces one more record to each partition on the target, as producers do that have failed over too."""
    produced: dict[Tp, Content] = {}
    now = int(time.time() * 1000)
    with producing(target) as sink:
        for topic, partition in tps:
            record = Outgoing(partition, b"after-failover", b"%s %d" % (topic.encode(), now), now)
            send(sink, f"{alias}.{topic}", [record])
            produced[topic, partition] = Content(record.key, record.value, record.timestamp, record.headers)
    return produced
