"""Finding the copy of a source record on the target: guess and verify, then a search by timestamp.

The copy looked for is the **lowest** one: where a mirror copied twice, a later copy may lie above records that the
group has not processed. A guess that fits with the delta of the log's start is taken for the lowest (in a plain log
nothing was copied twice); any other is confirmed by asking where its timestamp first occurs.
"""

from __future__ import annotations

from collections.abc import Generator

from bridge.translation import twins
from bridge.translation.lookups import Need, Window
from bridge.translation.memory import BLOCK, Anchor, PartitionMemory
from bridge.translation.model import RecordView, Side
from bridge.translation.stretch import Budget, LogBounds, Stretch, find_time, open_at, same

Steps = Generator[Need, "Window | int | None", "Anchor | None"]

_SEARCHED = 4
"""Candidates that may cost a timestamp search each; older ones are looked for by guesses only."""

_SINGLE_STEPS = 16
_TRIED = 64
"""Candidates in all; past the sixteenth the steps back double, so 64 reach any log's start."""


class Copies:
    """The look-ups of one translation that have to do with copies, and the anchors that they leave behind."""

    def __init__(self, source: LogBounds, target: LogBounds, memory: PartitionMemory, budget: Budget) -> None:
        self.source, self.target, self.memory, self.budget = source, target, memory, budget
        self._known: list[Stretch] = []

    def open_target(self, offset: int) -> Generator[Need, Window | int | None, Stretch]:
        """A stretch of the target that covers `offset`, or ends at it when that is the log's end."""
        for stretch in self._known:
            if stretch.covers(offset) or (stretch.at_end and stretch.end == offset):
                return stretch
        stretch = yield from open_at(Side.TARGET, min(offset, self.target.end - 1), self.target, self.budget)
        self._known.append(stretch)
        return stretch

    def of_last_before(self, offset: int, near: Stretch) -> Steps:
        """The copy of the last usable record before `offset`; None when no record before it has one. `near` is the
        source around the offset."""
        if not self.memory.low_sought:
            with self.budget.part():
                yield from self._seek_low()
            self.memory.low_sought = True
        floor = self.memory.below(offset)
        low = self.memory.low
        lowest = max(self.source.start, floor.upstream + 1 if floor else 0, low.upstream if low else 0)
        stretch, edge = near, offset
        for tried in range(_TRIED):
            candidate = yield from stretch.last_before(edge)
            if candidate is None or candidate.offset < lowest:
                break
            anchor = yield from self._usable_copy(candidate, offset, near, stretch, searched=tried < _SEARCHED)
            if anchor is None and tried == 0:
                anchor = yield from self._head(offset, near)
            if anchor is not None:
                return anchor if floor is None or anchor.upstream > floor.upstream else floor
            # The copy is compacted away, or was never made: step back.
            edge = candidate.offset
            if tried >= _SINGLE_STEPS:
                edge = max(lowest + 1, edge - (1 << (tried - _SINGLE_STEPS)))
                if edge <= stretch.start:
                    stretch = yield from open_at(Side.SOURCE, edge - 1, self.source, self.budget)
        return floor

    def _usable_copy(
        self, record: RecordView, offset: int, near: Stretch, home: Stretch, *, searched: bool
    ) -> Steps:
        """The copy of `record`, provided its content does not recur at or after `offset` (a match could be of that
        one, and lie too high) nor stand before it (a match could be of that one, and the bound be too small)."""
        unique = False
        with self.budget.part():
            later = yield from twins.first_at_or_after(near, offset, record, self.memory)
            earlier = yield from twins.last_before(home, record.offset, record, self.memory)
            unique = later is None and earlier is None
        if not unique:
            return None
        anchor = yield from self._copy_of(record, searched=searched)
        if anchor is None:
            return None
        limit = self.memory.lowest_at_or_above(offset)
        if limit is not None and anchor.downstream >= limit:
            return None
        if home is near:
            with self.budget.part():
                again = yield from twins.first_at_or_after(near, record.offset + 1, record, self.memory)
                if again is None:
                    self.memory.add(anchor)  # never recurs: good for every offset above it
        return anchor

    def _copy_of(self, record: RecordView, *, searched: bool) -> Steps:
        below = self.memory.below(record.offset)
        plain = {anchor.delta for anchor in (self.memory.low, below) if anchor}
        for delta in self.memory.deltas(record.offset):
            guess = record.offset + delta
            if not self.target.start <= guess < self.target.end:
                continue
            stretch = yield from self.open_target(guess)
            copy = stretch.at(guess)
            if copy is not None and same(copy, record):
                if delta in plain:
                    return Anchor(record.offset, guess)
                return (yield from self.lowest(record, guess))
        nearby = min((r.offset for known in self._known for r in known.records if same(r, record)), default=None)
        if searched or nearby is not None:
            return (yield from self.lowest(record, nearby))
        return None

    def lowest(self, record: RecordView, known: int | None, *, by_time_alone: bool = False) -> Steps:
        """The lowest copy of `record`; None when there is none, or when the budget did not reach to prove it. No copy
        stands below the first place of its timestamp, nor below the lowest copy of an earlier record (unless the
        target's cleaner took that one's first copy: `by_time_alone` does not rely on it)."""
        anchor = None if by_time_alone else self.memory.below(record.offset)
        start = max(self.target.start, anchor.downstream + 1 if anchor else 0)
        if record.timestamp >= 0:
            first = yield from find_time(Side.TARGET, record.timestamp)
            if first is None:
                return None
            start = max(start, first)
        if known is not None and start >= known:
            return Anchor(record.offset, known)
        if start >= self.target.end:
            return None
        place = None
        with self.budget.part():
            stretch = yield from self.open_target(start)
            copy = yield from twins.first_at_or_after(stretch, start, record, self.memory)
            place = copy.offset if copy else known
        return None if place is None else Anchor(record.offset, place)

    def _head(self, offset: int, near: Stretch) -> Steps:
        """The newest record on the target, when it is a copy of one before `offset`: the mirror has not come further
        (the group is ahead of it), so no older candidate need be tried."""
        tail = yield from self.open_target(self.target.end - 1)
        last = yield from tail.last_before(self.target.end)
        if last is None:
            return None
        original = yield from self._original_of(last)
        if original is None or original.offset >= offset:
            return None
        if (yield from twins.first_at_or_after(near, offset, original, self.memory)) is not None:
            return None
        return (yield from self.lowest(original, last.offset))

    def _original_of(self, copy: RecordView) -> Generator[Need, Window | int | None, RecordView | None]:
        """The first record of the source with the content of `copy`: at a guess, or by time."""
        for delta in self.memory.deltas(copy.offset) or [0]:
            guess = copy.offset - delta
            if self.source.start <= guess < self.source.end:
                stretch = yield from open_at(Side.SOURCE, guess, self.source, self.budget)
                original = stretch.at(guess)
                if original is not None and same(original, copy):
                    earlier = yield from twins.last_before(stretch, guess, copy, self.memory)
                    return original if earlier is None else None
        first = yield from find_time(Side.SOURCE, copy.timestamp)
        if first is None or first >= self.source.end:
            return None
        original = None
        with self.budget.part():
            first = max(first, self.source.start)
            stretch = yield from open_at(Side.SOURCE, first, self.source, self.budget)
            original = yield from twins.first_at_or_after(stretch, first, copy, self.memory)
        return original

    def _seek_low(self) -> Generator[Need, Window | int | None, None]:
        """The first record of the target and its original: its delta is the first guess for all others. Where the
        source has lost that original, the first record of the source and its copy serve."""
        log = yield from self.open_target(self.target.start)
        yield from log.first_from(self.target.start)
        for copy in log.records[:BLOCK]:
            original = yield from self._original_of(copy)
            if original is None:
                continue
            self.memory.low = Anchor(original.offset, copy.offset)
            first = log.records[0]
            if copy is not first:  # it had no usable timestamp, perhaps; now there is a delta to guess by
                original = yield from self._original_of(first)
                if original is not None:
                    self.memory.low = Anchor(original.offset, first.offset)
            return
        log = yield from open_at(Side.SOURCE, self.source.start, self.source, self.budget)
        oldest = yield from log.first_from(self.source.start)
        if oldest is not None:
            self.memory.observe(log.records)
            self.memory.low = yield from self._copy_of(oldest, searched=True)
