"""Collects what one transaction of a slice copies, and what it writes about it: runs, ledger entries, offset syncs.

Collects how long the records of one copy took until a transaction commits them.

Only headers of batches are read, as for copying: of a batch that is sent as it is nothing else is decoded. Its records
count as spread evenly between its first and its greatest timestamp.

Decides when the open transaction of a slice is committed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.record.batch import Chunk
from bridge.mm2.offset_sync_writer import OffsetSyncWriter
from bridge.mm2.records import OffsetSync
from bridge.model.copying import Copied, Gap, GapKind, Latencies
from bridge.model.values import TopicPartition
from bridge.pipeline.slices.refusals import REFUSALS, Refused
from bridge.pipeline.slices.throttle import backlog_seconds, longest_transaction
from bridge.translation.runs.runs import OffsetRun, Segment, encode_times

_OF_RECORDS = (GapKind.TRANSFORM_FAILED, GapKind.RECORD_REFUSED)
_IDLE = 0.25
"""Seconds that a slice without an open transaction waits for records before it looks around."""
_SHORTEST = 0.005
"""Seconds from a transaction's first batch to its commit at least."""
_COMMITS = 2
"""Times as long as the quicker of the last two commits took a transaction lasts at least, where
`transaction.interval.ms` allows it: a commit costs round trips, markers and runs, and nothing is sent meanwhile. One
commit that a busy broker delays makes no long transaction after it."""
_POSITIONS_AFTER = 10.0
"""Seconds after which positions are committed that moved over nothing but control records and aborted ones."""


@dataclass(slots=True)
class RecordTimes:
    """The timestamps of the records that were added: their sum, the oldest, the newest; and their ages."""

    count: int = 0
    sum: int = 0
    oldest: int = 0
    newest: int = 0
    age: int = 0
    least_age: int = 0
    greatest_age: int = 0

    def add(self, chunk: Chunk, fetched_ms: int) -> None:
        first, newest = chunk.timestamps
        if newest < 0:
            return
        oldest = first if 0 <= first <= newest else newest
        mean = (oldest + newest) // 2
        least, greatest = max(0, fetched_ms - newest), max(0, fetched_ms - oldest)
        if self.count:
            self.oldest, self.newest = min(self.oldest, oldest), max(self.newest, newest)
            least, greatest = min(self.least_age, least), max(self.greatest_age, greatest)
        else:
            self.oldest, self.newest = oldest, newest
        self.least_age, self.greatest_age = least, greatest
        self.count += chunk.count
        self.sum += chunk.count * mean
        self.age += chunk.count * max(0, fetched_ms - mean)

    def encoded(self, now_ms: int) -> bytes:
        """The times of a commit at `now_ms`."""
        if not self.count:
            return b""
        least, greatest = max(0, now_ms - self.newest), max(0, now_ms - self.oldest)
        # A clock that is behind those of producers makes latencies of 0, as stock shows negative ones.
        total = min(max(self.count * now_ms - self.sum, self.count * least), self.count * greatest)
        age = min(max(self.age, self.count * self.least_age), self.count * self.greatest_age)
        return encode_times(
            Latencies(self.count, age, self.least_age, self.greatest_age),
            Latencies(self.count, total, least, greatest),
        )


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
    for exception in await asyncio.gather(*map(_written_part, parts), return_exceptions=True):
        if isinstance(exception, BaseException):
            failed.append(exception)
        else:
            done.append(exception)
    if refused := [
        one
        for exception in failed
        if isinstance(exception, Refused)
        for one in (exception, *exception.others)
    ]:
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


class Target(Protocol):
    """The target as the producer knows it; in seconds."""

    @property
    def round_trip(self) -> float: ...

    @property
    def timeout(self) -> float:
        """After which the broker aborts a transaction."""


class TransactionClock:
    def __init__(self, interval: float, target: Target) -> None:
        """`interval`: transaction.interval.ms, in seconds."""
        self._interval, self._target = interval, target
        self._began: float | None = None
        self._moved: float | None = None
        self._took = (0.0, 0.0)
        """Seconds of the last commit, and of the one before."""
        self.backlog = False
        """Whether there is more than the open transaction holds."""

    @property
    def began(self) -> bool:
        """Whether the transaction holds a batch."""
        return self._began is not None

    def begin(self) -> None:
        """Starts the transaction's time, with its first batch."""
        self._began = time.monotonic()

    def move(self) -> None:
        """Notes that a position has moved."""
        self._moved = self._moved or time.monotonic()

    def end(self, took: float) -> None:
        """Notes that all is committed; `took`: seconds of the commit."""
        self._took = (took, self._took[0])
        self._began, self._moved, self.backlog = None, None, False

    def patience(self) -> float:
        """Seconds to wait for records."""
        if self._began is None:
            return _IDLE
        return max(0.0, self._began + self._length() - time.monotonic())

    def due(self) -> bool:
        """Whether to commit before more records are waited for."""
        if self._began is not None:
            return time.monotonic() >= self._began + self._length()
        return self._positions_due()

    def overdue(self) -> bool:
        """Whether to commit although there is more that belongs into the transaction."""
        if self._began is not None:
            return time.monotonic() >= self._began + longest_transaction(self._target.timeout)
        return self._positions_due()

    def _positions_due(self) -> bool:
        return self._moved is not None and time.monotonic() >= self._moved + _POSITIONS_AFTER

    def _length(self) -> float:
        target = self._target
        if not self.backlog:
            least = max(_SHORTEST, _COMMITS * min(self._took))
            return min(self._interval, least, longest_transaction(target.timeout))
        return backlog_seconds(self._interval, target.round_trip, target.timeout)
