"""Internal topics printed record by record, as stock's formatters do in a console consumer (stock §1.11)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from bridge.client.checkpoints import PAUSE
from bridge.client.config import read_config
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
    """`topic` finds the topic's name; `decode` takes key and value, raises SchemaError, and answers what prints itself
    as the formatter does. `idle`: seconds without a record after which it ends, None: never."""

    topic: Callable[[ReplicationPolicy], str]
    decode: Decode
    from_beginning: bool = False
    most: int | None = None
    idle: float | None = None


async def print_records(
    props: Mapping[str, str], reading: Reading, out: Callable[[str], None], note: Callable[[str], None]
) -> None:
    """Until there is nothing more to do; `out` gets whole lines. A record that can't be read is a note with its offset
    (stock ends there), and so is, once reading has begun, trouble that may pass. Raises ConfigRejected, and
    KafkaFailure when the topic can't be read to begin with."""
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
    left, began, heard, said = reading.most, False, time.monotonic(), ""
    while left != 0:
        try:
            part = await tail.read()
            said = ""
        except KafkaFailure as error:
            if not began or not error.retriable:
                raise
            if said != str(error):
                said = str(error)
                note(said)
            part = _NOTHING
        began = True
        if part.restarted:
            note(f"{tail.topic} was made anew or cut back; what follows is from its beginning")
        lines = list(islice(_lines(tail.topic, part.records, reading.decode, note), left))
        out("".join(lines))
        left = None if left is None else left - len(lines)
        if part.records:
            heard = time.monotonic()
        if part.at_end and left != 0:
            if reading.idle is not None and time.monotonic() - heard >= reading.idle:
                return
            await asyncio.sleep(PAUSE)


def _lines(
    topic: str, records: Sequence[LogRecord], decode: Decode, note: Callable[[str], None]
) -> Iterator[str]:
    for record in records:
        try:
            yield f"{decode(record.key, record.value)}\n"
        except SchemaError as problem:
            note(f"{topic} at offset {record.offset}: {problem}")
