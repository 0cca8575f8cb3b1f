"""Holds what a slice has for as long as it runs: its lease, by which it copies until another layout is made, ours is
stopped, or its time is over; and what its copiers have learnt."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from bridge.errors import KafkaFailure
from bridge.kafka.consumer.topic_tail import TopicTail
from bridge.kafka.network.client import NetworkClient
from bridge.model.values import LogRecord
from bridge.pipeline.layouts.additions import Additions, additions_key, decode
from bridge.pipeline.layouts.records import LayoutRecord, layout_key
from bridge.pipeline.layouts.slots import Slice
from bridge.pipeline.slices.failed_partitions import FailedPartitions
from bridge.pipeline.slices.progress_row import Tally
from bridge.pipeline.slices.rate_limit import TokenBucket
from bridge.pipeline.slices.refusals import Refusals
from bridge.pipeline.slices.resume import Seen
from bridge.pipeline.slices.transformed import Transforms

_WAIT_MS = 1000
"""How long a broker holds a question for what is new in the layout topic; when something is, it answers at once."""
_AGAIN = 0.1
"""Seconds after a question that failed."""


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
