"""Finds records that another mirror has copied beside ours, so that a reader of the target reads them twice.

    source   ... a   b   c   d
    target   ... A   B   *   a'  b'  *   C   D     *: our markers; a', b': what our runs say nothing of

What stands between our runs is no copy of ours. It is another mirror's where the source has the record. Whoever comes
to it reads it twice where ours has copied it too, or where the group had read it on the source. What another mirror has
copied in a stretch that ours left out, and what others have sent, is read once.

Sans-I/O, as `bracketing`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from bridge.model.values import Side
from bridge.translation.records.copies import Copies
from bridge.translation.records.log_window import Budget, CapReached, Caps, LogBounds, LogReader, Steps
from bridge.translation.records.partition_cache import Anchor, PartitionMemory

_LOOKED_AT = 16
"""The newest records that are not ours: a mirror that copies beside ours has left most of them."""


class AnotherMirror(NamedTuple):
    """The newest copies that another mirror has made: `twice` of a record that ours has copied too, its offset on the
    target, -1 for none; `alone` of one that ours had not copied by then."""

    twice: int = -1
    alone: Anchor | None = None

    def reaches(self, offset: int, target_offset: int, is_ours: Callable[[int], bool]) -> int | None:
        """Returns up to where on the target a group, committed at `offset` and continued at `target_offset`, reads
        records twice; None for nowhere. `is_ours`: whether our mirror has copied a source offset by now."""
        place, alone = self.twice, self.alone
        if alone is not None and (alone.upstream < offset or is_ours(alone.upstream)):
            place = max(place, alone.downstream)
        return place if place >= target_offset else None

    def with_newer(self, newer: AnotherMirror) -> AnotherMirror:
        return AnotherMirror(max(self.twice, newer.twice), newer.alone or self.alone)


def find_another_mirror(
    places: Sequence[LogBounds],
    ours_before: Callable[[int], int | None],
    source: LogBounds,
    target: LogBounds,
    caps: Caps | None = None,
) -> Steps[AnotherMirror]:
    """Looks at the newest records that are not ours. `places`: where on the target our runs have no copies, the newest
    first; `ours_before`: the last source offset, at or before another, that our mirror has copied."""
    budget, memory = Budget(caps or Caps()), PartitionMemory()
    copies = Copies(
        LogReader(Side.SOURCE, source, budget, memory),
        LogReader(Side.TARGET, target, budget, memory),
        memory,
        budget,
    )
    alone: Anchor | None = None
    looked_at, limit = 0, target.end
    try:
        for place in places:
            begin, end = max(place.start, target.start), min(place.end, limit)
            while begin < end and looked_at < _LOOKED_AT:
                section = yield from copies.open_target(end - 1)
                copy = yield from section.last_before(end)
                if copy is None or copy.offset < begin:
                    break
                looked_at += 1
                original = yield from copies.original_of(copy)
                end = limit = copy.offset
                if original is None:
                    continue
                ours = ours_before(original.offset)
                if ours == original.offset:
                    return AnotherMirror(copy.offset, alone)
                alone = alone or Anchor(original.offset, copy.offset)
                if ours is None:
                    return AnotherMirror(-1, alone)
                # It copies in order: what ours has copied too stands at least as far below.
                end = limit = copy.offset - (original.offset - ours) + 1
    except CapReached:
        pass
    return AnotherMirror(-1, alone)
