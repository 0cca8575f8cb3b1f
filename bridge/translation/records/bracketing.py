r"""Translates by bracketing: finds where on the target the first record at or after a committed offset stands.

    source   ... p ........ o ..... v ...      p  a data record before o whose content does not recur at or after o
                  \                 \          v  a data record at or after o
    target   ...... copy(p) | L ..... copy(v)  L = copy(p) + 1

A mirror copies a partition in order, so nothing at or after `o` stands only below L, whatever was compacted, expired
or stamped: **L is the answer** (R1). When the first data record at or after L is the copy of some v >= o, or there is
none, a reader from L reads nothing twice: `exact`. Otherwise the answer is `bounded` by the data records up to the
first copy of such a v (R2). `alike` in the detail of a bounded answer names a record of the target that may be the copy
of such a v, or of an identical record before `o`: nothing in the logs tells which.

Plain logs are compared side by side (`aligned`); elsewhere copies are found as `copies` says, and identical records
are told apart by their originals (`copies`) and their rank. docs/decisions/0002 has the assumptions.

Sans-I/O: `bracket` yields needs and is sent their answers; the verdict is its return value.

Translates an offset of a plain log for the cost of one fetch on each side: compares both logs at a known delta.

Where neither log was ever seen to have a gap, and the records around the offset equal those around the guessed target
offset one by one, the guess is right, or too low: what the mirror has copied twice before moves all others up. That
shows, unless the records from the guess on are identical to those before them, so that they can be second copies. Eight
different records in a row that stand twice, sent again by their producer with the same timestamps, are assumed not to
occur.

Tells identical records on either side of the offset apart by their rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from bridge.model.values import Evidence, Flag, Judgement, Reason, RecordView, Side, Verdict
from bridge.translation.records.copies import BLOCK, Copies, at_or_after, first_at_or_after
from bridge.translation.records.log_window import (
    Budget,
    CapReached,
    Caps,
    LogBounds,
    LogReader,
    LogSection,
    Steps,
    same,
)
from bridge.translation.records.other_mirror import extent_of
from bridge.translation.records.partition_cache import Anchor, PartitionMemory

AROUND = 2 * BLOCK
"""Records compared on either side of the offset, as far as the logs go; at least a BLOCK of different ones in all."""

_BACK = 4 * AROUND
"""Records below the guess in which those from it on are searched for, near the end of a log; else AROUND."""
_CHECKED = 256
"""Target records in which the first unprocessed one is looked for; past them the bound is what the target holds."""


class AlignedOffset(NamedTuple):
    """The offset on the target of the first record at or after the source offset, or the lowest offset where it can;
    the target's end when the mirror has not come further than the record before the offset."""

    offset: int
    target_log: LogSection
    repeats: int
    """Records before the offset that may stand there a second time, at most: 0 when it is certain that none do."""


def aligned_offset(
    offset: int, source_log: LogSection, copies: Copies, memory: PartitionMemory
) -> Steps[AlignedOffset | None]:
    """Compares both logs around the offset; None when they are no plain logs. `source_log`: the source around the
    offset."""
    if not memory.gapless or not source_log.start <= offset <= source_log.end:
        return None
    anchors = (memory.low, memory.below(offset))
    # Between a record that the source still holds and the offset the mirror has lost none: nothing makes up for what it
    # copied twice.
    for delta in dict.fromkeys(
        anchor.delta for anchor in anchors if anchor and anchor.upstream >= source_log.bounds.start
    ):
        downstream = offset + delta
        if not copies.target.start <= downstream <= copies.target.end:
            continue
        target_log = yield from copies.open_target(max(copies.target.start, downstream - AROUND))
        while target_log.end < downstream:
            yield from target_log.forward()
        if not memory.gapless:
            return None
        end = _equal_until(offset, delta, source_log, target_log)
        if end is None:
            continue
        farthest = _farthest_twin(target_log.records[: end - target_log.start], downstream - target_log.start)
        if not farthest:
            memory.reach(offset)
            if offset > source_log.bounds.start:
                memory.add(Anchor(offset - 1, downstream - 1))
        return AlignedOffset(
            downstream, target_log, farthest and farthest + target_log.bounds.end - downstream
        )
    return None


def _equal_until(offset: int, delta: int, source_log: LogSection, target_log: LogSection) -> int | None:
    """Returns the target offset up to which the records around the offset equal their copies, None when they don't."""
    first = max(offset - AROUND, source_log.start, target_log.start - delta)
    end = min(offset + AROUND, source_log.end, target_log.end - delta)
    if first >= offset > source_log.bounds.start:
        return None  # the record before the offset is out of sight
    if end <= offset and offset + delta < target_log.bounds.end:
        return None  # the record at the offset is, though the target holds something in its place
    originals = source_log.records[first - source_log.start : end - source_log.start]
    copies = target_log.records[first + delta - target_log.start : end + delta - target_log.start]
    if not all(map(same, originals, copies)):
        return None
    different = len({(record.timestamp, record.key, record.value) for record in originals})
    return end + delta if different >= BLOCK else None


def _farthest_twin(records: Sequence[RecordView], at: int) -> int:
    """Returns 0 when the records from `at` on (where there are none, the last one) can't all be second copies of
    records before them; else how far back the farthest record stands that the first of them may be a second copy of."""
    first = min(at, len(records) - 1)
    low = max(0, first - (AROUND if len(records) - at == AROUND else _BACK))
    back = 1
    for number in range(first, len(records)):
        while number - back >= low and not same(records[number], records[number - back]):
            back += 1
        if number - back < low:
            return 0
    return max(back for back in range(1, first - low + 1) if same(records[first], records[first - back]))


def copy_of_first(
    offset: int,
    predecessor: Anchor | None,
    source_log: LogSection,
    target_log: LogSection,
    copies: Copies,
) -> Steps[int | None]:
    """Finds the copy of the first record at or after `offset`, None where rank proves nothing: it does only between two
    verified neighbours with the very same records between them on both sides, and no gap between those on the target.
    Then nothing was lost there, so what stands there is what was copied the first time; anything copied twice or sent
    by others would make it longer.

    `predecessor`: a record before the offset and its copy; `source_log`, `target_log`: source and target around them.
    """
    if predecessor is None or not source_log.start <= predecessor.upstream + 1 <= source_log.end:
        return None
    first_copy: int | None = None
    upstream, downstream = predecessor.upstream + 1, predecessor.downstream + 1
    while True:
        original = yield from source_log.first_from(upstream)
        copy = yield from target_log.first_from(downstream)
        if original is None or copy is None or not same(original, copy) or copy.offset != downstream:
            return None
        if original.offset >= offset:
            first_copy = copy.offset if first_copy is None else first_copy
            if (yield from _closes(original, copy, source_log, target_log, copies)):
                return first_copy
        upstream, downstream = original.offset + 1, copy.offset + 1


def _closes(
    original: RecordView,
    copy: RecordView,
    source_log: LogSection,
    target_log: LogSection,
    copies: Copies,
) -> Steps[bool]:
    """Whether the one is the copy of the other for certain, so that the comparison ends there."""
    after = yield from first_at_or_after(source_log, original.offset + 1, original, copies.memory)
    if after is not None:
        return False
    return (yield from at_or_after(original.offset, copy, source_log, target_log, copies)) is not None


def bracket(
    offset: int,
    source: LogBounds,
    target: LogBounds,
    memory: PartitionMemory,
    caps: Caps | None = None,
    *,
    compacted: bool | None = False,
) -> Steps[Verdict]:
    """Translates one committed offset. `source.end` and `target.end` are the ends of what may be read on each side;
    `compacted`: whether the target's topic is, None for not known.

    Returns a verdict `exact` or `bounded` with evidence `verified`, or `pending` with offset_beyond_end or
    copy_not_found; never an unverified offset.
    """
    if offset > source.end:
        # Truncated or re-created under the group: "caught up" would be a guess, and a wrong one skips.
        return Verdict.pending(Reason.OFFSET_BEYOND_END, source_end=source.end)
    if target.start >= target.end:
        return (yield from _of_empty_target(offset, source, target, memory, Budget(caps or Caps())))
    return (yield from _Bracket(offset, source, target, memory, caps or Caps(), compacted).run())


def _of_empty_target(
    offset: int, source: LogBounds, target: LogBounds, memory: PartitionMemory, budget: Budget
) -> Steps[Verdict]:
    """Returns the verdict for an empty target: copies that are still to come stand at its end or after. Whether they
    come, or retention on the target has taken them, the log does not tell: none of the source's records is there."""
    to_come = offset - max(source.start, memory.reached)
    verdict = _verdict(target.end, max(0, to_come), _flags(offset, source, ahead=to_come > 0))
    begin = max(offset, source.start)
    if begin >= source.end:
        return replace(verdict, not_on_target=0)
    try:
        log = yield from LogReader(Side.SOURCE, source, budget, memory).open(begin)
        first = yield from log.first_from(begin)
    except CapReached:
        return verdict
    return replace(verdict, not_on_target=0 if first is None else source.end - first.offset)


def _flags(offset: int, source: LogBounds, *, ahead: bool = False) -> tuple[Flag, ...]:
    truncated = (Flag.TRUNCATED,) if offset < source.start else ()
    return (*truncated, Flag.AHEAD_OF_MIRROR) if ahead else truncated


def _verdict(
    answer: int,
    bound: int,
    flags: tuple[Flag, ...],
    epoch: int = -1,
    detail: dict[str, str | int | None] | None = None,
    *,
    not_on_target: int | None = None,
) -> Verdict:
    judgement = Judgement.BOUNDED if bound else Judgement.EXACT
    return Verdict(
        judgement, answer, bound, Evidence.VERIFIED, None, flags, epoch, detail or {}, not_on_target
    )


class _Bracket:
    """Runs one translation: holds what was read of either side near the offset, and the budget left."""

    def __init__(
        self,
        offset: int,
        source: LogBounds,
        target: LogBounds,
        memory: PartitionMemory,
        caps: Caps,
        compacted: bool | None,
    ) -> None:
        self.offset, self.source, self.target, self.memory = offset, source, target, memory
        self._compacted = compacted
        self.budget = Budget(caps)
        self._source = LogReader(Side.SOURCE, source, self.budget, memory)
        self.copies = Copies(
            self._source, LogReader(Side.TARGET, target, self.budget, memory), memory, self.budget
        )

    def run(self) -> Steps[Verdict]:
        source_log: LogSection | None = None
        plain: AlignedOffset | None = None
        try:
            if not self.memory.low_sought or self.copies.low_gone:
                self._source.learns = True
                with self.budget.part():
                    yield from self.copies.seek_low()
                self.memory.low_sought = True
            source_log = yield from self._near()
            plain = yield from aligned_offset(self.offset, source_log, self.copies, self.memory)
            if plain is not None and not plain.repeats:
                return self._of_plain(plain)
            self._source.learns = True
            self.memory.observe(source_log.records)
            predecessor = yield from self.copies.of_last_before(self.offset, source_log)
        except CapReached:
            predecessor = self.memory.below(self.offset)
            if predecessor is None:
                if plain is not None:
                    return self._of_plain(plain)
                return Verdict.pending(Reason.COPY_NOT_FOUND, capped="search_bytes")
            if source_log is None:
                self.budget.left = self.budget.read_bytes
                source_log = yield from self._source.open(
                    max(self.source.start, min(self.offset, self.source.end) - 1)
                )
        if predecessor is None and not self.copies.unsure_first and not self._nothing_before(source_log):
            return Verdict.pending(Reason.COPY_NOT_FOUND) if plain is None else self._of_plain(plain)
        answer = max(self.target.start, predecessor.downstream + 1 if predecessor else 0)
        verdict = yield from self._judge(answer, predecessor, source_log)
        assert verdict.bound is not None
        return verdict if plain is None or verdict.bound <= plain.repeats else self._of_plain(plain)

    def _near(self) -> Steps[LogSection]:
        """Reads the source around the offset: what is needed to compare, and the record right before the offset if
        there is one."""
        position = max(self.source.start, min(self.offset, self.source.end) - AROUND)
        source_log = yield from self._source.open(position)
        while source_log.end < self.offset and not source_log.at_end:
            yield from source_log.forward()
        return source_log

    def _of_plain(self, plain: AlignedOffset) -> Verdict:
        downstream, target_log, repeats = plain
        detail: dict[str, str | int | None] = {"pred_offset": self.offset - 1, "pred_copy": downstream - 1}
        if repeats:
            detail["alike"] = min(downstream, self.target.end - 1)
        elif downstream < self.target.end:
            detail |= {"next_offset": self.offset, "next_copy": downstream}
        flags = _flags(self.offset, self.source, ahead=repeats > 0 and downstream == self.target.end)
        return _verdict(downstream, repeats, flags, target_log.epoch, detail, not_on_target=0)

    def _nothing_before(self, source_log: LogSection) -> bool:
        """Whether no record before the offset can stand on the target: the source has none, or the mirror began at
        or after the offset (`latest`, or retention on the target). The answer is then the target's log start."""
        low = self.memory.low
        if low is not None and low.upstream >= self.offset:
            return True
        return source_log.at_start and source_log.index(self.offset) == 0

    def _judge(self, answer: int, predecessor: Anchor | None, source_log: LogSection) -> Steps[Verdict]:
        """Returns the verdict on `answer`: exact when the first data record there is a copy of one at or after the
        offset."""
        flags = _flags(self.offset, self.source)
        detail: dict[str, str | int | None] = {}
        if predecessor:
            detail |= {"pred_offset": predecessor.upstream, "pred_copy": predecessor.downstream}
        epoch = -1
        try:
            target_log = yield from self.copies.open_target(answer)
            epoch = target_log.epoch
            first = yield from target_log.first_from(answer)
            if first is None:
                to_come = self._to_come(source_log)
                flags = _flags(self.offset, self.source, ahead=to_come > 0)
                return _verdict(answer, to_come, flags, detail=detail, not_on_target=self._passed)
            original = yield from at_or_after(self.offset, first, source_log, target_log, self.copies)
            if original is not None:
                detail |= {"next_offset": original.offset, "next_copy": first.offset}
                absent = yield from self._absent_before(original.offset, source_log)
                return _verdict(answer, 0, flags, epoch, detail, not_on_target=absent)
            ranked = yield from copy_of_first(self.offset, predecessor, source_log, target_log, self.copies)
            if ranked is not None:
                return _verdict(ranked, 0, flags, epoch, detail | {"by": "rank"}, not_on_target=0)
            if (yield from first_at_or_after(source_log, self.offset, first, self.memory)) is not None:
                detail["alike"] = first.offset
            upper = yield from self._first_unprocessed(answer, source_log, target_log)
            if upper is None:
                absent = yield from self._absent_behind(answer)
            else:
                absent = yield from self._absent_before(upper.upstream, source_log)
        except CapReached:
            upper, absent = None, (yield from self._absent_behind(answer))
        if upper is None:
            bound = self.target.end - answer + self._to_come(source_log)
            return _verdict(answer, bound, flags, epoch, detail, not_on_target=absent)
        bound = target_log.index(upper.downstream) - target_log.index(answer)
        detail["next_copy"] = upper.downstream
        return _verdict(answer, bound, flags, epoch, detail, not_on_target=absent)

    @property
    def _passed(self) -> int:
        """How many records at or after the offset the mirror has come past, where the target holds none of them: they
        are gone. The rest is yet to be copied."""
        return max(0, self.memory.reached - max(self.offset, self.source.start))

    def _absent_behind(self, answer: int) -> Steps[int | None]:
        """Returns how many of the records at or after the offset that the mirror has come past are not at `answer` or
        behind it, where it is not known which record each copy there is of; None where that is not known."""
        begin = max(self.offset, self.source.start)
        if self.memory.reached <= begin:
            return 0
        source, target = LogBounds(begin, self.memory.reached), LogBounds(answer, self.target.end)
        held = yield from extent_of(source, target, compacted=self._compacted)
        return None if held is None else held.begin - source.start + source.end - held.end

    def _absent_before(self, upstream: int, source_log: LogSection) -> Steps[int | None]:
        """Returns how many records of the source at or after the offset, at most, precede `upstream`, the first that
        the target holds at its answer: they are not there. None where that is not known."""
        begin = max(self.offset, self.source.start)
        first = yield from source_log.first_from(begin)
        if first is None or first.offset >= upstream:
            return 0
        if self._compacted is False:
            return upstream - first.offset
        absent = yield from self._not_superseded(begin, upstream, source_log)
        return None if absent == 0 and self._compacted is None else absent

    def _not_superseded(self, begin: int, upstream: int, source_log: LogSection) -> Steps[int | None]:
        """Counts the keys of records in [begin, upstream) that no later record of the source has: compaction on the
        target may have taken those that one has. None where there is more to read than one translation may."""
        waiting: set[bytes | None] = set()
        position = begin
        try:
            while True:
                record = yield from source_log.first_from(position)
                if record is None or (record.offset >= upstream and not waiting):
                    return len(waiting)
                if record.offset < upstream:
                    waiting.add(record.key)
                else:
                    waiting.discard(record.key)
                position = record.offset + 1
        except CapReached:
            return None

    def _to_come(self, source_log: LogSection) -> int:
        """Returns how many records before the offset may still be copied."""
        reached = self.memory.reached
        unseen = max(0, min(source_log.start, self.offset) - max(reached, self.source.start))
        return unseen + max(0, source_log.index(self.offset) - source_log.index(reached))

    def _first_unprocessed(
        self, answer: int, source_log: LogSection, target_log: LogSection
    ) -> Steps[Anchor | None]:
        """Finds the first copy at or after `answer` that is known to be of a record at or after the committed offset;
        None where the target ends without one. Raises CapReached where that is too far."""
        checked = answer
        for _ in range(_CHECKED):
            record = yield from target_log.first_from(checked)
            if record is None:
                return None
            original = yield from at_or_after(self.offset, record, source_log, target_log, self.copies)
            if original is not None:
                return Anchor(original.offset, record.offset)
            checked = record.offset + 1
        raise CapReached
