"""Collects what one transaction of a slice copies, and what it writes about it: runs, ledger entries, offset syncs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.record.batch import Chunk
from bridge.mm2.offset_sync_writer import OffsetSyncWriter
from bridge.mm2.records import OffsetSync
from bridge.model.copying import Copied, Gap, GapKind
from bridge.model.values import TopicPartition
from bridge.pipeline.slices.record_times import RecordTimes
from bridge.pipeline.slices.refusals import REFUSALS, Refused
from bridge.translation.runs.runs import OffsetRun, Segment

_OF_RECORDS = (GapKind.TRANSFORM_FAILED, GapKind.RECORD_REFUSED)


class Sent(NamedTuple):
    """A batch on its way, as a Chunk has it, but without its bytes: these are let go when it is answered, not when the
    transaction ends. `covered_from`: what lies between it and the batch's first record was seen, and had nothing to
    copy. `base`: the offset that the target gave its first record."""

    segments: tuple[tuple[int, int], ...]
    last_timestamp: int
    leader_epoch: int
    size: int
    covered_from: int
    base: Awaitable[int]


@dataclass(slots=True)
class Part:
    """One copy of a partition in the transaction. `covered`: what lies between it and the next record that is sent was
    seen, and had nothing to copy."""

    copied: Copied
    covered: int
    sent: list[Sent] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    times: RecordTimes = field(default_factory=RecordTimes)
    lost_from: int | None = None
    """Where the target's log had ended, if copies that stood behind that are lost."""
    skipped: tuple[int, int] | None = None
    """Up to where an operator has it leave records out, and where the target's log ends: no run may cover these."""

    def add(self, chunk: Chunk, base: Awaitable[int]) -> None:
        """Adds a batch that was sent; `base` as in Sent."""
        kept = chunk.segments, chunk.last_timestamp, chunk.leader_epoch, chunk.size
        self.sent.append(Sent(*kept, self.covered, base))
        last, count = chunk.segments[-1]
        self.covered = last + count

    def leave_out(self, gap: Gap) -> None:
        """Neighbours that fail in the same way, perhaps all, are one entry of the ledger."""
        last = self.gaps[-1] if self.gaps and gap.kind in _OF_RECORDS else None
        if last is not None and last == replace(
            gap, upstream_from=last.upstream_from, upstream_to=gap.upstream_from, seen_at_ms=last.seen_at_ms
        ):
            gap = replace(self.gaps.pop(), upstream_to=gap.upstream_to)
        self.gaps.append(gap)


class WrittenPart(NamedTuple):
    """A partition's batches as they were written on the target, in the source's order."""

    part: Part
    segments: Sequence[Segment]


async def written_parts(parts: Iterable[Part]) -> list[WrittenPart]:
    """Waits for the target's offsets. Raises Refused when the target rejects batches, of whatever partitions, because
    the other batches of the transaction then fail too; else KafkaFailure, and the cause rather than what it brought."""
    done: list[WrittenPart] = []
    failed: list[BaseException] = []
    for each in await asyncio.gather(*map(_written_part, parts), return_exceptions=True):
        if isinstance(each, BaseException):
            failed.append(each)
        else:
            done.append(each)
    if refused := [one for each in failed if isinstance(each, Refused) for one in (each, *each.others)]:
        first, *first.others = refused
        raise first
    if failed:
        raise _cause(failed[0])
    return done


def _cause(failed: BaseException) -> BaseException:
    """The cause of a failure: what was not written only because something else failed has that as its cause."""
    aborted = isinstance(failed, KafkaFailure) and failed.fault is KafkaFault.ABORTED
    return (failed.__cause__ or failed) if aborted else failed


async def _written_part(part: Part) -> WrittenPart:
    segments: list[Segment] = []
    refused: list[Refused] = []
    for sent in part.sent:
        try:
            downstream, covered = await sent.base, sent.covered_from
        except KafkaFailure as failure:
            if failure.fault in REFUSALS:
                refused.append(_refused(part.copied, sent, failure))
            elif not refused:
                raise
            continue
        epoch, timestamp, size = sent.leader_epoch, sent.last_timestamp, sent.size
        for upstream, count in sent.segments:
            _add(segments, Segment(covered, upstream, downstream, count, epoch, timestamp, size))
            covered, downstream, size = upstream + count, downstream + count, 0
    if refused:
        first, *first.others = refused
        raise first
    return WrittenPart(part, segments)


def _refused(copied: Copied, sent: Sent, failure: KafkaFailure) -> Refused:
    offsets = [offset for first, count in sent.segments for offset in range(first, first + count)]
    named = {offsets[index]: why for index, why in failure.records.items() if 0 <= index < len(offsets)}
    first, end = offsets[0], offsets[-1] + 1
    return Refused(copied.source, first, end, failure, target=copied.target_topic, named=named)


def _add(segments: list[Segment], new: Segment) -> None:
    """Joins what goes on where the last one ends, on both sides."""
    if segments:
        last = segments[-1]
        if last.upstream_end == new.upstream_start and last.downstream_end == new.downstream_start:
            segments[-1] = last.joined(new)
            return
    segments.append(new)


def overwritten(done: WrittenPart, last: OffsetRun | None) -> int | None:
    """The offset at which the target has put copies although older ones stood there, None for none: they stand one
    behind the other. Batches are produced by topic name: nothing else would tell, before it is committed, that the
    remote topic is another one now."""
    if not done.segments or last is None or last.target_topic_id != done.part.copied.target_topic_id:
        return None
    base = done.segments[0].downstream_start
    return base if base < last.downstream_end else None


def queue_syncs(done: WrittenPart, writer: OffsetSyncWriter) -> list[OffsetSync]:
    """Queues the offset syncs that are due by stock's rule for these records (stock §3.4), and returns them; those that
    wait for the commit stay with the writer."""
    tp: TopicPartition = done.part.copied.source
    syncs: list[OffsetSync] = []
    for segment in done.segments:
        syncs += writer.queue_range(tp, segment.upstream_start, segment.downstream_start, segment.count)
    return syncs
