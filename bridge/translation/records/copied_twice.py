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
    target, -1 for none; `alone` of one that ours has not copied."""

    twice: int = -1
    alone: Anchor | None = None

    def reaches(self, offset: int, target_offset: int) -> int | None:
        """Returns up to where on the target a group, committed at `offset` and continued at `target_offset`, reads
        records twice; None for nowhere."""
        again = self.alone is not None and self.alone.upstream < offset
        place = max(self.twice, self.alone.downstream if again and self.alone is not None else -1)
        return place if place >= target_offset else None

    def with_newer(self, newer: AnotherMirror) -> AnotherMirror:
        return AnotherMirror(max(self.twice, newer.twice), newer.alone or self.alone)


def find_another_mirror(
    places: Sequence[LogBounds],
    is_ours: Callable[[int], bool],
    position: int,
    source: LogBounds,
    target: LogBounds,
    caps: Caps | None = None,
) -> Steps[AnotherMirror]:
    """Looks at the newest records that are not ours. `places`: where on the target our runs have no copies, the newest
    first; `is_ours`: whether our mirror has copied a source offset; `position`: up to where it has come."""
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
                if original is not None and is_ours(original.offset):
                    return AnotherMirror(copy.offset, alone)
                if original is not None and alone is None:
                    alone = Anchor(original.offset, copy.offset)
                # Another mirror that is ahead of ours copies in order: what ours has copied too stands as far below.
                ahead = 0 if original is None else max(0, original.offset - position)
                end = limit = copy.offset - ahead
    except CapReached:
        pass
    return AnotherMirror(-1, alone)
