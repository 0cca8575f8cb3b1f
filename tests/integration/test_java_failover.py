"""Groups of Java consumers fail over: the first record on the target is the first that was not processed.

What they have and others do not: commits carry the leader epoch of the source's batch, which means nothing on the
target. A Java consumer that finds an epoch there which its cluster has not reached waits for it, without a word.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from bridge.kafka.cluster import KafkaCluster
from bridge.kafka.config.settings import client_settings
from bridge.local import Broker, Cluster, LocalStack
from bridge.model.values import Committed, Judgement, Side, TopicPartition
from tests.integration.failover import copy, foreign, topics, translate
from tests.support import Record, create_topic, numbered, produce, produce_transaction, read, unique
from tests.support.brokers import RESTARTED

pytestmark = pytest.mark.long

Ask = Callable[..., list[str]]
NOW = 1_700_000_000_000
_UP_TO = 10


def aborted(source: Cluster, topic: str) -> None:
    """0 to 9, aborted 10 to 14 with a marker at 15, then 16 to 25."""
    records = numbered(25, timestamp=NOW)
    produce(source.bootstrap, topic, records[:10])
    produce_transaction(source.bootstrap, topic, records[10:15], commit=False)
    produce(source.bootstrap, topic, records[15:])


def plain(source: Cluster, topic: str) -> None:
    produce(source.bootstrap, topic, numbered(30, timestamp=NOW))


def burst(source: Cluster, topic: str) -> None:
    produce(source.bootstrap, topic, [replace(each, timestamp=NOW) for each in numbered(2000)])


def disorder(source: Cluster, topic: str) -> None:
    produce(
        source.bootstrap,
        topic,
        [replace(r, timestamp=NOW + (at * 37) % 101) for at, r in enumerate(numbered(100))],
    )


def negative(source: Cluster, topic: str) -> None:
    produce(source.bootstrap, topic, [replace(each, timestamp=-1) for each in numbered(30)])


def transactions(source: Cluster, topic: str) -> None:
    """Markers at 4, 9 and 14."""
    for number in range(3):
        produce_transaction(
            source.bootstrap, topic, numbered(4, start=4 * number, timestamp=NOW + 4 * number)
        )


@pytest.mark.parametrize(
    ("history", "offset"),
    [
        (plain, 0),
        (plain, 1),
        (plain, 17),
        (plain, 30),
        (burst, 1234),
        (disorder, 50),
        (negative, 11),
        (transactions, 4),
        (transactions, 6),
        (transactions, 12),
        (transactions, 15),
        (aborted, 12),
        (aborted, 20),
    ],
)
def test_the_first_record_is_the_first_unprocessed(
    source: Cluster, target: Cluster, java: Ask, history: Callable[[Cluster, str], None], offset: int
) -> None:
    topic, group = topics(source, target, junk=0 if offset == 0 else 5), unique("java")
    remote = f"{source.name}.{topic}"
    history(source, topic)
    # Aborted data included, as a mirror of default settings does.
    originals = read(source.bootstrap, topic)
    copy(source, target, topic, originals)
    word, place = java("commit", source.bootstrap, group, topic, offset)
    # A consumer that has stepped over the marker commits the offset after it.
    assert (word, int(place)) in {("committed", offset), ("committed", offset + (history is transactions))}
    row = translate(source, target, group)[TopicPartition(topic, 0)]
    assert row.verdict.judgement is Judgement.EXACT
    unprocessed = [each for each in originals if each.offset >= offset]
    if not unprocessed:
        assert java("resume", target.bootstrap, group, remote, 1)[0] == "none"
        unprocessed = [Record(b"next", timestamp=NOW + 10**6)]
        produce(target.bootstrap, remote, unprocessed)
    value = unprocessed[0].value
    assert value is not None
    result = java("resume", target.bootstrap, group, remote, _UP_TO)
    assert result[1] == value.decode()
    assert result[0] == str(row.standing)


@pytest.fixture(scope="module")
def veteran(stack: LocalStack) -> Iterator[Broker]:
    """A source whose partitions have seen more leader epochs than those of the target ever will."""
    broker = stack.broker("veteran", properties=RESTARTED)
    yield broker
    broker.close()


def committed(
    cluster: Cluster, group: str, write: Committed | None = None, place: TopicPartition | None = None
) -> object:
    props = {"source.cluster.bootstrap.servers": cluster.bootstrap}

    async def go() -> object:
        client = KafkaCluster(client_settings(Side.SOURCE, props))
        try:
            if write is not None and place is not None:
                assert await client.alter(group, {place: write}) == {place: None}
            return (await client.committed([group]))[group]
        finally:
            await client.close()

    return asyncio.run(go())


def test_leader_epochs_of_the_source_stay_there(veteran: Broker, target: Cluster, java: Ask) -> None:
    topic = create_topic(veteran.bootstrap, unique("epochs"))
    for _ in range(2):
        veteran.restart()
    remote = create_topic(target.bootstrap, f"veteran.{topic}")
    records = numbered(30, timestamp=NOW)
    produce(veteran.bootstrap, topic, records)
    produce(target.bootstrap, remote, [*foreign(5), *records])
    group, place = unique("java"), TopicPartition(topic, 0)
    assert java("commit", veteran.bootstrap, group, topic, 17) == ["committed", "17"]
    there = committed(veteran, group)
    assert isinstance(there, dict)
    old = there[place]
    assert old.leader_epoch >= 2
    row = translate(veteran, target, group)[place]
    assert (row.verdict.judgement, row.standing) == (Judgement.EXACT, 22)
    written = committed(target, group)
    assert isinstance(written, dict)
    assert written[TopicPartition(remote, 0)] == Committed(22, "", 0)  # the epoch of the target's own batch
    assert java("resume", target.bootstrap, group, remote, _UP_TO) == ["22", "value-17"]
    # What would be if it were copied along: the consumer gets nothing.
    wrong = unique("wrong")
    committed(target, wrong, Committed(22, "", old.leader_epoch), TopicPartition(remote, 0))
    assert java("resume", target.bootstrap, wrong, remote, 3)[0] in ("none", "error")


def test_a_caught_up_group_goes_on_with_what_comes_next(veteran: Broker, target: Cluster, java: Ask) -> None:
    """No batch stands at the answer yet, so no epoch is known; none is written."""
    topic, group = create_topic(veteran.bootstrap, unique("tail")), unique("java")
    veteran.restart()
    remote = create_topic(target.bootstrap, f"veteran.{topic}")
    records = numbered(10, timestamp=NOW)
    produce(veteran.bootstrap, topic, records)
    produce(target.bootstrap, remote, records)
    java("commit", veteran.bootstrap, group, topic, 10)
    row = translate(veteran, target, group)[TopicPartition(topic, 0)]
    assert (row.verdict.judgement, row.standing) == (Judgement.EXACT, 10)
    produce(target.bootstrap, remote, numbered(1, start=10, timestamp=NOW + 10))
    assert java("resume", target.bootstrap, group, remote, _UP_TO) == ["10", "value-10"]
