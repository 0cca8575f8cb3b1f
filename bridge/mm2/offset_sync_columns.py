"""Applies many offset syncs at once: the n-th sync of every partition together, with numpy.

A start reads every sync of a topic, a million perhaps. Slot by slot this makes what `offset_sync_slots` makes of one
sync after the other, in less than half of the time (decision 0061).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np
import numpy.typing as npt

from bridge.mm2.offset_sync_store import FARTHEST, LAST, NEAREST, SLOTS, Slots
from bridge.mm2.records import SyncColumns
from bridge.model.values import TopicPartition

_PARTITIONS, _ROUNDS = 64, 8
"""With fewer partitions or fewer syncs of each it is quicker to take one after the other."""

_Numbers = npt.NDArray[np.int64]
_Flags = npt.NDArray[np.bool_]


def apply_columns(slots: dict[TopicPartition, Slots], waiting: SyncColumns, *, mended: bool) -> list[int]:
    """Applies syncs to `slots`, and returns the places of those that are left to be applied one after the other.

    Left are partitions with few syncs, or whose log was cut back on either side, and the last syncs of those that have
    more than others; all syncs where too few partitions would be together. `mended`: see `offset_sync_store`. `slots`
    is changed at the end: after an error it is as it was.
    """
    names = list(dict.fromkeys(waiting.topic_partitions))
    numbers = {name: number for number, name in enumerate(names)}
    partition = np.array([numbers[partition] for partition in waiting.topic_partitions])
    order = np.argsort(partition, kind="stable")
    ups, downs = (
        np.frombuffer(waiting.upstream, np.int64)[order],
        np.frombuffer(waiting.downstream, np.int64)[order],
    )
    partition = partition[order]
    counts = np.bincount(partition)
    starts = np.cumsum(counts) - counts
    regular = ~_cut_back([slots.get(name) for name in names], starts, partition, ups, downs, mended=mended)
    fresh = np.array([name not in slots for name in names])
    # The first sync of a new partition takes all slots.
    starts += fresh
    counts -= fresh
    # Partitions with most syncs come first.
    columns = np.argsort(np.where(regular, -counts, 0), kind="stable")
    columns = columns[: np.count_nonzero(regular & (counts >= _ROUNDS))]
    if len(columns) < _PARTITIONS:
        return list(range(len(order)))
    rounds = int(counts[columns[_PARTITIONS - 1]])
    firsts = starts[columns] - 1  # of new partitions; of others they are of no use
    pairs = zip(ups[firsts].tolist(), downs[firsts].tolist(), strict=True)
    before = [
        slots.get(names[column]) or Slots([pair], [SLOTS])
        for column, pair in zip(columns, pairs, strict=True)
    ]
    table = _Table(before, ups, downs)
    for done in range(rounds):
        wide = int(np.count_nonzero(counts[columns] > done))
        table.insert(starts[columns[:wide]] + done)
    applied = np.zeros(len(names), np.int64)
    applied[columns] = starts[columns] + np.minimum(counts[columns], rounds)
    left = np.arange(len(order)) >= applied[partition]
    slots.update(zip((names[column] for column in columns), table.slots(), strict=True))
    return sorted(order[left].tolist())


def _cut_back(
    slots: Sequence[Slots | None],
    starts: _Numbers,
    partition: _Numbers,
    ups: _Numbers,
    downs: _Numbers,
    *,
    mended: bool,
) -> _Flags:
    """Which partitions have a sync that drops earlier ones, all of them or, `mended`, those at or above it."""
    newest = [
        slot.pairs[0] if slot else (ups[start], downs[start])
        for slot, start in zip(slots, starts, strict=True)
    ]
    before_ups, before_downs = np.roll(ups, 1), np.roll(downs, 1)
    before_ups[starts], before_downs[starts] = zip(*newest, strict=True)
    drops = ups < before_ups
    if mended:
        drops |= (downs <= before_downs) & ((ups != before_ups) | (downs != before_downs))
    found = np.zeros(len(slots), np.bool_)
    found[partition[drops]] = True
    return found


class _Table:
    """Slots of many partitions: a row for each slot, a column for each partition.

    `_entries` says which sync stands in a slot, as a place in `_ups` and `_downs`; an equal sync that came again is
    another one. `_standing` has the upstream offsets of what stands there.
    """

    def __init__(self, slots: Sequence[Slots], ups: _Numbers, downs: _Numbers) -> None:
        pairs = np.array([pair for slot in slots for pair in slot.pairs], np.int64)
        ends = np.array([end for slot in slots for end in slot.ends])
        begins = np.roll(ends, 1) % SLOTS
        self._ups, self._downs = np.concatenate((ups, pairs[:, 0])), np.concatenate((downs, pairs[:, 1]))
        entries = np.repeat(np.arange(len(ups), len(self._ups)), ends - begins)
        self._entries = np.ascontiguousarray(entries.reshape(len(slots), SLOTS).T)
        self._standing = self._ups[self._entries]
        self._columns = np.arange(len(slots))

    def insert(self, new: _Numbers) -> None:
        """Makes `new` (places of syncs) the latest of the first columns: see `offset_sync_slots._insert`."""
        wide = len(new)
        standing, entries, columns = self._standing[:, :wide], self._entries[:, :wide], self._columns[:wide]
        before, entry = self._ups[new], new  # what the slot before has taken
        nearest = int((before - standing[0]).min())
        # In no column an old sync may be taken for a lower slot.
        first = (nearest - 1).bit_length() + 1 if nearest > 0 else 1
        rows: list[tuple[_Numbers, _Numbers]] = [(before, entry)] * min(first, SLOTS)
        broken = np.ones(wide, np.bool_)
        candidate = np.zeros(wide, np.int64)
        for slot in range(first, SLOTS):
            broken &= before - standing[slot] > FARTHEST[slot]
            if not broken.any():
                break
            searching = broken & (candidate < slot)
            while searching.any():
                value = standing[candidate, columns]
                distance = before - value
                fits = searching & (distance >= NEAREST[slot - 1])
                takes = fits & (distance <= FARTHEST[slot])
                if slot < LAST:
                    takes &= value - standing[slot + 1] >= NEAREST[slot]
                if takes.any():
                    before = np.where(takes, value, before)
                    entry = np.where(takes, entries[candidate, columns], entry)
                searching &= ~fits
                candidate += searching
                searching &= candidate < slot
            rows.append((np.where(broken, before, standing[slot]), np.where(broken, entry, entries[slot])))
        for slot, (row, row_entries) in enumerate(rows):
            standing[slot], entries[slot] = row, row_entries

    def slots(self) -> list[Slots]:
        """Returns the slots of each column."""
        entries = self._entries.T
        last = np.ones(entries.shape, np.bool_)
        last[:, :-1] = entries[:, 1:] != entries[:, :-1]
        ends = iter((np.nonzero(last)[1] + 1).tolist())
        kept = entries[last]
        pairs = zip(self._ups[kept].tolist(), self._downs[kept].tolist(), strict=True)
        return [Slots(list(islice(pairs, n)), list(islice(ends, n))) for n in last.sum(axis=1).tolist()]
