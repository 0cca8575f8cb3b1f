"""Reads a checkpoints topic from its beginning to its end: the offsets of groups."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from bridge.backoff import Backoff
from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.consumer.topic_tail import TopicTail
from bridge.mm2.records import Checkpoint, SchemaError
from bridge.model.values import Committed, LogRecord, TopicPartition

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


_ANY_VALUE = Checkpoint("", TopicPartition("", 0), 0, 0, "").value()
"""Decoding a key needs some value, and a tombstone has none."""
