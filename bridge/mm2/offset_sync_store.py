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

The 64 slots of one source partition's offset syncs, and how a new sync changes them (`updateSyncArray` of Kafka
4.3.1).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from bridge.mm2.records import OffsetSync, SyncColumns
from bridge.model.values import TopicPartition

SLOTS = 64
LAST = SLOTS - 1
FARTHEST = [2**slot - 2 ** (slot - 1) if slot else 0 for slot in range(SLOTS)]
"""B between neighbours: the most by which a slot's sync may lie below that of the slot before."""
NEAREST = [2 ** max(slot - 2, 0) for slot in range(SLOTS)]
"""C: the least by which any other sync behind a slot lies below that of the slot."""
OFFSET_LIMIT = 2**63
"""What no offset reaches."""

Pair = tuple[int, int]
"""Upstream and downstream offset."""
TOGETHER = 262_144
"""Syncs that may wait to be applied together; what waits takes some 6 MB."""
MANY = 4096
"""From here on it is worth it to apply them in columns."""


class Slots(NamedTuple):
    """The 64 slots of a partition: `pairs[i]` stands in all from `ends[i - 1]` (0 for the first) to before `ends[i]`.
    An equal pair that came again is another one, as in stock."""

    pairs: list[Pair]
    ends: list[int]

    def keep_newest(self) -> None:
        """Gives all slots to the latest sync."""
        self.pairs[1:], self.ends[:] = [], [SLOTS]


def updated(slots: Slots | None, new: Pair, *, mended: bool) -> Slots:
    """Returns the slots after a sync; changes those that it is given. `mended`: see `offset_sync_store`."""
    if slots is None or new[0] < slots.pairs[0][0]:
        # The first one, or the source's log was cut back: then nothing older holds.
        return Slots([new], [SLOTS])
    if mended and new[1] <= slots.pairs[0][1] and new != slots.pairs[0]:
        _drop_from(slots, new[1])
    _insert(slots, new)
    return slots


def _drop_from(slots: Slots, downstream: int) -> None:
    """Drops every sync at or above `downstream`, all of them perhaps. Downstream offsets fall along the slots, as this
    was done before."""
    pairs, ends = slots
    dropped = sum(pair[1] >= downstream for pair in pairs)
    del pairs[:dropped], ends[:dropped]


def _insert(slots: Slots, new: Pair) -> None:
    """Makes `new` the latest sync and repairs B and C behind it, for as far as B is broken (`updateSyncArray`).

    A slot where B is broken takes the newest old sync that satisfies B and C there, else what the slot before took.
    Old syncs move to higher slots only; one that is too close to the slot before is of no further use, one that does
    not fit yet may fit later.

    A topic may have a million syncs: so this looks at few slots, and is one piece.
    """
    pairs, ends = slots
    upstream = new[0]
    gap = upstream - pairs[0][0] if pairs else OFFSET_LIMIT
    # Up to here B is broken and no old sync is recent enough to mend it: 2^(slot - 1) < gap. `new` fills these slots.
    slot = (gap - 1).bit_length() + 1 if gap > 0 else 1
    if slot >= SLOTS:
        pairs[:], ends[:] = [new], [SLOTS]
        return
    taken, until = [new], [slot]
    candidate = old = 0  # the old sync that may come next, and the one that stands in `slot`
    while ends[old] <= slot:
        old += 1
    while upstream - pairs[old][0] > FARTHEST[slot]:
        while ends[candidate] <= slot:
            value = pairs[candidate][0]
            if upstream - value >= NEAREST[slot - 1]:
                following = old if ends[old] > slot + 1 else old + 1
                if upstream - value <= FARTHEST[slot] and (
                    slot == LAST or value - pairs[following][0] >= NEAREST[slot]
                ):
                    taken.append(pairs[candidate])
                    until.append(slot)
                    upstream = value
                    candidate += 1
                break
            candidate += 1
        slot += 1
        until[-1] = slot
        if ends[old] <= slot:
            old += 1
            if slot == SLOTS:
                break
    pairs[:old], ends[:old] = taken, until


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
        self._waiting = SyncColumns.from_syncs(())
        """To be applied before the next answer; as numbers, for so many objects keep the garbage collector busy."""

    def apply(self, sync: OffsetSync) -> None:
        """Takes in the next record of the topic."""
        self.apply_all(SyncColumns.from_syncs([sync]))

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
        self._waiting = SyncColumns.from_syncs(())
