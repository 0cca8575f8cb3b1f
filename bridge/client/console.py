"""Prints internal topics record by record, as stock's formatters do in kafka-console-consumer (stock §1.11)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from bridge.client.consumers import LOOK_SECONDS
from bridge.client.mirror_client import read_config
from bridge.errors import KafkaFailure
from bridge.kafka.cluster import KafkaCluster
from bridge.kafka.consumer.topic_tail import TopicTail
from bridge.mm2.records import SchemaError
from bridge.mm2.replication_policy import ReplicationPolicy
from bridge.model.values import LogRecord, TailPart

Decode = Callable[[bytes | None, bytes | None], object]
_NOTHING = TailPart((), restarted=False, at_end=True)


@dataclass(frozen=True, slots=True)
class Reading:
    """The topic to print, and how much of it. `topic`: its name by the replication policy; `decode`: makes of key and
    value an object whose `str` is the formatter's line, or raises SchemaError; `max_messages`: end after so many;
    `idle`: end after so many seconds without a record. None is no limit."""

    topic: Callable[[ReplicationPolicy], str]
    decode: Decode
    from_beginning: bool = False
    max_messages: int | None = None
    idle: float | None = None


async def print_records(
    props: Mapping[str, str], reading: Reading, out: Callable[[str], None], note: Callable[[str], None]
) -> None:
    """Prints records until a limit of `reading` is reached; `out` gets whole lines. A record that can't be decoded is a
    `note` with its offset (stock ends there), and so is a retriable error of the cluster once reading has begun. Raises
    ConfigRejected, and KafkaFailure if the topic can't be read to begin with."""
    config = read_config(props)
    cluster = KafkaCluster(config.settings)
    try:
        topic = reading.topic(config.policy)
        await _follow(cluster.tail(topic, from_end=not reading.from_beginning), reading, out, note)
    finally:
        await cluster.close()


async def _follow(
    tail: TopicTail, reading: Reading, out: Callable[[str], None], note: Callable[[str], None]
) -> None:
    remaining, began, last_record, last_error = reading.max_messages, False, time.monotonic(), ""
    while remaining != 0:
        try:
            part = await tail.read()
            last_error = ""
        except KafkaFailure as error:
            if not began or not error.retriable:
                raise
            if last_error != str(error):
                last_error = str(error)
                note(last_error)
            part = _NOTHING
        began = True
        if part.restarted:
            note(f"{tail.topic} was recreated or truncated; what follows is from its beginning")
        lines = list(islice(_lines(tail.topic, part.records, reading.decode, note), remaining))
        out("".join(lines))
        remaining = None if remaining is None else remaining - len(lines)
        if part.records:
            last_record = time.monotonic()
        if part.at_end and remaining != 0:
            if reading.idle is not None and time.monotonic() - last_record >= reading.idle:
                return
            await asyncio.sleep(LOOK_SECONDS)


def _lines(
    topic: str, records: Iterable[LogRecord], decode: Decode, note: Callable[[str], None]
) -> Iterator[str]:
    for record in records:
        try:
            yield f"{decode(record.key, record.value)}\n"
        except SchemaError as problem:
            note(f"{topic} at offset {record.offset}: {problem}")
