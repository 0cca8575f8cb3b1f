"""Finds records that another mirror has copied beside ours, so that a reader of the target reads them twice.

    source   ... a   b   c   d
    target   ... A   B   *   a'  b'  *   C   D     *: our markers; a', b': what our runs say nothing of

What stands between our runs is no copy of ours. It is another mirror's where the source has the record. Whoever comes
to it reads it twice where ours has copied it too, or where the group had read it on the source. What another mirror has
copied in a stretch that ours left out, and what others have sent, is read once. Where the source has deleted the
original, or the target overwrites timestamps, nobody can tell the one from the other.

Sans-I/O, as `bracketing`.

Finds how far the copies of another mirror reach, by the first and the last of them.

    source   ... [p  a . . . . . . b   T) ...     what no run of ours covers: another mirror may have copied it
    target   ... [   A . . x . . . B    ) ...     where its copies can stand; x: what others have sent

Such a mirror copies in order and leaves no ledger: what lies between its first and its last copy counts as copied.
Compaction takes records from either end, so there a difference says nothing.

Sans-I/O, as `bracketing`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from bridge.model.values import RecordView, Side
from bridge.translation.records.copies import BLOCK, Copies
from bridge.translation.records.log_window import Budget, CapReached, Caps, LogBounds, LogReader, Steps
from bridge.translation.records.partition_cache import Anchor, PartitionMemory

_LOOKED_AT = 16
"""Records that are looked at in one turn."""
_NEWEST = 4
"""As many of them are the newest ones, after the first turn; the others stand anywhere, in each turn elsewhere, so that
what an application writes into a copy hides no mirror."""
_TURNS = 16
_NEVER = (1 << 63) - 1
_GOLDEN = 0.6180339887498949
"""Multiples of it, without their whole part, are spread evenly however many there are."""


class Extent(NamedTuple):
    """Source offsets [begin, end) of which the target holds the copies; both are the end of what was looked at where it
    holds none."""

    begin: int
    end: int


def reach_of_target(
    source: LogBounds, target: LogBounds, memory: PartitionMemory, caps: Caps | None = None
) -> Steps[None]:
    """Has `memory` learn from the last records of the target how far the mirror has come."""
    budget = Budget(caps or Caps())
    origin, goal = (LogReader(side, bounds, budget, memory) for side, bounds in _sides(source, target))
    try:
        yield from Copies(origin, goal, memory, budget).see_tail()
    except CapReached:
        return


def extent_of(
    source: LogBounds,
    target: LogBounds,
    *,
    compacted: bool | None = False,
    recognisable: bool = True,
    caps: Caps | None = None,
) -> Steps[Extent | None]:
    """Finds which source offsets of `source` the target holds in `target`; None where that is not known. Offsets
    without a record at either end count as held. `recognisable`: copies equal their records."""
    whole, nothing = Extent(source.start, source.end), Extent(source.end, source.end)
    memory, budget = PartitionMemory(), Budget(caps or Caps())
    origin, goal = (LogReader(side, bounds, budget, memory) for side, bounds in _sides(source, target))
    try:
        if source.start >= source.end:
            return whole
        log = yield from origin.open(source.start)
        first = yield from log.first_from(source.start)
        if first is None:
            return whole
        if target.start >= target.end:
            return nothing
        log = yield from origin.open(source.end - 1)
        last = yield from log.last_before(source.end)
        copies = Copies(origin, goal, memory, budget)
        if not recognisable:
            log = yield from copies.open_target(target.start)
            return nothing if (yield from log.first_from(target.start)) is None else None
        low = yield from _first_original(copies, goal, first)
        high = None if low is None else (yield from _original(copies, target.end, forward=False))
    except (CapReached, _OnlyOthers):
        return None
    if low is None or high is None or last is None:
        return nothing if compacted is False else None
    held = Extent(
        source.start if low.offset <= first.offset else low.offset,
        source.end if high.offset >= last.offset else high.offset + 1,
    )
    return held if compacted is False or held == whole else None


class _OnlyOthers(Exception):
    """Raised where a BLOCK of records has no original: others have sent them, and what lies beyond is not known."""


def _sides(source: LogBounds, target: LogBounds) -> tuple[tuple[Side, LogBounds], tuple[Side, LogBounds]]:
    return (Side.SOURCE, source), (Side.TARGET, target)


def _first_original(copies: Copies, target: LogReader, first: RecordView) -> Steps[RecordView | None]:
    """Finds the original of the first copy. Where the source's retention has taken the originals of many, one is looked
    for from the time of the first record that is left: what stands before it then counts as no copy."""
    try:
        return (yield from _original(copies, copies.target.start, forward=True))
    except _OnlyOthers:
        begin = yield from target.first_at_time(first.timestamp)
        if begin is None:
            return None
        return (yield from _original(copies, begin, forward=True))


def _original(copies: Copies, begin: int, *, forward: bool) -> Steps[RecordView | None]:
    """Finds the original of the next copy from an offset on, or before it; what others have sent is passed over."""
    section = yield from copies.open_target(begin if forward else begin - 1)
    for _ in range(BLOCK):
        copy = yield from (section.first_from(begin) if forward else section.last_before(begin))
        if copy is None:
            return None
        original = yield from copies.original_of(copy)
        if original is not None:
            return original
        begin = copy.offset + forward
    raise _OnlyOthers


class AnotherMirror(NamedTuple):
    """The newest copies that another mirror has made: `twice` of a record that ours has copied too, `alone` of one that
    ours had not copied by then. `unknown`: the offset on the target of the newest record of which nobody can tell
    whether it is such a copy, -1 for none."""

    twice: Anchor | None = None
    alone: Anchor | None = None
    unknown: int = -1

    @property
    def newest(self) -> int:
        """The offset on the target of the newest of them; -1 where there is none."""
        return max(_downstream(self.twice), _downstream(self.alone), self.unknown)

    def reaches(self, offset: int, target_offset: int, is_ours: Callable[[int], bool]) -> int | None:
        """Returns up to where on the target a group, committed at `offset` and continued at `target_offset`, reads
        records twice; None for nowhere. `is_ours`: whether our mirror has copied a source offset by now."""
        place, alone = _downstream(self.twice), self.alone
        if alone is not None and (alone.upstream < offset or is_ours(alone.upstream)):
            place = max(place, alone.downstream)
        return place if place >= target_offset else None

    def with_newer(self, newer: AnotherMirror) -> AnotherMirror:
        return AnotherMirror(
            max(self.twice, newer.twice, key=_downstream),
            max(self.alone, newer.alone, key=_downstream),
            max(self.unknown, newer.unknown),
        )


def _downstream(copy: Anchor | None) -> int:
    return -1 if copy is None else copy.downstream


def turns_of(places: Sequence[LogBounds]) -> int:
    """Returns how many turns are worth while for these places: each of few records is looked at, and some of many."""
    return min(_TURNS, -(-sum(place.end - place.start for place in places) // _LOOKED_AT))


def find_another_mirror(
    places: Sequence[LogBounds],
    ours_before: Callable[[int], int | None],
    source: LogBounds,
    target: LogBounds,
    turn: int = 0,
    *,
    recognisable: bool = True,
    settled: int | None = None,
    caps: Caps | None = None,
) -> Steps[AnotherMirror]:
    """Looks at some records that are not ours. `places`: where on the target our runs have no copies, the newest first;
    `ours_before`: the last source offset, at or before another, that our mirror has copied; `turn`: how often that was
    done before; `recognisable`: copies have the timestamps of their records; `settled`: from there on may be
    copies of ours that no run tells of yet."""
    budget, memory = Budget(caps or Caps()), PartitionMemory()
    origin = LogReader(Side.SOURCE, source, budget, memory)
    copies = Copies(origin, LogReader(Side.TARGET, target, budget, memory), memory, budget)
    settled = target.end if settled is None else settled
    search = _Search(copies, origin, ours_before, settled, recognisable=recognisable)
    cut = [LogBounds(max(place.start, target.start), min(place.end, target.end)) for place in places]
    cuts_left = [place for place in cut if place.start < place.end]
    try:
        yield from search.newest(cuts_left, _NEWEST if turn else _LOOKED_AT)
        if turn and recognisable:
            yield from search.anywhere(cuts_left, turn)
    except CapReached:
        pass
    return search.found


class _Search:
    def __init__(
        self,
        copies: Copies,
        source: LogReader,
        ours_before: Callable[[int], int | None],
        settled: int,
        *,
        recognisable: bool,
    ) -> None:
        self._copies, self._source, self._ours_before, self._settled = copies, source, ours_before, settled
        self._recognisable = recognisable
        self._oldest: int | None = None
        """The timestamp of the first record that the source still has."""
        self.found = AnotherMirror()

    def newest(self, places: Sequence[LogBounds], count: int) -> Steps[None]:
        """Looks at so many of the newest records, until one is a copy of what ours has copied too."""
        limit = self._copies.target.end
        for place in places:
            end = min(place.end, limit)
            while place.start < end and count:
                copy = yield from self._last_before(end, place)
                if copy is None:
                    break
                count -= 1
                original = yield from self._look(copy)
                end = limit = copy.offset
                if self.found.twice is not None or not self._recognisable:
                    return
                if original is not None and (ours := self._ours_before(original)) is not None:
                    # It copies in order: what ours has copied too stands at least as far below.
                    end = limit = copy.offset - (original - ours) + 1
                elif original is not None:
                    return

    def anywhere(self, places: Sequence[LogBounds], turn: int) -> Steps[None]:
        """Looks at records that are spread over all places, in each turn at others."""
        count = sum(place.end - place.start for place in places)
        for number in range(_LOOKED_AT - _NEWEST):
            position = int((turn * _LOOKED_AT + number) * _GOLDEN % 1 * count)
            for place in places:
                if position < place.end - place.start:
                    copy = yield from self._last_before(place.start + position + 1, place)
                    if copy is not None:
                        yield from self._look(copy)
                    break
                position -= place.end - place.start

    def _last_before(self, end: int, place: LogBounds) -> Steps[RecordView | None]:
        section = yield from self._copies.open_target(end - 1)
        copy = yield from section.last_before(end)
        return None if copy is None or copy.offset < place.start else copy

    def _look(self, copy: RecordView) -> Steps[int | None]:
        """Learns from a record that is not ours; returns the offset of its original, None where the source has none."""
        if not self._recognisable:
            self.found = self.found.with_newer(AnotherMirror(unknown=copy.offset))
            return None
        original = yield from self._copies.original_of(copy)
        if original is None:
            if (yield from self._is_older_than_source(copy)):
                self.found = self.found.with_newer(AnotherMirror(unknown=copy.offset))
            return None
        anchor = Anchor(original.offset, copy.offset)
        if self._ours_before(original.offset) == original.offset:
            self.found = self.found.with_newer(AnotherMirror(twice=anchor))
        elif copy.offset < self._settled:
            self.found = self.found.with_newer(AnotherMirror(alone=anchor))
        return original.offset

    def _is_older_than_source(self, copy: RecordView) -> Steps[bool]:
        """Whether the source may have deleted its original."""
        if self._oldest is None:
            section = yield from self._source.open(self._source.bounds.start)
            first = yield from section.first_from(self._source.bounds.start)
            self._oldest = _NEVER if first is None else first.timestamp
        return copy.timestamp < self._oldest
