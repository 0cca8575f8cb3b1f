"""A checkpoints topic, read from its beginning to its end, into offsets of groups."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.consumer.topic_tail import TopicTail
from bridge.mm2.records import Checkpoint, SchemaError
from bridge.model.values import Committed, LogRecord, TopicPartition

log = logging.getLogger(__name__)

_LASTING = {
    KafkaFault.UNKNOWN_TOPIC,
    KafkaFault.NOT_AUTHORIZED,
    KafkaFault.CREDENTIALS,
    KafkaFault.UNSUPPORTED,
}
PAUSE = 0.2
"""Seconds before a cluster that does not answer is asked again."""

Offsets = dict[str, dict[TopicPartition, Committed]]
"""By group and remote partition."""


async def read_offsets(tail: TopicTail, wanted: Callable[[str], object], timeout_s: float) -> Offsets:
    """The last checkpoint of each partition of the groups that are `wanted`.

    After `timeout_s` seconds: what was read so far, with a warning in the log, as stock. But when it is the cluster
    that does not answer then, that is raised, and a topic that is missing or forbidden is raised at once.
    """
    reader = _Reader(wanted)
    trouble: KafkaFailure | None = KafkaFailure(
        KafkaFault.TIMEOUT, f"No answer in time (while trying to read {tail.topic})"
    )
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                try:
                    part = await tail.read()
                except KafkaFailure as error:
                    if error.fault in _LASTING:
                        raise
                    trouble = error
                    await asyncio.sleep(PAUSE)
                    continue
                trouble = None
                if part.restarted:
                    reader.offsets.clear()
                for record in part.records:
                    reader.apply(record)
                if part.at_end:
                    break
    except TimeoutError:
        if trouble is not None:
            raise trouble from None
        log.warning(
            "%s: not read to its end within %g s, so that offsets may be missing", tail.topic, timeout_s
        )
    if reader.skipped:
        log.warning("%s: %d records can't be read and are left out", tail.topic, reader.skipped)
    return reader.offsets


class _Reader:
    """Checkpoints that can't be read are skipped, as in stock. A tombstone takes the checkpoint of its key away, as
    compaction will (stock fails on it with a NullPointerException, and answers nothing)."""

    def __init__(self, wanted: Callable[[str], object]) -> None:
        self._wanted = wanted
        self.offsets: Offsets = {}
        self.skipped = 0

    def apply(self, record: LogRecord) -> None:
        gone = record.value is None
        try:
            found = Checkpoint.checked(record.key, _ANY_VALUE if gone else record.value)
        except SchemaError:
            self.skipped += 1
            return
        if not self._wanted(found.group):
            return
        if not gone:
            committed = Committed(found.downstream_offset, found.metadata)
            self.offsets.setdefault(found.group, {})[found.topic_partition] = committed
        elif (left := self.offsets.get(found.group)) is not None:
            left.pop(found.topic_partition, None)
            if not left:
                del self.offsets[found.group]


_ANY_VALUE = Checkpoint("", TopicPartition("", 0), 0, 0, "").value()
"""So that the key of a tombstone can be read."""
