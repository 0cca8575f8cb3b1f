"""The 64 slots of one source partition's offset syncs, and how a new sync changes them (`updateSyncArray` of Kafka
4.3.1). What the slots are for: see `offset_sync_store`."""

from __future__ import annotations

from typing import NamedTuple

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
