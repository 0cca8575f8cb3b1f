"""Keeps offset syncs as stock MirrorMaker does, to the slot (`OffsetSyncStore` of Kafka 4.3.1), and translates by them.

64 slots for each source partition, newest sync first; a sync stands in a row of slots, and is held once, with the slot
before which it ends. For slots i < j that hold different upstream offsets:

- **A**: slot 0 holds the latest sync received.
- **B**: `up(i) <= up(j) + 2^j - 2^i`: not too far apart.
- **C**: `up(i) >= up(j) + 2^max(i - 2, 0)`: not too close.
- **D**: slot 63 holds the earliest sync that may be used.

So the distance between kept syncs grows exponentially with their age, and the answer for an offset that lies `x` below
the newest sync is low by about `x` at worst. Between two syncs the answer is the older one's downstream offset plus
one: what lies between may have been copied or not, with or without markers in between, so any other step could skip a
record. For one state answers rise with the offset; for one offset they may fall as syncs come.

The sync after an offset is an upper bound of its downstream offset, as long as nothing was copied twice and the
target's log was not cut back; `bounds` gives both. To interpolate between them would skip by every marker and duplicate
(stock §5.4).

`mended` corrects what stock does when the target's log was truncated or created again: a sync whose downstream offset
is not above the latest one's tells so, and every kept sync at or above it points into what is gone. Those are dropped
first: the newest sync left takes over their slots, which are lower than its own, and B and C ask less of it in a lower
slot. With none left the new sync takes all 64. An answer is then never past the latest sync's downstream offset plus
one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from bridge.mm2.offset_sync_slots import OFFSET_LIMIT, Slots, updated
from bridge.mm2.records import OffsetSync, SyncColumns
from bridge.model.values import TopicPartition

TOGETHER = 262_144
"""Syncs that may wait to be applied together; what waits takes some 6 MB."""
MANY = 4096
"""From here on it is worth it to apply them in columns."""


class SyncBounds(NamedTuple):
    """The kept syncs on both sides of an offset: `lower.upstream_offset <= offset < upper.upstream_offset`; a sync of
    that very offset is both. None where there is none on that side."""

    lower: OffsetSync | None
    upper: OffsetSync | None


class OffsetSyncStore:
    """The syncs of one offset-syncs topic. Offsets are 0 to 2^63 - 1. One thread at a time, also for questions: they
    apply what waits.

    `must_read_to_end`: of what is read before `finish_start` only the last sync of each partition counts. Stock asks
    for it where it could not read its checkpoints: an older sync may have been used for higher answers before.
    """

    def __init__(self, must_read_to_end: bool, mended: bool = False) -> None:
        self._only_last = must_read_to_end
        self._mended = mended
        self._started = False
        self._slots: dict[TopicPartition, Slots] = {}
        self._waiting = SyncColumns.of(())
        """To be applied before the next answer; as numbers, for so many objects keep the garbage collector busy."""

    def apply(self, sync: OffsetSync) -> None:
        """Takes in the next record of the topic."""
        self.apply_all(SyncColumns.of([sync]))

    def apply_all(self, syncs: SyncColumns) -> None:
        """Takes in the next records of the topic."""
        waiting = self._waiting
        waiting.topic_partitions.extend(syncs.topic_partitions)
        waiting.upstream.extend(syncs.upstream)
        waiting.downstream.extend(syncs.downstream)
        if len(waiting.topic_partitions) >= TOGETHER:
            self._apply_waiting()

    def begin(self, *, must_read_to_end: bool) -> None:
        """Begins the start, or begins it again after a failure: syncs that were applied before stay. One attempt that
        asks for only the last ones is enough to lose the others."""
        self._apply_waiting()
        if must_read_to_end:
            for slots in self._slots.values():
                slots.keep_newest()
        self._only_last = must_read_to_end

    def finish_start(self) -> None:
        """Begins translation: the topic was read to the end that it had at the start."""
        self._apply_waiting()
        self._started = True
        self._only_last = False

    def translate(self, topic_partition: TopicPartition, offset: int) -> int | None:
        """Returns the downstream offset for a group that committed `offset`.

        None before `finish_start` and for a partition without syncs; -1 where the oldest usable sync is past the
        offset. At the end of what a long can hold the step wraps around, as in stock.
        """
        slots = self._slots_of(topic_partition) if self._started else None
        if slots is None:
            return None
        for upstream, downstream in slots.pairs:
            if upstream <= offset:
                if upstream == offset:
                    return downstream
                return downstream + 1 if downstream + 1 < OFFSET_LIMIT else -OFFSET_LIMIT
        return -1

    def bounds(self, topic_partition: TopicPartition, offset: int) -> SyncBounds | None:
        """Returns the syncs around an offset; None where `translate` answers None. `lower` is the one that it uses."""
        slots = self._slots_of(topic_partition) if self._started else None
        if slots is None:
            return None
        upper = None
        for pair in slots.pairs:
            if pair[0] <= offset:
                lower = OffsetSync(topic_partition, *pair)
                if pair[0] == offset:
                    return SyncBounds(lower, lower)
                return SyncBounds(lower, upper and OffsetSync(topic_partition, *upper))
            upper = pair
        return SyncBounds(None, upper and OffsetSync(topic_partition, *upper))

    def sync_for(self, topic_partition: TopicPartition, slot: int) -> OffsetSync | None:
        """Returns the sync in a slot (0 to 63); None for a partition without syncs."""
        slots = self._slots_of(topic_partition)
        return (
            OffsetSync(topic_partition, *slots.pairs[bisect_right(slots.ends, slot)])
            if slots is not None
            else None
        )

    def kept(self, topic_partition: TopicPartition) -> list[tuple[int, OffsetSync]]:
        """Returns the distinct syncs, newest first, each with the first slot that holds it."""
        slots = self._slots_of(topic_partition)
        if slots is None:
            return []
        begins = [0, *slots.ends[:-1]]
        return [
            (slot, OffsetSync(topic_partition, *pair)) for slot, pair in zip(begins, slots.pairs, strict=True)
        ]

    def _slots_of(self, topic_partition: TopicPartition) -> Slots | None:
        if self._waiting.topic_partitions:
            self._apply_waiting()
        return self._slots.get(topic_partition)

    def _apply_waiting(self) -> None:
        waiting = self._waiting
        places: Iterable[int] = range(len(waiting.topic_partitions))
        if len(waiting.topic_partitions) >= MANY and not self._only_last:
            from bridge.mm2.offset_sync_columns import apply_columns

            places = apply_columns(self._slots, waiting, mended=self._mended)
        for place in places:
            topic_partition = waiting.topic_partitions[place]
            slots = None if self._only_last else self._slots.get(topic_partition)
            pair = waiting.upstream[place], waiting.downstream[place]
            self._slots[topic_partition] = updated(slots, pair, mended=self._mended)
        # Only now: what an error has left half applied is applied again, as by a log that was cut back. Lost it would
        # leave answers that are too high.
        self._waiting = SyncColumns.of(())
