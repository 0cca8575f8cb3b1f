"""Finding the copy of a source record on the target: guess and verify, then a search by timestamp.

The copy looked for is the **lowest** one: where a mirror copied twice, a later copy may lie above records that the
group has not processed. A match is proved to be the lowest by asking where its timestamp first occurs and reading on
from there, unless both logs are plain around it (`bridge.translation.records.aligned`).
"""

from __future__ import annotations

from bridge.model.values import RecordView
from bridge.translation.records import duplicates, neighbours
from bridge.translation.records.log_window import Budget, LogReader, LogSection, Steps, same
from bridge.translation.records.partition_cache import Anchor, PartitionMemory

_SEARCHED = 4
"""Candidates that may cost a timestamp search each; older ones are looked for by guesses only."""

_TAIL = 4
"""Records at the end of the target that may show how far the mirror has come."""

_SINGLE_STEPS = 16
_TRIED = 64
"""Candidates in all; past the sixteenth the steps back double, so 64 reach any log's start."""


class Copies:
    """The look-ups of one translation that have to do with copies, and the anchors that they leave behind."""

    def __init__(self, source: LogReader, target: LogReader, memory: PartitionMemory, budget: Budget) -> None:
        self._source, self._target = source, target
        self.source, self.target = source.bounds, target.bounds
        self.memory, self.budget = memory, budget
        self._known: list[LogSection] = []
        self.unsure_first = False
        """The first records of the target may be copies of one before the offset, or of one after it."""

    def open_target(self, offset: int) -> Steps[LogSection]:
        """A stretch of the target that covers `offset`, or ends at it when that is the log's end."""
        for stretch in self._known:
            if stretch.covers(offset) or (stretch.at_end and stretch.end == offset):
                return stretch
        stretch = yield from self._target.open(max(self.target.start, offset - duplicates.BLOCK))
        while not stretch.covers(offset) and not stretch.at_end:
            yield from stretch.forward()
        self._known.append(stretch)
        return stretch

    def of_last_before(self, offset: int, near: LogSection) -> Steps[Anchor | None]:
        """The copy of the last usable record before `offset`; None when no record before it has one. `near` is the
        source around the offset."""
        floor, low = self.memory.below(offset), self.memory.low
        lowest = max(self.source.start, floor.upstream + 1 if floor else 0, low.upstream if low else 0)
        stretch, edge = near, offset
        for tried in range(_TRIED):
            candidate = yield from stretch.last_before(edge)
            # The first is tried in any case: what stood lower when the anchors were found may be gone.
            if candidate is None or (tried and candidate.offset < lowest):
                break
            found = yield from self._usable_copy(candidate, offset, near, stretch, searched=tried < _SEARCHED)
            if found is None and tried == 0:
                found = yield from self._head(offset, near)
            if found is not None:
                return found if floor is None or found.downstream > floor.downstream else floor
            # The copy is compacted away, or was never made: step back.
            edge = candidate.offset
            if tried >= _SINGLE_STEPS:
                edge = max(lowest + 1, edge - (1 << (tried - _SINGLE_STEPS)))
                if edge <= stretch.start:
                    stretch = yield from self._source.open(edge - 1)
        return floor

    def _usable_copy(
        self, record: RecordView, offset: int, near: LogSection, home: LogSection, *, searched: bool
    ) -> Steps[Anchor | None]:
        """The copy of `record`, provided its content does not recur at or after `offset` (a match could be of that
        one, and lie too high) nor stand before it (a match could be of that one, and the bound be too small)."""
        before = duplicates.Before(True, None)
        with self.budget.part():
            if (yield from duplicates.first_at_or_after(near, offset, record, self.memory)) is None:
                before = yield from duplicates.before(home, record.offset, record, self.memory)
        if before.stands:
            return None
        anchor = yield from self._copy_of(record, searched=searched)
        if anchor is None or not (yield from self._is_before(offset, anchor, record, near, home)):
            return None
        yield from self._reach(record, before, anchor.downstream, home)
        between = near.records[near.index(record.offset + 1) : near.index(offset)]
        if home is near and not any(same(each, record) for each in between):
            with self.budget.part():
                again = yield from duplicates.first_at_or_after(near, record.offset + 1, record, self.memory)
                if again is None:
                    self.memory.add(anchor)  # never recurs: good for every offset above it
        return anchor

    def _is_before(
        self, offset: int, found: Anchor, record: RecordView, near: LogSection, home: LogSection
    ) -> Steps[bool]:
        """Whether what was found is no copy of a later record alike, at or after `offset`, that was not seen, being far
        away. It is none where the target can't have lost an earlier copy; else its neighbours tell."""
        place, known = found.downstream, self.memory.at_or_above(offset)
        if known is not None and known <= place:
            return False
        here = yield from self.open_target(place)
        below = self.memory.below(record.offset + 1)
        begun = below is not None and below.downstream >= self.target.start
        began = self.target.start if begun else -1
        if (yield from duplicates.before(here, place, record, self.memory, began)).lost is None:
            return True
        sure = yield from neighbours.none_alike(offset, record, place, near, here, self.memory)
        for number in range(neighbours.COUNT):
            earlier = yield from here.last_before(place)
            if earlier is None:
                self.unsure_first |= number == 0
                break
            gone, place = here.lost(earlier.offset + 1, place), earlier.offset
            if (yield from duplicates.before(home, record.offset, earlier, self.memory)).stands:
                sure |= number == 0 and gone is None
            elif (yield from duplicates.first_at_or_after(near, offset, earlier, self.memory)) is not None:
                return False
        return sure

    def _reach(
        self, record: RecordView, before: duplicates.Before, place: int, home: LogSection
    ) -> Steps[None]:
        """The mirror has copied `record`, or one alike that is lost: that is what stands at `place`."""
        here = yield from self.open_target(place)
        if (yield from neighbours.beside(record, place, home, here)):
            self.memory.reach((record.offset if before.lost is None else before.lost) + 1)

    def _copy_of(self, record: RecordView, *, searched: bool) -> Steps[Anchor | None]:
        for delta in self.memory.deltas(record.offset):
            guess = record.offset + delta
            if not self.target.start <= guess < self.target.end:
                continue
            stretch = yield from self.open_target(guess)
            copy = stretch.at(guess)
            if copy is not None and same(copy, record):
                return (yield from self.lowest(record, guess))
        nearby = min(
            (r.offset for known in self._known for r in known.records if same(r, record)), default=None
        )
        if searched or nearby is not None:
            return (yield from self.lowest(record, nearby))
        return None

    def lowest(self, record: RecordView, known: int | None) -> Steps[Anchor | None]:
        """The lowest copy of `record`; None when there is none, or when the budget did not reach to prove it. No copy
        stands below the first place of its timestamp, nor below the lowest copy of an earlier record. `known`: the
        place of some copy."""
        start = yield from self._target.first_at_time(record.timestamp)
        if start is None:
            return None
        anchor = self.memory.below(record.offset)
        start = max(start, anchor.downstream + 1 if anchor else 0)
        if known is not None and start >= known:
            return Anchor(record.offset, known)
        if start >= self.target.end:
            return None
        place = None
        with self.budget.part():
            stretch = yield from self.open_target(start)
            if known is None:
                copy = yield from duplicates.first_at_or_after(
                    stretch, start, record, self.memory, duplicates.PATIENCE
                )
                place = copy.offset if copy else None
            else:
                place = yield from _first_until(stretch, start, known, record)
        return None if place is None else Anchor(record.offset, place)

    def _head(self, offset: int, near: LogSection) -> Steps[Anchor | None]:
        """The newest record on the target, when it is a copy of one before `offset`: the mirror has not come further
        (the group is ahead of it), so no older candidate need be tried."""
        tail = yield from self.open_target(self.target.end - 1)
        last = yield from tail.last_before(self.target.end)
        original = None if last is None else (yield from self._original_of(last))
        if last is None or original is None or original.offset >= offset:
            return None
        if (yield from duplicates.first_at_or_after(near, offset, original, self.memory)) is not None:
            return None
        anchor = yield from self.lowest(original, last.offset)
        if anchor is None or not (yield from self._is_before(offset, anchor, original, near, near)):
            return None
        return anchor

    def see_tail(self) -> Steps[None]:
        """Learns from the end of the target how far the mirror has come; once for each end of the logs."""
        ends = self.source.end, self.target.end
        if self.memory.tail_seen == ends:
            return
        self.memory.tail_seen = ends
        with self.budget.part():
            tail = yield from self.open_target(self.target.end - 1)
            place = self.target.end
            for _ in range(_TAIL):
                last = yield from tail.last_before(place)
                if last is None:
                    return
                original = yield from self._original_of(last)
                if original is not None and self.memory.reached > original.offset:
                    return
                place = last.offset

    def _original_of(self, copy: RecordView) -> Steps[RecordView | None]:
        """The first record of the source with the content of `copy`, at a guess or by time; None too where the guess
        is not the first."""
        for delta in self.memory.deltas(copy.offset) or [0]:
            guess = copy.offset - delta
            if self.source.start <= guess < self.source.end:
                stretch = yield from self._source.open(guess)
                original = stretch.at(guess)
                if original is not None and same(original, copy):
                    before = yield from duplicates.before(stretch, guess, copy, self.memory)
                    if before.stands:
                        return None
                    yield from self._reach(original, before, copy.offset, stretch)
                    return original
        first = (yield from self._source.first_at_time(copy.timestamp)) if copy.timestamp >= 0 else None
        original = None
        if first is not None:
            with self.budget.part():
                stretch = yield from self._source.open(first)
                original = yield from duplicates.first_at_or_after(stretch, first, copy, self.memory)
                if original is not None:
                    before = yield from duplicates.before(stretch, original.offset, copy, self.memory)
                    yield from self._reach(original, before, copy.offset, stretch)
        return original

    @property
    def low_gone(self) -> bool:
        """Retention has taken what was known of the start of the target, or its original."""
        low = self.memory.low
        return low is not None and (low.downstream < self.target.start or low.upstream < self.source.start)

    def seek_low(self) -> Steps[None]:
        """The first record of the target and its original: its delta is the first guess for all others, and nothing
        below it was copied. Where the source has lost that original, the first record of the source and its copy serve;
        those are looked at first when the source alone has lost what was known."""
        low = self.memory.low
        ways = [self._low_of_target, self._low_of_source]
        for way in reversed(ways) if low and low.downstream >= self.target.start else ways:
            self.memory.low = yield from way()
            if self.memory.low is not None:
                return

    def _low_of_target(self) -> Steps[Anchor | None]:
        log = yield from self.open_target(self.target.start)
        yield from log.first_from(self.target.start)
        for copy in log.records[: duplicates.BLOCK]:
            original = yield from self._original_of(copy)
            if original is None:
                continue
            self.memory.low = Anchor(original.offset, copy.offset)
            first = log.records[0]
            if copy is not first:  # it had no usable timestamp, perhaps; now there is a delta to guess by
                original = yield from self._original_of(first)
                if original is not None:
                    return Anchor(original.offset, first.offset)
            return self.memory.low
        return None

    def _low_of_source(self) -> Steps[Anchor | None]:
        log = yield from self._source.open(self.source.start)
        oldest = yield from log.first_from(self.source.start)
        return None if oldest is None else (yield from self._copy_of(oldest, searched=True))


def _first_until(stretch: LogSection, start: int, known: int, record: RecordView) -> Steps[int]:
    """The first place of `record` in [start, known]; it stands at `known`. Reads all of it: between a copy and an
    earlier one may stand anything that foreign writers have sent."""
    index = stretch.index(start)
    while True:
        while index < len(stretch.records):
            candidate = stretch.records[index]
            if candidate.offset >= known:
                return known
            if same(candidate, record):
                return candidate.offset
            index += 1
        if stretch.end > known or stretch.at_end:
            return known
        yield from stretch.forward()
