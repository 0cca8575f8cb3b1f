"""Finds records that can't be copied, and leaves them out or fails, as source.record.policy says.

A broker rejects a whole batch for one of its records (a timestamp outside the topic's limits, no key in a compacted
topic). The transaction is over then. Brokers since 2.4 name all records of the batch that are at fault (KIP-467): these
are left out in the next one. Where none is named the records of that batch are sent each in a batch of its own, so that
the next refusal names the record. A poison record never stops a partition in silence.

A batch that nobody can decode, and that can't pass as it is, is refused as a whole: what its records are nobody knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.record.batch import Chunk, RawBatch
from bridge.kafka.record.rebuilding import BatchPolicy, RecordTooLarge, UnreadableBatch, chunks, refused
from bridge.model.copying import MOST_BYTES, Copied, Gap, GapKind
from bridge.model.values import TopicPartition

REFUSALS = {
    KafkaFault.RECORD_TOO_LARGE: "max.message.bytes of the topic or message.max.bytes of its brokers",
    KafkaFault.RECORD_REFUSED: "message.timestamp.before.max.ms, message.timestamp.after.max.ms or cleanup.policy",
}
"""What a broker says of a batch that it will never take, and what would have to change."""


GO_ON_WITHOUT = "set source.record.policy to report to go on without them"


class LeftOut(NamedTuple):
    """Records that can't be copied. `gap`: for the ledger, where source.record.policy is report; `why` and `way_out`:
    of their partition, where it is fail."""

    gap: Gap
    why: str
    way_out: str


class Refused(Exception):
    """A batch that the target has rejected: the offsets of its records, [first, end). `whole`: none of them can be
    copied; else it may be one among them that is at fault. `target`: the topic that they were for, "" for that of the
    partition. `named`: why by offset, of the records at fault, as far as they are known. `others`: further batches of
    the same transaction."""

    def __init__(
        self,
        source: TopicPartition,
        first: int,
        end: int,
        cause: KafkaFailure,
        *,
        whole: bool = False,
        target: str = "",
        named: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(str(cause))
        self.source, self.first, self.end, self.cause, self.target = source, first, end, cause, target
        self.whole = whole or end - first == 1
        self.named = named
        self.others: Sequence[Refused] = ()

    def left_out(self, copied: Copied, now_ms: int) -> Iterator[LeftOut]:
        """Yields what can't be copied, once it is found: the records that are named, or all."""
        where, cause = f"{self.source.topic}-{self.source.partition}", self.cause.fault
        for first, (end, why) in self._ranges().items():
            gap = refused_gap(first, end, why, copied, now_ms)
            if cause in REFUSALS:
                text = f"the target rejects the record of {where} at offset {first} for {copied.target_topic}: {why}"
                yield LeftOut(gap, text, f"change {REFUSALS[cause]}, or set source.record.policy to report")
            else:
                offsets = f"the records of {where} at offsets {first} to {end - 1}"
                yield LeftOut(
                    gap, f"{offsets} can't be copied to {copied.target_topic}: {why}", GO_ON_WITHOUT
                )

    def _ranges(self) -> Mapping[int, tuple[int, str]]:
        """Returns the offsets of what can't be copied, [first, end), and why, by first."""
        if self.named:
            return {offset: (offset + 1, why) for offset, why in self.named.items()}
        return {self.first: (self.end, str(self.cause))}


class Refusals:
    """Remembers refused records; outlives the transactions, not the slice. `decompressed`: as in BatchPolicy."""

    def __init__(self, decompressed: int = MOST_BYTES) -> None:
        self._decompressed = decompressed
        self._careful: dict[TopicPartition, int] = {}
        self._left_out: dict[TopicPartition, dict[int, LeftOut]] = {}

    def learn(self, refused_: Refused) -> bool:
        """Narrows the search; returns whether what can't be copied is found."""
        if refused_.whole or refused_.named:
            return True
        end = self._careful.get(refused_.source, 0)
        self._careful[refused_.source] = max(end, refused_.end)
        return False

    def leave_out(self, found: LeftOut) -> None:
        """Sends these records no more."""
        self._left_out.setdefault(found.gap.source, {})[found.gap.upstream_from] = found

    def try_again(self, source: TopicPartition) -> None:
        """Sends all records of a partition again: the target may take them by now."""
        self._left_out.pop(source, None)
        self._careful.pop(source, None)

    def chunks(
        self, source: TopicPartition, batches: Sequence[RawBatch], policy: BatchPolicy, position: int
    ) -> Iterator[Chunk | LeftOut]:
        """Makes what is to be sent, in order, and what is left out. Raises Refused for what can't be put
        into a batch of the target's limits, and for bytes that nobody can decode."""
        return self.without(source, lambda at: chunks(batches, policy, at), position)

    def without(
        self, source: TopicPartition, made: Callable[[int], Iterator[Chunk]], position: int, target: str = ""
    ) -> Iterator[Chunk | LeftOut]:
        """Does the same with chunks that are `made` anew from an offset on; `target` as in Refused."""
        careful, left_out = self._careful.get(source, 0), self._left_out.get(source, {})
        if position >= careful:
            careful = 0
        for passed in [first for first in left_out if first < position]:
            del left_out[passed]
        place = position
        while True:
            try:
                for chunk in made(place):
                    whole = chunk.segments[0][0] >= careful and not (
                        left_out and _has_left_out(left_out, chunk)
                    )
                    for part in (chunk,) if whole else self._split(chunk, careful, left_out):
                        found = left_out.get(part.segments[0][0]) if part.count == 1 else None
                        yield part if found is None else found
                        last, count = part.segments[-1]
                        place = last + count
                return
            except RecordTooLarge as large:
                cause = KafkaFailure(KafkaFault.RECORD_TOO_LARGE, str(large), retriable=False)
                refused_ = Refused(source, large.offset, large.offset + 1, cause, target=target)
            except UnreadableBatch as unreadable:
                cause = KafkaFailure(KafkaFault.OTHER, str(unreadable), retriable=False)
                first = max(place, unreadable.offset)
                refused_ = Refused(source, first, unreadable.last_offset + 1, cause, whole=True)
            found = left_out.get(refused_.first)
            if found is None:
                raise refused_
            yield found
            place = found.gap.upstream_to

    def _split(self, chunk: Chunk, careful: int, left_out: Mapping[int, LeftOut]) -> Iterator[Chunk]:
        """Cuts a chunk until each record below `careful`, and each that is left out, is in one of its own."""
        if chunk.segments[0][0] >= careful and not _has_left_out(left_out, chunk):
            yield chunk
            return
        halves = refused(chunk, self._decompressed)
        if not halves:
            yield chunk
        for half in halves:
            yield from self._split(half, careful, left_out)


def _has_left_out(left_out: Mapping[int, LeftOut], chunk: Chunk) -> bool:
    """Whether a record of the chunk is left out."""
    return any(
        offset in left_out for first, count in chunk.segments for offset in range(first, first + count)
    )


def going_round(copied: Copied, first: int, end: int, now_ms: int) -> LeftOut:
    """Makes what says that records at [first, end) are the partition's own, which have come back. Policy `report` does
    not leave them out by itself: new ones may be among them."""
    topic = copied.source.topic
    why = (
        f"records that were copied to {copied.target_topic} come back: something copies them to {topic} again"
    )
    gap = refused_gap(first, end, why, copied, now_ms)
    return LeftOut(gap, why, f"end that mirror, or leave {topic} out of its topics")


def refused_gap(first: int, end: int, why: str, copied: Copied, now_ms: int) -> Gap:
    """Makes the gap of records that are not copied."""
    place, topic_id = copied.source, copied.source_topic_id
    return Gap(place, GapKind.RECORD_REFUSED, topic_id, first, end, now_ms, why, copied.target_topic)
