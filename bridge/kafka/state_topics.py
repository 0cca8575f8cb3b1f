"""State topics of the pipeline, read as they are committed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping

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


async def read_committed(client: NetworkClient, topic: str, within: float = 30.0) -> list[LogRecord]:
    """All committed records that partition 0 holds now.

    A plain read_committed read ends where the oldest open transaction begins, and what others have committed beyond it
    stays hidden: one's own newest position, too. So this one asks first where the log ends, committed or not, and reads
    until it gets there. Raises KafkaFailure, TIMEOUT when a transaction stays open for longer than `within`
    seconds.
    """
    records, position, end = await _read_committed(client, topic, within)
    if position < end:
        text = (
            f"An open transaction has held back offset {position} and later for {within:g} s; if nobody is "
            f"going to end it, kafka-transactions.sh find-hanging --topic {topic} lists it, and abort ends it"
        )
        raise failure(KafkaFault.TIMEOUT, f"read {topic} up to offset {end}", text)
    return records


async def read_beside_open(
    client: NetworkClient, topic: str, within: float
) -> tuple[list[LogRecord], list[LogRecord]]:
    """The committed records that partition 0 holds now; and where a transaction stays open for longer than `within`
    seconds all that stands at its beginning and behind, committed or not, apart. Raises KafkaFailure."""
    records, position, end = await _read_committed(client, topic, within)
    if position >= end:
        return records, []
    return records, [each for each in await read_uncommitted(client, topic) if each.offset >= position]


async def _read_committed(
    client: NetworkClient, topic: str, within: float
) -> tuple[list[LogRecord], int, int]:
    """Reads for `within` seconds at most beyond what is there; the records, up to which offset, and the log's end."""
    tp = TopicPartition(topic, 0)
    tail = TopicTail(client, topic, committed_only=True)
    await tail.begin()  # the client knows its leader from here on
    end = (await bounds(client, [tp], committed_only=False))[tp]
    if isinstance(end, KafkaFailure):
        raise end
    records: list[LogRecord] = []
    deadline = time.monotonic() + within
    while True:
        part = await tail.read()
        if part.restarted:
            records.clear()
        records += part.records
        if tail.position >= end.end or (not part.records and time.monotonic() > deadline):
            return records, tail.position, end.end
        if not part.records:
            await asyncio.sleep(_PAUSE)
