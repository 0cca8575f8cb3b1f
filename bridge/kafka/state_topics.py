"""State topics of the pipeline, read as they are committed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.admin.topic_configs import describe_configs
from bridge.kafka.consumer.log_bounds import bounds
from bridge.kafka.consumer.topic_tail import TopicTail
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol.errors import failure
from bridge.model.topics import not_only_compacted
from bridge.model.values import LogRecord, TopicPartition

log = logging.getLogger(__name__)

_PAUSE = 0.02
"""Seconds before a log is asked again how far it is committed."""


async def verify_compacted(client: NetworkClient, topics: Mapping[str, str]) -> None:
    """Verifies that topics are compacted. `topics`: names, with what they hold. As Connect it goes on where configs may
    not be described, and says so in the log. Raises KafkaFailure, TOPIC_CONFIG for a topic that would lose what it
    holds."""
    described = await describe_configs(client, list(topics))
    for topic, holds in topics.items():
        configs = described[topic]
        if not isinstance(configs, KafkaFailure):
            refused = not_only_compacted(topic, configs, holds)
            if refused is not None:
                raise KafkaFailure(KafkaFault.TOPIC_CONFIG, refused, retriable=False)
        elif configs.fault in (KafkaFault.NOT_AUTHORIZED, KafkaFault.UNSUPPORTED):
            log.info("can't verify that the cleanup.policy of topic %s is compact: %s", topic, configs)
        else:
            raise configs


async def read_uncommitted(client: NetworkClient, topic: str) -> list[LogRecord]:
    """All records that partition 0 holds now, of open and aborted transactions too. Raises KafkaFailure."""
    tail = TopicTail(client, topic)
    records: list[LogRecord] = []
    while True:
        part = await tail.read()
        if part.restarted:
            records.clear()
        records += part.records
        if part.at_end:
            return records


async def read_committed(
    client: NetworkClient,
    topic: str,
    within: float = 30.0,
    counts: Callable[[bytes | None], bool] = lambda _key: True,
) -> list[LogRecord]:
    """All committed records that partition 0 holds now, in the order of the log.

    A plain read_committed read ends where the oldest open transaction begins, and what others have committed beyond it
    stays hidden: one's own newest position, too. Here an open transaction is waited for that has a record of a key that
    `counts`, and no other one. Raises KafkaFailure, TIMEOUT when one stays open for longer than `within` seconds.
    """
    deadline = time.monotonic() + within
    reading = _Reading(client, topic)
    await reading.begin()
    while held := [record for record in await reading.read() if counts(record.key)]:
        if time.monotonic() > deadline:
            text = (
                f"An open transaction has held back offset {held[0].offset} for {within:g} s; if nobody is "
                f"going to end it, kafka-transactions.sh find-hanging --topic {topic} lists it, and abort ends it"
            )
            raise failure(KafkaFault.TIMEOUT, f"read {topic} up to offset {reading.end}", text)
        await asyncio.sleep(_PAUSE)
    return sorted(reading.records)


async def read_beside_open(client: NetworkClient, topic: str) -> tuple[list[LogRecord], Sequence[LogRecord]]:
    """The committed records that partition 0 holds now, in the order of the log; and those of transactions that are
    open. Raises KafkaFailure."""
    reading = _Reading(client, topic)
    await reading.begin()
    undecided = await reading.read()
    return sorted(reading.records), undecided


class _Reading:
    """Reads what a log holds when that begins."""

    def __init__(self, client: NetworkClient, topic: str) -> None:
        self._client, self._tp = client, TopicPartition(topic, 0)
        self._tail = TopicTail(client, topic, committed_only=True)
        self.records: list[LogRecord] = []
        self.end = 0

    async def begin(self) -> None:
        await self._tail.begin()  # the client knows its leader from here on
        end = (await bounds(self._client, [self._tp], committed_only=False))[self._tp]
        if isinstance(end, KafkaFailure):
            raise end
        self.end = end.end

    async def read(self) -> Sequence[LogRecord]:
        """Reads at least up to the end; returns what was not decided there yet."""
        while True:
            part = await self._tail.read()
            if part.restarted:
                self.records.clear()
            self.records += part.records
            if self._tail.position >= self.end or part.at_end:
                return [record for record in self._tail.undecided if record.offset < self.end]
