"""The failover itself: a consumer of each group starts on the target, and its first records are looked at.

It subscribes under the group's own id, reads committed data, and has no `auto.offset.reset` to save it: a partition
without an offset is an error. Its first record of every partition has to be the first one that the group has not
processed on the source: same key, value, timestamp and headers.

Where the group has processed everything, the right answer is nothing: the consumer must reach the end of the partition
without a record. Then one more record is produced, and that one has to be the consumer's first.

The source is asked before; it may be gone when consumers start.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition

from bridge.demo.cluster import Outgoing, producing, send
from bridge.demo.groups import Groups
from bridge.demo.logs import Content, Place, client_settings, content, first_from, place_of, reader

FIRST_SECONDS = 60.0
NEXT_SECONDS = 30.0
_POLL_SECONDS = 0.02


First = Mapping[tuple[str, Place], Content | None]
"""By group and partition: the first record that is not processed, None where all are."""


class Resumed(NamedTuple):
    """How a group began on one partition of the target."""

    group: str
    place: Place
    matches: bool


class Member:
    """A consumer of a group on the target, and the first record that it got of every source partition."""

    def __init__(self, bootstrap: str, alias: str, group: str, places: Sequence[Place]) -> None:
        settings = {
            **client_settings(bootstrap),
            "group.id": group,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            # Only the first record of each partition is wanted: don't fetch 64 MB of what follows.
            "queued.max.messages.kbytes": 1024,
            "fetch.message.max.bytes": 65_536,
        }
        self.group = group
        self.places = frozenset(places)
        self.first: dict[Place, Content] = {}
        self.quiet: set[Place] = set()
        """Partitions whose end came before any record."""
        self._failed: set[Place] = set()
        self._alias = alias
        self._consumer = Consumer(settings)
        self._consumer.subscribe(sorted({f"{alias}.{topic}" for topic, _ in places}))

    def close(self) -> None:
        self._consumer.close()

    def knows_all(self) -> bool:
        return self.places <= self.first.keys() | self.quiet | self._failed

    def poll(self) -> None:
        message = self._consumer.poll(_POLL_SECONDS)
        if message is None:
            return
        error = message.error()
        if error is not None and error.code() not in (
            KafkaError._PARTITION_EOF,
            KafkaError._AUTO_OFFSET_RESET,
        ):
            # Of the connection or the group: the client goes on trying, and the deadline ends it.
            return
        topic, partition = place_of(message)
        place = topic.removeprefix(f"{self._alias}."), partition
        if error is None:
            self.first.setdefault(place, content(message))
            self._consumer.pause([TopicPartition(topic, partition)])
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:
            self._failed.add(place)
        elif place not in self.first:
            self.quiet.add(place)


def fail_over(first: First, target: str, alias: str, groups: Groups) -> list[Resumed]:
    """Every group on every partition, in the order given; `first` is what the source said of them."""
    expected = dict(first)
    caught_up = {(group, place) for (group, place), found in expected.items() if found is None}
    with ExitStack() as closing:
        members = {group: Member(target, alias, group, list(offsets)) for group, offsets in groups.items()}
        for member in members.values():
            closing.callback(member.close)
        _poll(list(members.values()), lambda member: member.knows_all(), FIRST_SECONDS)
        quiet = {(group, place) for group, place in caught_up if _is_quiet(members[group], place)}
        following = _produce_next(target, alias, sorted({place for _, place in caught_up}))
        for group, place in caught_up:
            expected[group, place] = following[place]
        waiting = [members[group] for group in {group for group, _ in quiet}]
        _poll(
            waiting,
            lambda member: all(p in member.first for g, p in quiet if g == member.group),
            NEXT_SECONDS,
        )
    return [
        Resumed(
            group,
            place,
            members[group].first.get(place) == expected[group, place]
            and ((group, place) in quiet) == ((group, place) in caught_up),
        )
        for group, offsets in groups.items()
        for place in offsets
    ]


def first_unprocessed(source: str, groups: Groups) -> First:
    """As the mirror sees the source: committed data."""
    known: dict[tuple[Place, int], Content | None] = {}
    with reader(source, committed_only=True) as consumer:
        for place, offset in {item for offsets in groups.values() for item in offsets.items()}:
            found = first_from(consumer, place, offset)
            known[place, offset] = found[1] if found is not None else None
    return {
        (group, place): known[place, offset]
        for group, offsets in groups.items()
        for place, offset in offsets.items()
    }


def _is_quiet(member: Member, place: Place) -> bool:
    return place in member.quiet and place not in member.first


def _poll(members: Sequence[Member], enough: Callable[[Member], bool], seconds: float) -> None:
    """In turns, until all have enough or the time is over: whoever lacks something then has no match."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not all(enough(member) for member in members):
        for member in members:
            member.poll()


def _produce_next(target: str, alias: str, places: Sequence[Place]) -> dict[Place, Content]:
    """One more record for each of the partitions, where producers have gone too."""
    made: dict[Place, Content] = {}
    now = int(time.time() * 1000)
    with producing(target) as sink:
        for topic, partition in places:
            record = Outgoing(partition, b"after-failover", b"%s %d" % (topic.encode(), now), now)
            send(sink, f"{alias}.{topic}", [record])
            made[topic, partition] = Content(record.key, record.value, record.timestamp, record.headers)
    return made
