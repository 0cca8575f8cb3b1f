"""Consumer groups: offsets committed and read by the admin API, and members that really join."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition

from bridge.local import eventually
from tests.support.background import in_background
from tests.support.records import Record, as_record
from tests.support.topics import admin
from tests.support.waiting import once_back
from tests.support.waits import WAIT

Offsets = Mapping[tuple[str, int], int]


def commit(bootstrap: str, group: str, offsets: Offsets, *, metadata: str | None = None) -> None:
    """Commits as an operator would: the group needs no member, and must have none."""
    # The library takes no None for metadata.
    given = () if metadata is None else (metadata,)
    partitions = [
        TopicPartition(topic, number, offset, *given) for (topic, number), offset in offsets.items()
    ]
    client, request = admin(bootstrap), [ConsumerGroupTopicPartitions(group, partitions)]

    def done() -> bool:
        for future in client.alter_consumer_group_offsets(request).values():
            for partition in future.result(WAIT).topic_partitions:
                if partition.error is not None:
                    raise KafkaException(partition.error)
        return True

    # The first commit of a cluster may meet a coordinator that is still loading.
    eventually(done, WAIT, what=f"offsets of {group} are committed")


def committed(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    """Returns the group's committed offsets; empty for a group that does not exist."""
    client, request = admin(bootstrap), [ConsumerGroupTopicPartitions(group)]

    def asked() -> Sequence[TopicPartition]:
        (future,) = client.list_consumer_group_offsets(request).values()
        return future.result(WAIT).topic_partitions or []

    result = once_back(asked, f"the offsets of {group} are known")
    return {(each.topic, each.partition): each.offset for each in result if each.offset >= 0}


def delete_group(bootstrap: str, group: str) -> None:
    client = admin(bootstrap)
    for future in client.delete_consumer_groups([group]).values():
        future.result(WAIT)


def state(bootstrap: str, group: str) -> str:
    """EMPTY, STABLE, …"""
    client = admin(bootstrap)

    def asked() -> str:
        (future,) = client.describe_consumer_groups([group]).values()
        return str(future.result(WAIT).state.name)

    return once_back(asked, f"the state of {group} is known")


def resume(
    bootstrap: str, group: str, topics: list[str], count: int = 1, timeout: float = WAIT
) -> list[Record]:
    """Returns the first `count` records that a consumer of the group reads; it joins, reads, and commits nothing."""
    consumer = _member(bootstrap, group)
    try:
        consumer.subscribe(topics)
        collected: list[Record] = []

        def enough() -> bool:
            message = consumer.poll(1.0)
            if message is not None:
                if message.error() is not None:
                    raise KafkaException(message.error())
                collected.append(as_record(message))
            return len(collected) >= count

        eventually(enough, timeout, what=f"a consumer of {group} reads {count} records of {topics}")
        return collected
    finally:
        consumer.close()


@contextmanager
def active_member(bootstrap: str, group: str, topics: list[str]) -> Iterator[None]:
    """Keeps a member in the group that polls and commits nothing."""
    consumer, joined = _member(bootstrap, group), threading.Event()
    consumer.subscribe(topics, on_assign=lambda *_: joined.set())

    def poll(end: threading.Event) -> None:
        while not end.is_set():
            # Messages and errors alike are of no interest: polling keeps the membership.
            consumer.poll(0.2)
        consumer.close()

    with in_background(poll, f"member of {group}"):
        assert joined.wait(WAIT), f"the member of {group} was assigned nothing within {WAIT:g} s"
        yield


def _member(bootstrap: str, group: str) -> Consumer:
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "enable.auto.commit": False,
        # A test that resumes where nothing is committed should fail, not start at an end.
        "auto.offset.reset": "error",
        "isolation.level": "read_uncommitted",
        "session.timeout.ms": 30000,
    }
    return Consumer(settings)
