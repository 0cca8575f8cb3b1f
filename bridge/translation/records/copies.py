"""Finds the copy of a source record on the target: guesses and verifies, then searches by timestamp.

The copy looked for is the **lowest** one: where a mirror copied twice, a later copy may lie above records that the
group has not processed. A match is proved to be the lowest by asking where its timestamp first occurs and reading on
from there, unless both logs are plain around it (`bridge.translation.records.bracketing`).

Searches a log for records identical to a given one.

A copy is recognised by its content, so a record that recurs proves nothing of which of the two a copy is of. The
search ends where timestamps have passed the record's by more than twice the largest disorder seen in that partition,
for a whole block of different records; that identical records are never farther apart is an assumption. A record with
a negative timestamp says nothing about where identical ones may be: the search goes to the end.

Tells by the records next to a copy which original it is of, where its own content does not: an identical record may
be far away.

Finds the record of the source that a copy was made of.

A copy has the content of its original, and perhaps that of other records too. Those that the source still holds can be
looked at. Those that compaction or retention has taken can't: a missing offset may have held the very same record, and
the copy be of that one. Two things settle it:

- nothing is missing where a record alike can have stood, back to where timestamps lie before it for good; or
- the mirror has come past the record that is left. Then it has copied both, the lost one first, and cleaners and
  retention take the older of two copies first: the only copy that is left is of the record that is left.
"""

from __future__ import annotations

from typing import NamedTuple

from bridge.model.values import RecordView
from bridge.translation.records.log_window import Budget, LogReader, LogSection, Steps, same
from bridge.translation.records.partition_cache import Anchor, PartitionMemory

BLOCK = 8
"""Records in a row that settle a question which one or two, stamped 2030 say, must not."""

PATIENCE = 4 * BLOCK
"""The same on the target, where others may have sent some of them at any time."""
COUNT = 3
"""Records next to a copy that are looked at."""
_SEARCHED = 4
"""Candidates that may cost a timestamp search each; older ones are looked for by guesses only."""
_TAIL = 4
"""Records at the end of the target that may show how far the mirror has come."""
_SINGLE_STEPS = 16
_TRIED = 64
"""Candidates in all; past the sixteenth the steps back double, so 64 reach any log's start."""
_APART = 4 * PATIENCE
"""So many records more, between a lost one and the one that is left, a second copy is looked for in; further would cost
too much."""


class _Passed:
    """Counts different records in a row that lie beyond the time of `original`. Identical ones count once: where a
    mirror copied again, all between two records is there twice."""

    def __init__(self, original: RecordView, memory: PartitionMemory, settled: int = BLOCK) -> None:
        self._original, self._memory, self._settled = original, memory, settled
        self._different: set[tuple[int, bytes | None, bytes | None]] = set()

    def settles(self, record: RecordView, gap: int) -> bool:
        """Whether the record settles the search. `gap`: ms by which the record lies beyond `original` in the direction
        of the search."""
        if gap <= 2 * self._memory.disorder:
            self._different.clear()
            return False
        self._different.add((record.timestamp, record.key, record.value))
        return len(self._different) >= self._settled and self._original.timestamp >= 0


def first_at_or_after(
    section: LogSection, offset: int, original: RecordView, memory: PartitionMemory, settled: int = BLOCK
) -> Steps[RecordView | None]:
    """Finds the first record at or after `offset` with the content of `original`; None when timestamps have passed it
    for `settled` records in a row."""
    passed = _Passed(original, memory, settled)
    index = section.index(offset)
    while True:
        while index < len(section.records):
            record = section.records[index]
            if same(record, original):
                return record
            if passed.settles(record, record.timestamp - original.timestamp):
                return None
            index += 1
        if section.at_end:
            return None
        yield from section.forward()


class Before(NamedTuple):
    """The result of searching before an offset for records identical to a given one."""

    stands: bool
    """Whether there is one."""
    lost: int | None
    """The lowest offset where one may have stood that compaction or retention has taken; None when there is none."""


def find_before(
    section: LogSection, offset: int, original: RecordView, memory: PartitionMemory, began: int = 0
) -> Steps[Before]:
    """Searches for the content of `original` before `offset`; reads no further than to a record that has it, or to
    where timestamps lie before its own for good. `began`: nothing that counts was ever below."""
    passed = _Passed(original, memory)
    edge, lost = offset, None
    while True:
        index = section.index(edge) - 1
        while index >= 0:
            record = section.records[index]
            gap = section.lost(record.offset + 1, edge)
            lost = lost if gap is None else gap
            if same(record, original):
                return Before(True, lost)
            if passed.settles(record, original.timestamp - record.timestamp):
                return Before(False, lost)
            edge = record.offset
            index -= 1
        if section.at_start:
            gap = section.lost(began, edge)
            return Before(False, lost if gap is None else gap)
        yield from section.backward()


def beside(
    record: RecordView, downstream: int, record_log: LogSection, target_log: LogSection
) -> Steps[bool]:
    """Whether the target has, near the copy at `downstream`, what the source has near `record`: then it is the copy of
    `record`, and not of an identical earlier one that is too far away to be seen. `record_log`, `target_log`: source
    and target around them."""
    edge = record.offset
    preceding: list[RecordView] = []
    while len(preceding) < BLOCK and (earlier := (yield from record_log.last_before(edge))) is not None:
        preceding.append(earlier)
        edge = earlier.offset
    if not preceding:
        return True
    edge = downstream
    for _ in range(COUNT):
        earlier = yield from target_log.last_before(edge)
        if earlier is None:
            break
        if any(same(earlier, view) for view in preceding):
            return True
        edge = earlier.offset
    after = yield from record_log.first_from(record.offset + 1)
    following = yield from target_log.first_from(downstream + 1)
    if after is None or following is None:
        return False
    return same(following, after) and not same(after, record)


def none_alike(
    offset: int,
    record: RecordView,
    downstream: int,
    source_log: LogSection,
    target_log: LogSection,
    memory: PartitionMemory,
) -> Steps[bool]:
    """Whether the source holds no record identical to `record` from `offset` to a little beyond the originals of what
    follows `downstream` on the target: then the copy at `downstream` is of a record before `offset`, as `record` is."""
    originals = []
    for _ in range(COUNT):
        following = yield from target_log.first_from(downstream + 1)
        if following is None:
            break
        original = yield from first_at_or_after(source_log, offset, following, memory)
        if original is not None:
            originals.append(original.offset)
        downstream = following.offset
    if not originals:
        return False
    # Beyond: what follows may recur, and its first original be that of another copy.
    while len(source_log.records) < source_log.index(max(originals)) + BLOCK and not source_log.at_end:
        yield from source_log.forward()
    return not any(same(view, record) for view in source_log.records[source_log.index(offset) :])


class Copies:
    """Finds copies and originals for one translation, and leaves anchors behind in the partition's memory."""

    def __init__(self, source: LogReader, target: LogReader, memory: PartitionMemory, budget: Budget) -> None:
        self._source, self._target = source, target
        self.source, self.target = source.bounds, target.bounds
        self.memory, self.budget = memory, budget
        self._sections: list[LogSection] = []
        self.unsure_first = False
        """Whether the first records of the target may be copies of one before the offset, or of one after it."""

    def open_target(self, offset: int) -> Steps[LogSection]:
        """Returns a section of the target that covers `offset`, or ends at it when that is the log's end."""
        for section in self._sections:
            if section.covers(offset) or (section.at_end and section.end == offset):
                return section
        section = yield from self._target.open(max(self.target.start, offset - BLOCK))
        while not section.covers(offset) and not section.at_end:
            yield from section.forward()
        self._sections.append(section)
        return section

    def of_last_before(self, offset: int, source_log: LogSection) -> Steps[Anchor | None]:
        """Finds the copy of the last usable record before `offset`; None when no record before it has one.
        `source_log`: the source around the offset."""
        floor, low = self.memory.below(offset), self.memory.low
        lowest = max(self.source.start, floor.upstream + 1 if floor else 0, low.upstream if low else 0)
        section, edge = source_log, offset
        for tried in range(_TRIED):
            candidate = yield from section.last_before(edge)
            # The first is tried in any case: what stood lower when the anchors were found may be gone.
            if candidate is None or (tried and candidate.offset < lowest):
                break
            anchor = yield from self._usable_copy(
                candidate, offset, source_log, section, searched=tried < _SEARCHED
            )
            if anchor is None and tried == 0:
                anchor = yield from self._head(offset, source_log)
            if anchor is not None:
                return anchor if floor is None or anchor.downstream > floor.downstream else floor
            # The copy is compacted away, or was never made: step back.
            edge = candidate.offset
            if tried >= _SINGLE_STEPS:
                edge = max(lowest + 1, edge - (1 << (tried - _SINGLE_STEPS)))
                if edge <= section.start:
                    section = yield from self._source.open(edge - 1)
        return floor

    def _usable_copy(
        self,
        record: RecordView,
        offset: int,
        source_log: LogSection,
        record_log: LogSection,
        *,
        searched: bool,
    ) -> Steps[Anchor | None]:
        """Finds the copy of `record`, provided its content does not recur at or after `offset` (a match could be of
        that one, and lie too high) nor stand before it (a match could be of that one, and the bound be too small)."""
        before = Before(True, None)
        with self.budget.part():
            if (yield from first_at_or_after(source_log, offset, record, self.memory)) is None:
                before = yield from find_before(record_log, record.offset, record, self.memory)
        if before.stands:
            return None
        anchor = yield from self._copy_of(record, searched=searched)
        if anchor is None or not (yield from self._is_before(offset, anchor, record, source_log, record_log)):
            return None
        yield from self._reach(record, before, anchor.downstream, record_log)
        between = source_log.records[source_log.index(record.offset + 1) : source_log.index(offset)]
        if record_log is source_log and not any(same(view, record) for view in between):
            with self.budget.part():
                again = yield from first_at_or_after(source_log, record.offset + 1, record, self.memory)
                if again is None:
                    self.memory.add(anchor)  # never recurs: good for every offset above it
        return anchor

    def _is_before(
        self,
        offset: int,
        anchor: Anchor,
        record: RecordView,
        source_log: LogSection,
        record_log: LogSection,
    ) -> Steps[bool]:
        """Whether the anchor is a copy of `record`, and not of an identical one at or after `offset` that is too far
        away to be seen. It is where the target has lost no earlier copy; otherwise its neighbours decide."""
        downstream, unprocessed = anchor.downstream, self.memory.at_or_above(offset)
        if unprocessed is not None and unprocessed <= downstream:
            return False
        target_log = yield from self.open_target(downstream)
        below = self.memory.below(record.offset + 1)
        begun = below is not None and below.downstream >= self.target.start
        began = self.target.start if begun else -1
        if (yield from find_before(target_log, downstream, record, self.memory, began)).lost is None:
            return True
        sure = yield from none_alike(offset, record, downstream, source_log, target_log, self.memory)
        for number in range(COUNT):
            earlier = yield from target_log.last_before(downstream)
            if earlier is None:
                self.unsure_first |= number == 0
                break
            gone, downstream = target_log.lost(earlier.offset + 1, downstream), earlier.offset
            if (yield from find_before(record_log, record.offset, earlier, self.memory)).stands:
                sure |= number == 0 and gone is None
            elif (yield from first_at_or_after(source_log, offset, earlier, self.memory)) is not None:
                return False
        return sure

    def _reach(
        self, record: RecordView, before: Before, downstream: int, record_log: LogSection
    ) -> Steps[None]:
        """Notes how far the mirror has come: the record at `downstream` is a copy of `record`, or of an identical
        one that is lost."""
        target_log = yield from self.open_target(downstream)
        if (yield from beside(record, downstream, record_log, target_log)):
            self.memory.reach((record.offset if before.lost is None else before.lost) + 1)

    def _copy_of(self, record: RecordView, *, searched: bool) -> Steps[Anchor | None]:
        for delta in self.memory.deltas(record.offset):
            guess = record.offset + delta
            if not self.target.start <= guess < self.target.end:
                continue
            section = yield from self.open_target(guess)
            copy = section.at(guess)
            if copy is not None and same(copy, record):
                return (yield from self.lowest(record, guess))
        nearby = min(
            (r.offset for section in self._sections for r in section.records if same(r, record)), default=None
        )
        if searched or nearby is not None:
            return (yield from self.lowest(record, nearby))
        return None

    def lowest(self, record: RecordView, known_copy: int | None) -> Steps[Anchor | None]:
        """Finds the lowest copy of `record`; None when there is none, or the budget was too small to prove it. No copy
        stands below the first offset of its timestamp, nor below the lowest copy of an earlier record. `known_copy`:
        the offset of some copy."""
        start = yield from self._target.first_at_time(record.timestamp)
        if start is None:
            return None
        anchor = self.memory.below(record.offset)
        start = max(start, anchor.downstream + 1 if anchor else 0)
        if known_copy is not None and start >= known_copy:
            return Anchor(record.offset, known_copy)
        if start >= self.target.end:
            return None
        downstream = None
        with self.budget.part():
            section = yield from self.open_target(start)
            if known_copy is None:
                copy = yield from first_at_or_after(section, start, record, self.memory, PATIENCE)
                downstream = copy.offset if copy else None
            else:
                downstream = yield from _first_until(section, start, known_copy, record)
        return None if downstream is None else Anchor(record.offset, downstream)

    def _head(self, offset: int, source_log: LogSection) -> Steps[Anchor | None]:
        """Returns the newest record on the target, when it is a copy of one before `offset`: the mirror has not come
        further (the group is ahead of it), so no older candidate need be tried."""
        tail = yield from self.open_target(self.target.end - 1)
        last = yield from tail.last_before(self.target.end)
        original = None if last is None else (yield from self.original_of(last))
        if last is None or original is None or original.offset >= offset:
            return None
        if (yield from first_at_or_after(source_log, offset, original, self.memory)) is not None:
            return None
        anchor = yield from self.lowest(original, last.offset)
        if anchor is None or not (
            yield from self._is_before(offset, anchor, original, source_log, source_log)
        ):
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
            downstream = self.target.end
            for _ in range(_TAIL):
                last = yield from tail.last_before(downstream)
                if last is None:
                    return
                original = yield from self.original_of(last)
                if original is not None and self.memory.reached > original.offset:
                    yield from self._pass_markers()
                    return
                downstream = last.offset

    def _pass_markers(self) -> Steps[None]:
        """Takes the source for copied to its end where no record follows the last that is copied: control records never
        are, and would be missing for good."""
        position = self.memory.reached
        if position < self.source.end:
            section = yield from self._source.open(position)
            if (yield from section.first_from(position)) is None:
                self.memory.reach(self.source.end)

    def original_of(self, copy: RecordView) -> Steps[RecordView | None]:
        """Finds the first record of the source with the content of `copy`, by a guess or by time; also None where
        the guess is right and an earlier record has the same content."""
        for delta in self.memory.deltas(copy.offset) or [0]:
            guess = copy.offset - delta
            if self.source.start <= guess < self.source.end:
                section = yield from self._source.open(guess)
                original = section.at(guess)
                if original is not None and same(original, copy):
                    before = yield from find_before(section, guess, copy, self.memory)
                    if before.stands:
                        return None
                    yield from self._reach(original, before, copy.offset, section)
                    return original
        first = (yield from self._source.first_at_time(copy.timestamp)) if copy.timestamp >= 0 else None
        original = None
        if first is not None:
            with self.budget.part():
                section = yield from self._source.open(first)
                original = yield from first_at_or_after(section, first, copy, self.memory)
                if original is not None:
                    before = yield from find_before(section, original.offset, copy, self.memory)
                    yield from self._reach(original, before, copy.offset, section)
        return original

    @property
    def low_gone(self) -> bool:
        """Whether retention has taken the known first record of the target, or its original."""
        low = self.memory.low
        return low is not None and (low.downstream < self.target.start or low.upstream < self.source.start)

    def seek_low(self) -> Steps[None]:
        """Finds the first record of the target and its original: its delta is the first guess for all others, and
        nothing below it was copied. Where the source has lost that original, the first record of the source and its
        copy serve; those are looked at first when the source alone has lost what was known."""
        low = self.memory.low
        searches = [self._low_of_target, self._low_of_source]
        for search in reversed(searches) if low and low.downstream >= self.target.start else searches:
            self.memory.low = yield from search()
            if self.memory.low is not None:
                return

    def _low_of_target(self) -> Steps[Anchor | None]:
        log = yield from self.open_target(self.target.start)
        yield from log.first_from(self.target.start)
        for copy in log.records[:BLOCK]:
            original = yield from self.original_of(copy)
            if original is None:
                continue
            self.memory.low = Anchor(original.offset, copy.offset)
            first = log.records[0]
            if copy is not first:  # it had no usable timestamp, perhaps; now there is a delta to guess by
                original = yield from self.original_of(first)
                if original is not None:
                    return Anchor(original.offset, first.offset)
            return self.memory.low
        return None

    def _low_of_source(self) -> Steps[Anchor | None]:
        log = yield from self._source.open(self.source.start)
        oldest = yield from log.first_from(self.source.start)
        return None if oldest is None else (yield from self._copy_of(oldest, searched=True))


def _first_until(section: LogSection, start: int, known_copy: int, record: RecordView) -> Steps[int]:
    """Finds the lowest offset of `record` in [start, known_copy]; it stands at `known_copy`. Reads all of it: between a
    copy and an earlier one may stand anything that foreign writers have sent."""
    index = section.index(start)
    while True:
        while index < len(section.records):
            candidate = section.records[index]
            if candidate.offset >= known_copy:
                return known_copy
            if same(candidate, record):
                return candidate.offset
            index += 1
        if section.end > known_copy or section.at_end:
            return known_copy
        yield from section.forward()


def at_or_after(
    offset: int, copy: RecordView, source_log: LogSection, target_log: LogSection, copies: Copies
) -> Steps[RecordView | None]:
    """Finds the first record at or after `offset` with the content of `copy`, where it is certain that `copy` is of one
    at or after `offset`; else None. `source_log`, `target_log`: source and target around them.

    For certain only where no copy of the same content follows: of two the first may be of a lost record.
    """
    memory = copies.memory
    original = yield from first_at_or_after(source_log, offset, copy, memory)
    if original is None:
        return None
    before = yield from find_before(source_log, offset, copy, memory)
    if before.stands:
        return None
    if before.lost is None and (yield from beside(original, copy.offset, source_log, target_log)):
        memory.reach(offset + 1)
        return original
    # Between two copies stand at most as many different ones as between their originals, and what others sent.
    apart = 0 if before.lost is None else min(original.offset - before.lost, _APART)
    settled = PATIENCE + apart
    if (yield from first_at_or_after(target_log, copy.offset + 1, copy, memory, settled)) is not None:
        return None
    if memory.reached <= original.offset:
        yield from copies.see_tail()
    if memory.reached <= original.offset:
        return None
    if before.lost is None:
        return original
    # A lost one may have stood so far before that no copy of it was looked for. Its followers are lost with it, or
    # stand before the one that is left.
    downstream = copy.offset
    for _ in range(COUNT):
        following = yield from target_log.first_from(downstream + 1)
        if following is None:
            return None
        if (yield from first_at_or_after(source_log, original.offset + 1, following, memory)) is not None:
            return original
        downstream = following.offset
    return None
