"""Consumes the heartbeats or the checkpoints that arrive on a cluster, from all topics of the kind.

KIP-382 names them `heartbeatConsumer` and `checkpointConsumer`; stock has neither. Partition 0 of each topic is read,
as everywhere in stock: these topics have one.

Reads a checkpoints topic from its beginning to its end: the offsets of groups.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from bridge.backoff import Backoff
from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.cluster import KafkaCluster
from bridge.kafka.consumer.topic_tail import TopicTail
from bridge.mm2.records import Checkpoint, Heartbeat, SchemaError
from bridge.model.values import Committed, LogRecord, TailPart, TopicPartition

log = logging.getLogger(__name__)


PERMANENT = {
    KafkaFault.UNKNOWN_TOPIC,
    KafkaFault.NOT_AUTHORIZED,
    KafkaFault.CREDENTIALS,
    KafkaFault.UNSUPPORTED,
}
"""Faults of reading that waiting does not mend."""
_BACKOFF = (0.1, 1.0)
"""Seconds until a cluster that does not answer is asked again, first and at most, as retry.backoff.ms and
retry.backoff.max.ms are by default."""

Offsets = dict[str, dict[TopicPartition, Committed]]
"""By group and remote partition."""
_ANY_VALUE = Checkpoint("", TopicPartition("", 0), 0, 0, "").value()
"""Decoding a key needs some value, and a tombstone has none."""
T = TypeVar("T", Heartbeat, Checkpoint)
REFRESH_SECONDS = 5.0
"""How often topics of the kind are looked for, as stock refreshes topics in its tests; Kafka's own consumer does it
every five minutes (`metadata.max.age.ms`), too seldom for a new flow to be seen."""
LOOK_SECONDS = 0.2
"""How often a log that has ended, or that can't be read now, is read again."""


async def read_offsets(tail: TopicTail, chosen: Callable[[str], object], timeout_s: float) -> Offsets:
    """The last checkpoint of each partition of the groups for which `chosen` is true.

    After `timeout_s` seconds it returns what was read so far and logs a warning, as stock does. Raises KafkaFailure if
    the cluster does not answer then, and at once if the topic is missing or may not be read.
    """
    reader, backoff = _Reader(chosen), Backoff(*_BACKOFF)
    error: KafkaFailure | None = KafkaFailure(
        KafkaFault.TIMEOUT, f"No answer in time (while trying to read {tail.topic})"
    )
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                try:
                    part = await tail.read()
                except KafkaFailure as failure:
                    if failure.fault in PERMANENT:
                        raise
                    error = failure
                    await asyncio.sleep(backoff.next())
                    continue
                error = None
                backoff.reset()
                if part.restarted:
                    reader.offsets.clear()
                for record in part.records:
                    reader.apply(record)
                if part.at_end:
                    break
    except TimeoutError:
        if error is not None:
            raise error from None
        log.warning(
            "%s was not read to its end within %g s: offsets of groups may be missing", tail.topic, timeout_s
        )
    if reader.skipped:
        log.warning("%s: %d records are not checkpoints and were skipped", tail.topic, reader.skipped)
    return reader.offsets


class _Reader:
    """Collects the offsets. Records that can't be decoded are skipped, as in stock. A tombstone removes the checkpoint
    of its key, as compaction will (stock fails on it with a NullPointerException, and returns nothing)."""

    def __init__(self, chosen: Callable[[str], object]) -> None:
        self._chosen = chosen
        self.offsets: Offsets = {}
        self.skipped = 0

    def apply(self, record: LogRecord) -> None:
        tombstone = record.value is None
        try:
            checkpoint = Checkpoint.checked(record.key, _ANY_VALUE if tombstone else record.value)
        except SchemaError:
            self.skipped += 1
            return
        if not self._chosen(checkpoint.group):
            return
        if not tombstone:
            committed = Committed(checkpoint.downstream_offset, checkpoint.metadata)
            self.offsets.setdefault(checkpoint.group, {})[checkpoint.topic_partition] = committed
        elif (remaining := self.offsets.get(checkpoint.group)) is not None:
            remaining.pop(checkpoint.topic_partition, None)
            if not remaining:
                del self.offsets[checkpoint.group]


@dataclass(frozen=True, slots=True)
class ConsumerRecord(Generic[T]):
    """A record of an internal topic, decoded. `timestamp` in ms. `value` is None for a tombstone, whose `key` says what
    it removes."""

    topic: str
    offset: int
    timestamp: int
    key: bytes | None
    value: T | None


@dataclass(frozen=True, slots=True)
class Subscription(Generic[T]):
    """What to consume: topics for which `subscribed` is true, their records made values by `decode`, which raises
    SchemaError. Not `from_beginning`: from where the topics end that exist at the start; those that appear later are
    read whole. `idle_s`: end after so many seconds without a record; None is never."""

    subscribed: Callable[[str], bool]
    decode: Callable[[bytes | None, bytes | None], T]
    from_beginning: bool = True
    idle_s: float | None = None


async def consumed(
    cluster: KafkaCluster, subscription: Subscription[T]
) -> AsyncGenerator[Sequence[ConsumerRecord[T]], None]:
    """Yields the records that came together, never none. Order holds within a topic.

    Records that can't be decoded are passed over with a warning, as in stock. A topic that is created again is read
    from its beginning, with a warning. While the cluster does not answer it waits, with one warning. Raises
    KafkaFailure for what waiting does not mend, and when `idle_s` are over and the cluster does not answer: an end
    means that nothing came, never that nothing could be read.
    """
    topics = _Topics(cluster, subscription)
    last_record = time.monotonic()
    while True:
        await topics.refresh()
        parts = await topics.read()
        records = [record for topic, part in parts for record in _decoded(topic, part, subscription.decode)]
        if records:
            last_record = time.monotonic()
            yield records
        elif all(part.at_end for _, part in parts):
            if subscription.idle_s is not None and time.monotonic() - last_record >= subscription.idle_s:
                if topics.failure is not None:
                    raise topics.failure
                return
            await asyncio.sleep(LOOK_SECONDS)


class _Topics(Generic[T]):
    """The topics that are consumed. `failure`: why the last look or read of one failed, None when all went well."""

    def __init__(self, cluster: KafkaCluster, subscription: Subscription[T]) -> None:
        self._cluster = cluster
        self._subscription: Subscription[T] = subscription
        self._tails: dict[str, TopicTail] = {}
        self._refresh_at = 0.0
        self._from_end = not subscription.from_beginning
        self.failure: KafkaFailure | None = None

    async def refresh(self) -> None:
        """Looks for new topics every REFRESH_SECONDS."""
        if time.monotonic() < self._refresh_at:
            return
        try:
            names = await self._cluster.topic_names()
        except KafkaFailure as failure:
            self._failed([failure])
            return
        for name in sorted(set(filter(self._subscription.subscribed, names)) - self._tails.keys()):
            self._tails[name] = self._cluster.tail(name, from_end=self._from_end)
        self._from_end = False
        self._refresh_at = time.monotonic() + REFRESH_SECONDS

    async def read(self) -> list[tuple[str, TailPart]]:
        """Reads each topic once, all at the same time; leaves out those that could not be read."""
        tails = list(self._tails.values())
        parts = await asyncio.gather(*(_read(tail) for tail in tails))
        failures: list[KafkaFailure] = []
        read: list[tuple[str, TailPart]] = []
        for tail, part in zip(tails, parts, strict=True):
            if not isinstance(part, KafkaFailure):
                read.append((tail.topic, part))
            elif part.fault is KafkaFault.UNKNOWN_TOPIC:
                log.warning("%s was deleted", tail.topic)
                del self._tails[tail.topic]
            else:
                failures.append(part)
        if tails or failures:
            self._failed(failures)
        return read

    def _failed(self, failures: Sequence[KafkaFailure]) -> None:
        """Raises what waiting does not mend, and logs what is new."""
        for failure in failures:
            if failure.fault in PERMANENT or not failure.retriable:
                raise failure
        before, self.failure = self.failure, failures[0] if failures else None
        if self.failure is not None and str(before) != str(self.failure):
            log.warning("Reading of internal topics waits: %s", self.failure)


async def _read(tail: TopicTail) -> TailPart | KafkaFailure:
    try:
        return await tail.read()
    except KafkaFailure as failure:
        return failure


def _decoded(
    topic: str, part: TailPart, decode: Callable[[bytes | None, bytes | None], T]
) -> Iterable[ConsumerRecord[T]]:
    if part.restarted:
        log.warning("%s was created again or truncated; what follows is from its beginning", topic)
    if part.unreadable:
        log.warning("%s: %d batches can't be decoded and were skipped", topic, part.unreadable)
    for record in part.records:
        try:
            value = None if record.value is None else decode(record.key, record.value)
        except SchemaError as problem:
            log.warning("%s at offset %d is skipped: %s", topic, record.offset, problem)
        else:
            yield ConsumerRecord(topic, record.offset, record.timestamp, record.key, value)
