"""Records that can't be copied: found one by one, and left out or failed on, as source.record.policy says.

A broker rejects a whole batch and does not say for which record (a timestamp outside the topic's limits, no key in a
compacted topic). The transaction is over then; in the next one the records of that batch are sent each in a batch of
its own, so that the next refusal names the record. A poison record never stops a partition in silence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.raw_batches import Chunk, RawBatch
from bridge.kafka.rebuilding import Limits, RecordTooLarge, UnreadableBatch, chunks, refused
from bridge.translation.copying import Copied, Gap, GapKind
from bridge.translation.model import TopicPartition

REFUSALS = {
    KafkaFault.RECORD_TOO_LARGE: "max.message.bytes of the topic or message.max.bytes of its brokers",
    KafkaFault.RECORD_REFUSED: "message.timestamp.before.max.ms, message.timestamp.after.max.ms or cleanup.policy",
}
"""What a broker says of a batch that it will never take, and what would have to change."""


class Refused(Exception):
    """A batch that the target has rejected: the offsets of its records, [first, end)."""

    def __init__(self, source: TopicPartition, first: int, end: int, cause: KafkaFailure) -> None:
        super().__init__(str(cause))
        self.source, self.first, self.end, self.cause = source, first, end, cause

    def said(self, copied: Copied) -> str:
        """For the one record that it is; names the place, and what to change."""
        where = f"{self.source.topic}-{self.source.partition} at offset {self.first}"
        return (
            f"the target refuses the record of {where} for {copied.target_topic}: {self.cause}; change "
            f"{REFUSALS[self.cause.fault]}, or set source.record.policy to report"
        )


class Refusals:
    """What is known of refused records; outlives the transactions, not the slice."""

    def __init__(self) -> None:
        self._careful: dict[TopicPartition, int] = {}
        self._left_out: dict[TopicPartition, dict[int, Gap]] = {}

    def learn(self, refused_: Refused) -> bool:
        """Whether the record is found: the batch had one record only."""
        if refused_.end - refused_.first == 1:
            return True
        end = self._careful.get(refused_.source, 0)
        self._careful[refused_.source] = max(end, refused_.end)
        return False

    def leave_out(self, gap: Gap) -> None:
        """A record that is not copied; `gap` is for the ledger."""
        self._left_out.setdefault(gap.source, {})[gap.upstream_from] = gap

    def chunks(
        self, source: TopicPartition, batches: Sequence[RawBatch], limits: Limits, position: int
    ) -> Iterator[Chunk | Gap]:
        """What is to be sent, in order, and what is left out. Raises Refused for what can't be put into a batch of the
        target's limits, and KafkaFailure for bytes that nobody can decode."""
        careful, left_out = self._careful.get(source, 0), self._left_out.get(source, {})
        if position >= careful:
            careful = 0
        at = position
        while True:
            try:
                for chunk in chunks(batches, limits, at):
                    for part in _single(chunk) if chunk.segments[0][0] < careful else (chunk,):
                        gap = left_out.get(part.segments[0][0]) if part.count == 1 else None
                        yield part if gap is None else gap
                        last, count = part.segments[-1]
                        at = last + count
                return
            except RecordTooLarge as large:
                gap = left_out.get(large.offset)
                if gap is None:
                    cause = KafkaFailure(KafkaFault.RECORD_TOO_LARGE, str(large), retriable=False)
                    raise Refused(source, large.offset, large.offset + 1, cause) from None
                yield gap
                at = large.offset + 1
            except UnreadableBatch as unreadable:
                said = f"{source.topic}-{source.partition}: {unreadable}"
                raise KafkaFailure(KafkaFault.OTHER, said, retriable=False) from None


def _single(chunk: Chunk) -> Iterator[Chunk]:
    """Each record of a chunk in one of its own."""
    halves = refused(chunk)
    if not halves:
        yield chunk
    for half in halves:
        yield from _single(half)


def as_gap(refused_: Refused, copied: Copied, now_ms: int) -> Gap:
    return Gap(
        refused_.source,
        GapKind.RECORD_REFUSED,
        copied.source_topic_id,
        refused_.first,
        refused_.end,
        now_ms,
        str(refused_.cause),
    )
