"""Holds what a slice has for as long as it runs: its lease, by which it copies until another layout is made, ours is
stopped, or its time is over; and what its copiers have learnt.

Keeps the partitions that a slice does not copy now, while it copies the others: since when, why, and when each is
tried again. Outlives the transactions, and by its reports the slice. Pure but for the times that it is told.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from bridge.backoff import Backoff
from bridge.errors import KafkaFailure
from bridge.kafka.consumer.topic_tail import TopicTail
from bridge.kafka.network.client import NetworkClient
from bridge.model.partition_states import PartitionState, PartitionStatus
from bridge.model.values import LogRecord, TopicPartition
from bridge.pipeline.layouts.records import Additions, LayoutRecord, additions_key, decode, layout_key
from bridge.pipeline.layouts.slots import Slice
from bridge.pipeline.slices.progress_row import Tally
from bridge.pipeline.slices.rate_limit import TokenBucket
from bridge.pipeline.slices.refusals import Refusals
from bridge.pipeline.slices.resume import Seen
from bridge.pipeline.slices.transformed import Transforms

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0
_LONGEST_TO_HEAL = 15.0
"""Seconds until something is tried again that time alone mends: a broker that is back is to be used."""
_LASTS = 3
"""Tries in a row that fail alike, until it counts as a state that lasts."""
_WAIT_MS = 1000
"""How long a broker holds a question for what is new in the layout topic; when something is, it answers at once."""
_AGAIN = 0.1
"""Seconds after a question that failed."""


@dataclass(slots=True)
class _Failed:
    status: PartitionStatus
    heals: bool
    unopened: bool = False
    """Whether it is not known where it begins."""
    tries: int = 0
    due: float = 0.0
    """When it is tried again (monotonic seconds)."""
    backoff: Backoff = field(default_factory=lambda: Backoff(_FIRST_PAUSE, _LONGEST_PAUSE))


class FailedPartitions:
    def __init__(self) -> None:
        self._failed: dict[TopicPartition, _Failed] = {}
        self._before: dict[TopicPartition, PartitionStatus] = {}
        self.changed = False
        """Whether the statuses have changed since they were last asked for."""

    def recall(self, statuses: Iterable[PartitionStatus]) -> None:
        """Takes what an earlier slice has reported: what fails in the same way again has failed since then."""
        self._before |= {status.source: status for status in statuses}

    def fail(
        self,
        tp: TopicPartition,
        why: str,
        now: float,
        now_ms: int,
        *,
        way_out: str = "",
        offsets: tuple[int, int] = (-1, -1),
        heals: bool = False,
        unopened: bool = False,
        lasts: bool = False,
    ) -> None:
        """Notes that the partition can't be copied now. `offsets`: where it stands, and where what can't be copied
        ends; -1 for not known. `heals`: time alone may mend that; `unopened`: it is not known where it begins; `lasts`:
        other tries as they are made for what is not certain would show nothing new."""
        known = self._failed.get(tp)
        if known is None or known.status.why != why:
            known = self._begin(tp, why, now_ms, known)
        pause, known.unopened = known.backoff.next(), unopened
        known.heals, known.due = heals, now + (min(pause, _LONGEST_TO_HEAL) if heals else pause)
        known.tries = _LASTS if lasts else known.tries + 1
        failed = known.tries >= _LASTS and not heals
        state = PartitionState.FAILED if failed else PartitionState.WAITING
        offset, end = offsets
        self._set(known, known.status._replace(state=state, way_out=way_out, offset=offset, end=end))

    def note(self, tp: TopicPartition, why: str, now_ms: int) -> None:
        """Notes that the partition can't be copied now, and that whoever fetches it tries again: it is never due."""
        known = self._failed.get(tp)
        if known is None or known.status.why != why:
            known = self._begin(tp, why, now_ms, known)
        known.heals, known.due = True, math.inf

    def release(self, tp: TopicPartition) -> None:
        """Has the partition tried again at once."""
        if tp in self._failed:
            self._failed[tp].due = 0.0

    def open(self, tp: TopicPartition) -> None:
        """Notes that it is known where the partition begins: all that waited for that is copied."""
        if tp in self._failed and self._failed[tp].unopened:
            self.heal(tp)

    def holds(self, tp: TopicPartition) -> bool:
        """Whether nobody fetches the partition until it is due."""
        known = self._failed.get(tp)
        return known is not None and known.tries > 0

    def _begin(self, tp: TopicPartition, why: str, now_ms: int, known: _Failed | None) -> _Failed:
        before = self._before.pop(tp, None)
        alike = before is not None and before.why == why
        since_ms = before.since_ms if before is not None and alike else now_ms
        begun = _Failed(PartitionStatus(*tp, PartitionState.WAITING, since_ms, why), heals=False)
        if before is not None and alike and before.state is PartitionState.FAILED:
            begun.tries = _LASTS
        if known is not None:
            begun.backoff = known.backoff
        self._failed[tp], self.changed = begun, True
        return begun

    def _set(self, known: _Failed, status: PartitionStatus) -> None:
        self.changed = self.changed or status != known.status
        known.status = status

    def heal(self, tp: TopicPartition) -> None:
        """Notes that the partition is copied again."""
        if self._failed.pop(tp, None) is not None:
            self.changed = True

    def lasts(self, tp: TopicPartition) -> bool:
        """Whether tries have failed alike for long enough to count as a state that lasts; nothing does that heals."""
        known = self._failed.get(tp)
        return known is not None and known.status.state is PartitionState.FAILED

    def take_due(self, now: float) -> list[TopicPartition]:
        """Returns the partitions that are to be tried again now. Each is due once, until it fails again."""
        due = [tp for tp, failed in self._failed.items() if failed.due <= now]
        for tp in due:
            self._failed[tp].due = math.inf
        return due

    def lose_tries(self, now: float) -> None:
        """Has partitions tried again, after a pause, whose last try was made by a copier that is gone: an error of
        another kind may have ended it before anything was known of them."""
        for failed in self._failed.values():
            if failed.tries and failed.due == math.inf:
                failed.due = now + failed.backoff.next()

    def __contains__(self, tp: object) -> bool:
        return tp in self._failed

    def take_statuses(self) -> list[PartitionStatus]:
        """Returns the statuses for a report."""
        self.changed = False
        return sorted(failed.status for failed in self._failed.values())


class Lease:
    """Whether the slice is still the one that copies."""

    def __init__(self, work: Slice, target: NetworkClient) -> None:
        self._work = work
        self._tail = TopicTail(target, work.spec.layout_topic, wait_ms=_WAIT_MS)
        # Counted here: the driver's clock may show another time of day.
        self._end = time.monotonic() + work.seconds
        self.ended = ""
        self.bucket = TokenBucket(work.rate, time.monotonic()) if work.rate else None
        """Limits what is copied; its rate is the newest that the layout gives the slot."""
        self._additions_key = additions_key(work.spec, work.slot)
        self.added = Additions()
        """What the slice copies beside the partitions that the layout was made with, and what it leaves out."""
        self.gone = asyncio.Event()
        """Set when a newer layout was made, or ours was stopped."""

    def over(self) -> bool:
        if not self.ended and time.monotonic() >= self._end:
            self.ended = "deadline"
        return bool(self.ended)

    async def watch(self) -> None:
        """Follows the layout topic until a newer layout is made, or ours is stopped. While the target is away nothing
        is seen, and nothing can be written either."""
        key = layout_key(self._work.spec)
        while not self.ended:
            try:
                for record in (await self._tail.read()).records:
                    self.note(record)
                    newest = LayoutRecord.decode(record.value) if record.key == key else None
                    if newest is not None and newest.layout > self._work.layout:
                        self.ended = "newer layout"
                    elif newest is not None and newest.layout == self._work.layout:
                        self._follow(newest)
            except KafkaFailure:
                await asyncio.sleep(_AGAIN)
        self.gone.set()

    def note(self, record: LogRecord) -> None:
        """Notes what a record of the layout topic adds to the slice. It counts from there on whether it is committed
        or not: whatever the slice copies, the next layout fences."""
        if record.key != self._additions_key:
            return
        added = decode(record.value, self._work)
        # All that was added is in each record: a committed read may bring one that is older than what was followed.
        if added is not None and sum(map(len, added)) > sum(map(len, self.added)):
            self.added = added

    def _follow(self, record: LayoutRecord) -> None:
        """Follows what has changed within our layout."""
        if record.stop:
            self.ended = "stopped"
        elif self.bucket is not None and self._work.slot < len(record.rates):
            self.bucket.set_rate(record.rates[self._work.slot], time.monotonic())


@dataclass(frozen=True, slots=True)
class SliceMemory:
    """What outlives a copier: the next one of the slice goes on with it. `tally` counts what is committed; `seen` is
    cleared once it is committed; `failed`: the partitions that are not copied now."""

    transforms: Transforms | None
    refusals: Refusals
    tally: Tally
    seen: Seen = field(default_factory=Seen)
    failed: FailedPartitions = field(default_factory=FailedPartitions)
